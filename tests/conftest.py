"""Settings that hold for all tests."""

from __future__ import annotations

import os

# Before any test imports Qt: windows are painted in memory, on machines with and without a display.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
