"""The model as a tree of groups."""
