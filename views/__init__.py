"""Passive Qt widgets: documents in through `show_*`, requests out through `*_requested` and `*_selected` signals."""
