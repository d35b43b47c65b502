"""The window's fixtures, on the display that the environment names."""

from __future__ import annotations

import os

from tests.app.conftest import make, qapp, quiet, settings, shared, window
from tests.xcb.desk import start

__all__ = ["make", "qapp", "quiet", "settings", "shared", "start", "window"]

if os.environ.get("QT_QPA_PLATFORM") != "xcb":
    collect_ignore_glob = ["test_*.py"]  # `tests/test_xcb.py` runs them
