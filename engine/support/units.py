"""Units of displayed figures, and figures as text."""

from __future__ import annotations

MICROSECONDS = 1e6
"""Microseconds in a second."""


def bytes_text(count: float) -> str:
    """Three significant digits with a decimal unit: "16.8 MB"."""
    return f"{_with_prefix(count)}B"


def count_text(value: float) -> str:
    """Three significant digits with a decimal prefix: "1.39 M"."""
    return _with_prefix(value).strip()


def several(number: int, noun: str) -> str:
    """A number with its noun: "1 wave", "3 waves"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _with_prefix(value: float) -> str:
    for scale, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:.3g} {prefix}"
    return f"{value:.3g} "
