"""The card about edges between groups, and the chooser of groups."""
