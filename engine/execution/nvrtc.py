"""Compile CUDA text to cubin and PTX with NVRTC, in a child process; no GPU, driver or CUDA toolkit is needed.

Register and spill counts are parsed from the remarks of ptxas, which NVRTC appends to its log under `-Xptxas=-v`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from engine.execution.nodes import Compiled
from engine.execution.nvrtc_process import MEMORY, NvrtcEnded, ask
from engine.support.cache import digest, digest_of_files, read_entry, write_entry
from engine.support.errors import BadInput, EngineError, MissingCapability
from engine.target import ARCHITECTURES

INCLUDE = Path(__file__).resolve().parents[1] / "tile" / "include"
"""Where "loom.cuh" lies."""

_SUCCESS, _NO_MEMORY = "NVRTC_SUCCESS", "NVRTC_ERROR_OUT_OF_MEMORY"
_NO_FILES = "failed to open libnvrtc-builtins"
"""NVRTC loads this second library of its package by name when it compiles; without it every text fails."""
_NO_ARCHITECTURE = "invalid value for --gpu-architecture"
_HINT = "pip install 'cuda-bindings>=13,<14' 'nvidia-cuda-nvrtc>=13.0,<13.1'"
_REMARKS = ("-Xptxas=-v", "-Xptxas=--warn-on-spills", "-Xptxas=--warn-on-local-memory-usage")
_QUICK = ("--minimal",)
"""Leaves declarations of textures, surfaces and launches by kernels out, which no kernel here has."""


class CompileError(EngineError):
    """A compiler rejected a kernel's text: `reason` is its first error, `line` the 1-based line of the text, or 0."""

    exit_code = 1

    def __init__(self, compiler: str, line: int, reason: str, log: str) -> None:
        subject = f"line {line} of the CUDA text" if line else "the CUDA text"
        super().__init__("compile", subject, f"{compiler}: {reason}")
        self.line = line
        self.log = log


class CompilerEnded(CompileError):
    """NVRTC exceeded its time or memory for one kernel, or crashed on it; other kernels can still be compiled."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__("NVRTC", 0, reason, "")
        name = re.search(r"__global__[^(;{]*?\b(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(", text)
        hint = "advise smaller blocks, tiles or vectors for this group, or report its text"
        EngineError.__init__(self, "compile", f"kernel {name[1]}" if name else self.subject, f"NVRTC {reason}", hint)


def nvrtc_version() -> str | None:
    """NVRTC's version as "13.0", or None where it cannot be loaded."""
    nvrtc = _nvrtc()
    if nvrtc is None:
        return None
    _, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"


def compile_cuda(text: str, architecture: str, options: Sequence[str] = ()) -> Compiled:
    """Machine code of one kernel for "sm_80", "sm_90a", ...; kept on disk.

    Raises CompileError for text that NVRTC refuses, or that takes more than the limits in `nvrtc_process`,
    MissingCapability where there is no NVRTC.
    """
    name = _entry_name("cubin", text, architecture, options)
    kept = read_entry("cubin", name)
    if kept is not None:
        return _unpack(kept, architecture)
    log, cubin = _compile(text, architecture, (*_REMARKS, *options), "cubin")
    write_entry("cubin", name, _pack(log, cubin))
    return _parse_log(architecture, log, cubin)


def compile_ptx(text: str, architecture: str, options: Sequence[str] = ()) -> str:
    """PTX of one kernel, for reading.  Raises as `compile_cuda` does."""
    name = _entry_name("ptx", text, architecture, options)
    kept = read_entry("ptx", name)
    if kept is None:
        _, code = _compile(text, architecture, options, "ptx")
        kept = code.rstrip(b"\0")
        write_entry("ptx", name, kept)
    return kept.decode()


def compile_ptx_and_cubin(text: str, architecture: str, options: Sequence[str] = ()) -> str:
    """PTX of one kernel as `compile_ptx` gives it; `compile_cuda` then has the machine code of the same compilation.

    Raises as `compile_cuda` does.
    """
    name = _entry_name("ptx", text, architecture, options)
    kept = read_entry("ptx", name)
    if kept is not None:
        return kept.decode()
    log, code = _compile(text, architecture, (*_REMARKS, *options), "ptx+cubin")
    ptx, cubin = code[: (end := code.index(b"\0"))], code[end:].lstrip(b"\0")
    write_entry("ptx", name, ptx)
    write_entry("cubin", _entry_name("cubin", text, architecture, options), _pack(log, cubin))
    return ptx.decode()


@cache
def _nvrtc() -> Any:
    """The binding, or None where it or its library cannot be loaded.

    cuda-bindings loads libnvrtc at the first call and raises RuntimeError then, so one call is made here.
    """
    try:
        from cuda.bindings import nvrtc

        status, *_ = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        return None
    return nvrtc if status == nvrtc.nvrtcResult.NVRTC_SUCCESS else None


def _entry_name(kind: str, text: str, architecture: str, options: Sequence[str]) -> str:
    version = nvrtc_version()
    if version is None:
        raise MissingCapability("run", "NVRTC", "the CUDA compiler library cannot be loaded", _HINT)
    return digest(kind, version, architecture, "\0".join(options), text, _digest_of_includes())


@cache
def _digest_of_includes() -> str:
    return digest_of_files(INCLUDE.glob("*.cuh"))


def _compile(text: str, architecture: str, options: Sequence[str], wants: str) -> tuple[str, bytes]:
    """Log of the compilation, and the code: `wants` is "cubin", "ptx" or both, the text first: "ptx+cubin"."""
    arguments = (f"--gpu-architecture={architecture}", "--std=c++17", f"-I{INCLUDE}", *_QUICK, *options)
    try:
        answer = ask(text, arguments, wants)
    except NvrtcEnded as ended:
        raise CompilerEnded(text, str(ended)) from ended
    if answer.status == _NO_MEMORY:
        raise CompilerEnded(text, f"needs more than {MEMORY / 2**30:g} GiB of memory")
    if _NO_FILES in answer.log:
        raise MissingCapability("run", "NVRTC", answer.log.strip(), _HINT)
    if _NO_ARCHITECTURE in answer.log:
        hint = f"kernels are made for {', '.join(ARCHITECTURES)}"
        raise BadInput("compile", f"architecture {architecture}", "is none that NVRTC compiles for", hint)
    if answer.status != _SUCCESS:
        raise _refusal(answer.log, answer.status)
    return answer.log, answer.code


def _refusal(log: str, status: str) -> CompileError:
    """The first error of the log; one inside an include is reported at the line of the kernel that led there."""
    error = re.search(r"^(.*?)\((\d+)\): (?:catastrophic )?error:? (.*)$", log, re.MULTILINE)
    if error is None:
        return CompileError("NVRTC", 0, log.strip().partition("\n")[0] or status, log)
    if error[1].endswith("kernel.cu"):
        return CompileError("NVRTC", int(error[2]), error[3], log)
    user = re.search(r"at line (\d+) of kernel\.cu|^kernel\.cu\((\d+)\)", log[error.end() :], re.MULTILINE)
    line = int(user[1] or user[2]) if user else 0
    return CompileError("NVRTC", line, f"{error[3]} ({Path(error[1]).name}, line {error[2]})", log)


def _parse_log(architecture: str, log: str, cubin: bytes) -> Compiled:
    """Figures of the kernel from ptxas' remarks; of several kernels, the largest of each."""
    registers = [int(n) for n in re.findall(r"Used (\d+) registers", log)]
    spills = [int(a) + int(b) for a, b in re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)]
    static = [int(n) for n in re.findall(r"(\d+) bytes smem", log)]
    return Compiled(architecture, max(registers, default=0), max(spills, default=0), max(static, default=0), cubin, log)


def _pack(log: str, cubin: bytes) -> bytes:
    head = json.dumps({"log": log}).encode()
    return len(head).to_bytes(8, "little") + head + cubin


def _unpack(data: bytes, architecture: str) -> Compiled:
    size = int.from_bytes(data[:8], "little")
    return _parse_log(architecture, json.loads(data[8 : 8 + size])["log"], data[8 + size :])
