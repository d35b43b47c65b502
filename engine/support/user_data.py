"""The folder of user data that cannot be regenerated: calibrations."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path


def data_folder() -> Path:
    """LOOMSCOPE_DATA, else loomscope in XDG_DATA_HOME, else ~/.local/share/loomscope; it may not exist yet."""
    return _folder(os.environ.get("LOOMSCOPE_DATA"), os.environ.get("XDG_DATA_HOME"), os.environ.get("HOME"))


@lru_cache(maxsize=16)
def _folder(chosen: str | None, shared: str | None, home: str | None) -> Path:
    """home: unread, as `Path.home` knows it also where it is not set; another one is another folder."""
    if chosen:
        return Path(chosen)
    return Path(shared or Path.home() / ".local" / "share") / "loomscope"
