"""Plain values that cross to the window and to `--json`: types only."""
