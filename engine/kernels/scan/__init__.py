"""Prefix sums: every element is joined with those before it, in one pass."""
