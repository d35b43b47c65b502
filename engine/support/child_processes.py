"""Child processes of the engine: where they run, their limits, and how they end.

Children run in the process group of a reaper: a small process that kills its group as soon as this process is gone,
however it ended.  What a child starts itself (a compiler's passes, its linker) is in that group as well.
"""

from __future__ import annotations

import atexit
import errno
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from threading import Event, Lock, Timer
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
"""Folder that holds the `engine` package, and working directory of Python child processes.  They never run in the
user's folder: a file there that is named like a module would be imported in place of that module."""

_REAPER = """
import os, signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
os.write(1, b"+")
os.read(0, 1)
os.killpg(0, signal.SIGKILL)
"""
"""Standard input ends with the process that holds its other end, whatever ended that one."""
_POLL = 0.5
"""Seconds between two looks at whether the parent is there."""

_reaper: Popen[bytes] | None = None
_lock = Lock()


def start_child(command: Sequence[str], *, seconds: float = 0, memory: int = 0, **options: Any) -> Popen[Any]:
    """Start a process that ends with this one.  options: of `Popen`.

    seconds, memory: most processor time and address space in bytes, also of each process that it starts; 0: no limit.
    Raises OSError where it cannot be started.
    """
    return Popen(_with_limits(command, seconds, memory), process_group=_reaper_group(), **options)


def _with_limits(command: Sequence[str], seconds: float, memory: int) -> list[str]:
    """A command that sets its own limits before its program begins.

    The shell does it: limits that the parent sets come after the child has started, and between fork and exec no code
    of ours may run in a process with threads.
    """
    wanted = ((resource.RLIMIT_CPU, "-t", int(seconds) + 1 if seconds else 0), (resource.RLIMIT_AS, "-v", memory >> 10))
    limits = [f"ulimit -S {option} {_soft_limit(kind, most)}" for kind, option, most in wanted if most]
    if not limits or sys.platform != "linux":
        return list(command)
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    return ["/bin/sh", "-c", f'{"; ".join(limits)}; exec "$@"', "sh", *command]


def _soft_limit(kind: int, most: int) -> int:
    """The limit in the shell's unit, seconds or KiB, or the hard limit of this process where that is lower."""
    hard = resource.getrlimit(kind)[1]
    if hard == resource.RLIM_INFINITY:
        return most
    return min(most, hard >> 10 if kind == resource.RLIMIT_AS else hard)


def _reaper_group() -> int:
    """The process group of the reaper, which is started when there is none."""
    global _reaper
    with _lock:
        if _reaper is None or _reaper.poll() is not None:
            # -I and -S: nothing of the user's is imported, and the start takes 10 ms.
            command = [sys.executable, "-I", "-S", "-c", _REAPER]
            pipe = subprocess.PIPE
            _reaper = Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, process_group=0, cwd=ROOT)
            assert _reaper.stdout is not None
            _reaper.stdout.read(1)  # it ignores the signals that a terminal or a session sends to all
        return _reaper.pid


def _end_reaper() -> None:
    """At this process's end: kill what is left of its children, and wait until the reaper is gone."""
    with _lock:
        if _reaper is not None and _reaper.stdin is not None:
            _reaper.stdin.close()
            _reaper.wait()


def _forget_reaper() -> None:
    """In a forked child: the reaper watches the parent, and must not wait for this process, too."""
    global _reaper, _lock
    _lock = Lock()
    if _reaper is not None:
        for pipe in (_reaper.stdin, _reaper.stdout):
            assert pipe is not None
            pipe.close()
        _reaper.returncode = 0  # not a child of this process, so there is nothing to wait for
        _reaper = None


atexit.register(_end_reaper)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_reaper)


def end_with_parent(parent: int | None = None) -> None:
    """Make this process end soon after its parent; called once, by the main function of a Python child.

    parent: its process id, where it was told; else who is the parent now, which may have ended before this was called.
    """
    parent = os.getppid() if parent is None else parent

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


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
