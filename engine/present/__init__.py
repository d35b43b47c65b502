"""Builders of the documents: values of the engine as what the window shows and `--json` prints."""
