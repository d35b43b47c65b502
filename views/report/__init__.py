"""A report of a model or a session as one HTML file; needs no Qt."""
