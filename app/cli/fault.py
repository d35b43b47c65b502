"""A fault of ours, told in one message: the traceback goes into a report file."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
import traceback
from pathlib import Path

from engine.support.errors import Fault
from engine.support.user_data import data_folder


def report_fault(error: Exception) -> Fault:
    """The fault to show for an exception that nobody foresaw; its traceback is written to a file, which it names."""
    path = _write_report(_report(error))
    what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    where = f"please report it with the file {path}" if path else "no report could be written: is the disk full?"
    return Fault("start", "a fault of loomscope", f"this is not your doing ({what})", where)


def _report(error: Exception) -> str:
    lines = traceback.format_exception(error)
    return f"arguments: {sys.argv[1:]}\nPython {platform.python_version()}, {platform.platform()}\n\n{''.join(lines)}"


def _write_report(text: str) -> Path | None:
    """The file that holds the text: beside the user's data, or else in the folder for temporary files."""
    name = f"fault-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for folder in (data_folder() / "faults", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue
        return folder / name
    return None
