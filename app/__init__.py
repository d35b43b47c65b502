"""The program: command line and window."""

from __future__ import annotations
