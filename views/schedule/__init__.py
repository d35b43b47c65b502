"""The schedule tree."""
