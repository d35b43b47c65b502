"""Passive Qt widgets: documents in through `show_*`, wishes out through `*_requested` and `*_selected` signals."""
