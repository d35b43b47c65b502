"""Units of displayed figures."""

from __future__ import annotations

MICROSECONDS = 1e6
"""Microseconds in a second."""
