"""NVRTC in a process of its own: `python -P nvrtc_child.py PARENT SECONDS BYTES`, started by `nvrtc_process`.

    request   {"options": [...], "bytes": n, "wants": "cubin" or "ptx"} and a line's end, then n bytes of CUDA text
    reply     {"status": "NVRTC_SUCCESS", "log": "...", "bytes": n} and a line's end, then n bytes of code

It imports nothing of the engine, so that it starts fast.  NVRTC cannot be interrupted: an interval timer of processor
time (ITIMER_PROF) ends this process when one compilation takes more than SECONDS.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from typing import Any, BinaryIO

_POLL = 0.5
"""Seconds between two looks at whether the parent is there."""


def main(parent: int, seconds: float, memory: int) -> None:
    """Answer requests until standard input ends or the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent ends this one
    # The default action of SIGPROF ends the process at once; a Python handler would wait until NVRTC returns.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory if most == resource.RLIM_INFINITY else min(memory, most), most))
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # replies have a descriptor of their own: what libraries print goes to stderr
    from cuda.bindings import nvrtc

    while line := requests.readline():
        request = json.loads(line)
        text = requests.read(request["bytes"])
        signal.setitimer(signal.ITIMER_PROF, seconds)
        answer = _compile(nvrtc, text, request["options"], request["wants"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        _reply(replies, *answer)


def _exit_with_parent(parent: int) -> None:
    """Exit once the parent is gone.

    Standard input does not tell: nobody reads it while NVRTC compiles, and a fork of the parent may hold it open.
    """
    while os.getppid() == parent:
        time.sleep(_POLL)
    os._exit(1)


def _compile(nvrtc: Any, text: bytes, options: list[str], wants: str) -> tuple[str, str, bytes]:
    """Status, log and code."""
    _, program = nvrtc.nvrtcCreateProgram(text, b"kernel.cu", 0, None, None)
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _bytes(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0 \n").decode()
        code = b""
        if status == nvrtc.nvrtcResult.NVRTC_SUCCESS:
            parts = {
                "cubin": (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN),
                "ptx": (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX),
            }  # fmt: skip
            code = b"".join(_bytes(*parts[one], program) for one in wants.split("+"))
        return status.name, log, code
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _bytes(size_of: Any, fill: Any, program: Any) -> bytes:
    _, size = size_of(program)
    data = bytes(size)
    fill(program, data)
    return data


def _reply(replies: BinaryIO, status: str, log: str, code: bytes) -> None:
    head = json.dumps({"status": status, "log": log, "bytes": len(code)})
    replies.write(head.encode() + b"\n" + code)
    replies.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
