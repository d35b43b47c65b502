"""Units in which figures are told."""

from __future__ import annotations

MICROSECONDS = 1e6
"""Microseconds of a second."""
