"""Units of displayed figures."""

from __future__ import annotations

MICROSECONDS = 1e6
"""Microseconds in a second."""


def kib(size: float) -> str:
    """Bytes for people: "48 KiB", "786,432 KiB"."""
    return f"{size / 1024:,.0f} KiB" if size >= 1000 * 1024 else f"{size / 1024:.3g} KiB"
