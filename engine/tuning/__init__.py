"""Searching recipes: programs that rules allow, pruned before they cost anything, and trials spent where they pay."""
