"""The folder of user data that cannot be regenerated: calibrations."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """LOOMSCOPE_DATA, else loomscope in XDG_DATA_HOME, else ~/.local/share/loomscope; it may not exist yet."""
    chosen = os.environ.get("LOOMSCOPE_DATA")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "loomscope"
