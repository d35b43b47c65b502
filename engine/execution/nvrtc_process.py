"""A pool of processes that run NVRTC: started on demand, reused for the next kernel, killed where one hangs.

NVRTC cannot be interrupted, and a text can keep it busy for hours or take all memory; in a child process that costs
one kernel.  Threads that compile at the same time have a process each; a fork starts with an empty pool.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from engine.support.child_processes import ROOT, start_child, time_limit
from engine.support.errors import MissingCapability

SECONDS = 20.0
"""Processor time that NVRTC may take for one kernel: not wall time, so that a busy machine does not fail kernels."""
MEMORY = 8 << 30
"""Bytes of address space (RLIMIT_AS) of its process."""
WALL = 10 * SECONDS
"""Seconds of wall time after which the process counts as hung, however busy the machine is."""
_EMPTY = 'extern "C" __global__ void nothing() {}\n'
COMMAND = (sys.executable, "-P", str(Path(__file__).with_name("nvrtc_child.py")))
"""Command line of the process, before its arguments; -P keeps the script's folder out of the import path."""


@dataclass(frozen=True, slots=True)
class NvrtcLimits:
    """Limits of one compilation: processor seconds, bytes of address space, seconds of wall time."""

    seconds: float = SECONDS
    memory: int = MEMORY
    wall: float = WALL


@dataclass(frozen=True, slots=True)
class NvrtcAnswer:
    """Outcome of one compilation."""

    status: str
    """"NVRTC_SUCCESS", or the name of what went wrong."""
    log: str
    code: bytes


class NvrtcEnded(Exception):
    """The process ended or was killed before it answered; the text says why."""

    def __init__(self, reason: str, is_over_time: bool) -> None:
        super().__init__(reason)
        self.is_over_time = is_over_time


@dataclass(frozen=True, slots=True)
class _NvrtcProcess:
    """A process that serves requests, with the limits and command that it was started with."""

    child: subprocess.Popen[bytes]
    limits: NvrtcLimits
    command: tuple[str, ...]

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                # Closing flushes what was not written yet, to a pipe that nobody reads any more.
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


_idle: list[_NvrtcProcess] = []
_lock = Lock()


def ask(
    text: str,
    options: Sequence[str],
    wants: str,
    limits: NvrtcLimits = NvrtcLimits(),
    command: tuple[str, ...] | None = None,
) -> NvrtcAnswer:
    """NVRTC's answer to one text.  wants: "cubin", "ptx" or "ptx+cubin".

    Raises Ended where the text took more than `limits` or ended the process, MissingCapability where none can be
    started.
    """
    try:
        return _answer(text, options, wants, limits, command or COMMAND)
    except NvrtcEnded:
        _check_works()
        raise


def _answer(
    text: str, options: Sequence[str], wants: str, limits: NvrtcLimits, command: tuple[str, ...]
) -> NvrtcAnswer:
    process = _take_idle(limits, command)
    is_new = process is None
    if process is None:
        process = _start(limits, command)
    try:
        answer = _exchange(process, text, options, wants)
    except NvrtcEnded as ended:
        process.end()
        if is_new or ended.is_over_time:
            raise
        # A reused process may have been killed while it was idle (by the OOM killer, say), or have leaked up to its
        # memory limit; a new one decides whether the text is to blame.
        return _answer(text, options, wants, limits, command)
    except BaseException:  # an interrupt, too: the reply of this request would be read as the next one's
        process.end()
        raise
    with _lock:
        _idle.append(process)
    return answer


def _check_works() -> None:
    """Raise MissingCapability where NVRTC does not survive an empty kernel either."""
    try:
        _answer(_EMPTY, ("--gpu-architecture=sm_80",), "ptx", NvrtcLimits(), COMMAND)
    except NvrtcEnded as ended:
        reason = f"its process does not compile an empty kernel: it {ended}"
        raise MissingCapability("run", "NVRTC", reason, "see `loomscope doctor`, and whether memory is left") from ended


def close() -> None:
    """End the idle processes; the next kernel starts another."""
    with _lock:
        ended, _idle[:] = list(_idle), []
    for process in ended:
        process.end()


def _take_idle(limits: NvrtcLimits, command: tuple[str, ...]) -> _NvrtcProcess | None:
    """Take a live idle process with these limits out of the pool; None where there is none."""
    with _lock:
        for number in reversed(range(len(_idle))):
            if (_idle[number].limits, _idle[number].command) == (limits, command):
                process = _idle.pop(number)
                if process.child.poll() is None:
                    return process
                process.end()
    return None


def _start(limits: NvrtcLimits, command: tuple[str, ...]) -> _NvrtcProcess:
    arguments = [str(os.getpid()), str(limits.seconds), str(limits.memory)]
    try:
        child = start_child(
            [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
        )
    except OSError as error:
        reason = f"its process cannot be started: {error.strerror or error}"
        raise MissingCapability("run", "NVRTC", reason, "close other programs") from error
    return _NvrtcProcess(child, limits, command)


def _exchange(process: _NvrtcProcess, text: str, options: Sequence[str], wants: str) -> NvrtcAnswer:
    child, limits = process.child, process.limits
    assert child.stdin is not None
    assert child.stdout is not None
    data = text.encode()
    request = {"options": list(options), "bytes": len(data), "wants": wants}
    head: dict[str, Any] = {"bytes": -1}
    code = b""
    with time_limit(child, limits.wall) as is_late:
        try:
            child.stdin.write(json.dumps(request).encode() + b"\n" + data)
            child.stdin.flush()
            line = child.stdout.readline()
            if line.endswith(b"\n"):
                head = json.loads(line)
                code = child.stdout.read(head["bytes"])
        except (BrokenPipeError, ValueError):
            child.kill()  # the request did not go in or the reply is no JSON; the exit status says why
    if len(code) != head["bytes"]:
        status = child.wait()
        raise NvrtcEnded(_ending(status, limits), status == -signal.SIGPROF or is_late.is_set())
    return NvrtcAnswer(head["status"], head["log"], code)


def _ending(status: int, limits: NvrtcLimits) -> str:
    if status == -signal.SIGPROF:
        return f"takes more than {limits.seconds:g} s of processor time"
    if status == -signal.SIGKILL:
        return f"gave no answer in {limits.wall:g} s, or was killed, as for lack of memory"
    cause = signal.Signals(-status).name if status < 0 else f"exit code {status}"
    return f"ended with {cause}; it may take {limits.memory / 2**30:g} GiB of memory"


def _reset_after_fork() -> None:
    """In a forked child: the pool's processes belong to the parent, and the lock may be held by a thread that only the
    parent has, so it would never be released here.
    """
    global _lock
    _lock = Lock()
    _idle.clear()


atexit.register(close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
