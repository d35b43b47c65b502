"""How figures are told that engine and window both tell."""

from __future__ import annotations


def kib(size: float) -> str:
    """Bytes of shared memory: "64 B", "48 KiB", "54.8 KiB", "786,432 KiB"."""
    if size < 1024:
        return f"{size:.0f} B"
    return f"{size / 1024:,.0f} KiB" if size >= 1000 * 1024 else f"{size / 1024:.3g} KiB"
