"""Temporary folders and files that a killed process leaves behind, and their removal at the next start.

The name of each holds its process's id, and the process holds a lock on it (flock), which the system releases with the
process.  Either alone would not do: ids are used again, and mean nothing to a container that shares the folder; a lock
is taken a moment after the folder is made.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

MEMORY = Path("/dev/shm")
"""Folder whose files are in memory, on Linux."""
_NAME = re.compile(r"loomscope-(\d+)-")


def prefix() -> str:
    """What the names of this process's temporary folders and files begin with."""
    return f"loomscope-{os.getpid()}-"


@contextmanager
def temporary_folder(place: Path | None = None) -> Iterator[Path]:
    """A folder in a place (None: the default one of temporary files), removed on exit or by the next `sweep`."""
    folder = Path(tempfile.mkdtemp(dir=place, prefix=prefix()))
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            lock(handle)
            yield folder
        finally:
            os.close(handle)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def lock(handle: int) -> bool:
    """Lock a temporary file or folder until its handle is closed; whether that could be done.

    Network file systems may have no locks for folders: what is there is never swept.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def sweep(*places: Path) -> None:
    """Remove what ended processes of this user left in the places, in /dev/shm and among the temporary files."""
    for place in {*places, MEMORY, Path(tempfile.gettempdir())}:
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                found = _NAME.match(entry.name)
                if found and not _is_running(int(found[1])):
                    _remove(Path(entry.path))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _remove(path: Path) -> None:
    """Remove a file or folder of this user unless a process holds its lock."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            if os.fstat(handle).st_uid != os.geteuid() or not lock(handle):
                return
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        finally:
            os.close(handle)


@cache
def process_folder() -> Path:
    """A folder that lives as long as this process; one that is killed leaves it to the next `sweep`."""
    opened = ExitStack()
    atexit.register(opened.close)
    return opened.enter_context(temporary_folder())
