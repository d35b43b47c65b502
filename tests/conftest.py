"""Settings that hold for all tests."""

from __future__ import annotations

import os

# Before any test imports Qt: windows are painted in memory, on machines with and without a display.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# Predictions are those of the target's description, whatever this user has measured.
os.environ["LOOMSCOPE_DATA"] = os.path.join(os.path.dirname(__file__), "no-data-of-the-user")
