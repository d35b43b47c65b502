"""Units of displayed figures."""

from __future__ import annotations

MICROSECONDS = 1e6
"""Microseconds in a second."""


def kib(size: float) -> str:
    """Bytes for people: "48 KiB"."""
    return f"{size / 1024:.3g} KiB"
