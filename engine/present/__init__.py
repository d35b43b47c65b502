"""Build documents from engine values, for the window and `--json`."""
