"""Child processes of the engine: where they run, and how one is ended when its time is up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from threading import Event, Timer
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
"""Folder that holds the `engine` package, and working directory of Python child processes.  They never run in the
user's folder: a file there that is named like a module would be imported in place of that module."""


@contextmanager
def time_limit(process: Popen[Any], seconds: float) -> Iterator[Event]:
    """Kill the process if the block takes longer than `seconds`; the event is set where that happened.

    The kill closes the process's pipes, so a read that waits for it inside the block returns.
    """
    is_overdue = Event()

    def kill() -> None:
        is_overdue.set()
        process.kill()

    alarm = Timer(seconds, kill)
    # A thread that is no daemon would keep an interrupted interpreter alive until the time is up.
    alarm.daemon = True
    alarm.start()
    try:
        yield is_overdue
    finally:
        alarm.cancel()
