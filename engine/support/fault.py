"""Reports a fault of the program: one message, and the traceback in a report file."""

from __future__ import annotations

import os
import platform
import tempfile
import time
import traceback
from pathlib import Path

from engine.support.errors import EngineError, Fault, MissingCapability
from engine.support.user_data import data_folder


def as_engine_error(error: Exception, context: str) -> EngineError:
    """An error to show for any exception: itself, or a fault that names the report file with the traceback.

    context: what was asked for, in the report.
    """
    if isinstance(error, EngineError):
        return error
    if isinstance(error, MemoryError):
        reason = "needs more memory than this machine has"
        return MissingCapability("start", context[:100], reason, "try a smaller model")
    lines = traceback.format_exception(error)
    machine = f"Python {platform.python_version()}, {platform.platform()}"
    path = _write_report(f"{context}\n{machine}\n\n{''.join(lines)}")
    what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    where = f"please report it with the file {path}" if path else "no report could be written: is the disk full?"
    return Fault("start", "a fault of loomscope", f"this is not your doing ({what})", where)


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
