"""The constraint tree and its text."""
