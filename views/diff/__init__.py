"""Two steps of a history side by side."""
