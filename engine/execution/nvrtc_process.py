"""The processes that NVRTC runs in: started when needed, kept for the next kernel, ended where one does not come back.

NVRTC cannot be interrupted, and a text can keep it busy for hours or take all memory; in a process of its own that
costs one kernel.  Each thread that compiles at the same time has one of them; a fork starts with none.
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

from engine.support.child_processes import ROOT, time_limit
from engine.support.errors import MissingCapability

SECONDS = 20.0
"""Processor time that NVRTC may take for one kernel.  Of the processor, so that a busy machine refuses nothing."""
MEMORY = 8 << 30
"""Bytes of addresses that its process may have."""
WALL = 10 * SECONDS
"""Seconds by the clock after which nothing is going to come any more, however busy the machine is."""
_EMPTY = 'extern "C" __global__ void nothing() {}\n'
COMMAND = (sys.executable, "-P", str(Path(__file__).with_name("nvrtc_child.py")))
"""What its process is started with."""


@dataclass(frozen=True, slots=True)
class NvrtcLimits:
    """What one kernel may cost."""

    seconds: float = SECONDS
    memory: int = MEMORY
    wall: float = WALL


@dataclass(frozen=True, slots=True)
class NvrtcAnswer:
    """What NVRTC made of a text."""

    status: str
    """"NVRTC_SUCCESS", or the name of what went wrong."""
    log: str
    code: bytes


class NvrtcEnded(Exception):
    """A process that NVRTC did not come back from; the text says why."""

    def __init__(self, reason: str, is_over_time: bool) -> None:
        super().__init__(reason)
        self.is_over_time = is_over_time


@dataclass(frozen=True, slots=True)
class _NvrtcProcess:
    """A process that waits for requests, and what it was started with."""

    child: subprocess.Popen[bytes]
    limits: NvrtcLimits
    command: tuple[str, ...]

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                # What was not written yet has no reader any more.
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
    """NVRTC's answer to one text.  wants: "cubin" or "ptx".

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
        # It was killed while it waited, which shows when all of its threads are gone, or was worn out.
        return _answer(text, options, wants, limits, command)
    except BaseException:  # an interrupt, too: what the process is at is of no use to anybody
        process.end()
        raise
    with _lock:
        _idle.append(process)
    return answer


def _check_works() -> None:
    """MissingCapability where NVRTC does not come back from an empty kernel either."""
    try:
        _answer(_EMPTY, ("--gpu-architecture=sm_80",), "ptx", NvrtcLimits(), COMMAND)
    except NvrtcEnded as ended:
        reason = f"its process does not compile an empty kernel: it {ended}"
        raise MissingCapability("run", "NVRTC", reason, "see `loomscope doctor`, and whether memory is left") from ended


def close() -> None:
    """End the processes that wait; the next kernel starts another."""
    with _lock:
        ended, _idle[:] = list(_idle), []
    for process in ended:
        process.end()


def _take_idle(limits: NvrtcLimits, command: tuple[str, ...]) -> _NvrtcProcess | None:
    """A process that waits for a kernel, no longer among the idle ones."""
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
        child = subprocess.Popen(
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
    """Of a forked process: the processes are its parent's, and a lock may be held by a thread that it has not."""
    global _lock
    _lock = Lock()
    _idle.clear()


atexit.register(close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
