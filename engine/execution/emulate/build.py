"""The executable that emulates one kernel: its text compiled by the host's C++ compiler, with the emulated machine.

The machine itself (runtime/) is compiled once for each compiler; a kernel then takes a fraction of a second.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from engine.execution.nvrtc import INCLUDE as GPU_INCLUDE
from engine.execution.nvrtc import CompileError
from engine.support.cache import cache_folder, digest, digest_of_files
from engine.support.errors import MissingCapability

INCLUDE = Path(__file__).resolve().parent / "include"
RUNTIME = Path(__file__).resolve().parent / "runtime"

# No contraction: a product that is rounded before it is added means the same on every machine.
_COMMON = ("-std=c++17", "-O2", "-fno-exceptions", "-fno-rtti", "-ffp-contract=off", "-fno-math-errno", "-w", "-s")
_PATHS = (f"-I{INCLUDE}", f"-I{GPU_INCLUDE}")
# Baseline instructions only: wider vectors were slower (register tiles are filled from 16-byte loads), and what is kept
# on disk runs on any machine of its kind.
_UNROLLED = ("-funroll-loops",)


def host_compiler() -> str | None:
    """Path of the C++ compiler: the one in CXX, else g++, else clang++; None where there is none."""
    candidates = (os.environ.get("CXX", ""), "g++", "clang++")
    return next((found for name in candidates if name and (found := shutil.which(name))), None)


def executable(text: str, entry: str, *, checked: bool) -> Path:
    """The emulator of one kernel; kept on disk.

    Raises CompileError for text that the compiler refuses, MissingCapability where there is no compiler.
    """
    compiler = _required()
    flags = (*_COMMON, *_UNROLLED, f"-DLOOM_CHECKED={int(checked)}")
    name = digest(_version(compiler), " ".join(flags), digest_of_sources(), entry, text)
    built = cache_folder() / "emulator" / name
    if built.exists():
        return built
    machine = _machine(compiler, checked)
    with _workplace(built.parent) as folder:
        kernel = Path(folder) / "kernel.cu"
        kernel.write_text(text)
        result = Path(folder) / "emulator"
        unit = [f"-DLOOM_ENTRY={entry}", "-include", str(kernel), str(RUNTIME / "entry.cpp")]
        _run([compiler, *flags, *_PATHS, *unit, *map(str, machine), "-o", str(result)])
        os.replace(result, built)
    return built


def _required() -> str:
    compiler = host_compiler()
    if compiler is None:
        raise MissingCapability(
            "run", "g++ or clang++", "emulation needs a C++17 compiler and this machine has none", "apt install g++"
        )
    return compiler


def _machine(compiler: str, checked: bool) -> list[Path]:
    """Objects of the emulated machine, compiled when this compiler has not yet."""
    flags = (*_COMMON, f"-DLOOM_CHECKED={int(checked)}")
    name = digest(_version(compiler), " ".join(flags), digest_of_sources())
    sources = sorted(file for file in RUNTIME.glob("*.cpp") if file.name != "entry.cpp")
    built = cache_folder() / "machine" / name
    if not built.exists():
        with _workplace(built.parent) as folder:
            _run([compiler, *flags, *_PATHS, "-c", *map(str, sources)], folder)
            for made in Path(folder).glob("*.o"):
                made.chmod(0o644)
            try:
                os.rename(folder, built)
            except OSError:  # another process was faster; its objects are the same
                if not built.exists():
                    raise
    return [built / f"{source.stem}.o" for source in sources]


@contextmanager
def _workplace(beside: Path) -> Iterator[str]:
    """A folder beside the results, so that they can be renamed into place; removed unless it was itself renamed."""
    beside.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(dir=beside, prefix=".new-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str], folder: str | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0:
        return
    error = re.search(r"kernel\.cu:(\d+):(?:\d+:)? (?:fatal )?error: (.*)", done.stderr)
    if error:
        raise CompileError("C++ compiler", int(error[1]), error[2], done.stderr)
    first = re.search(r"error: (.*)|undefined reference.*", done.stderr)
    raise CompileError("C++ compiler", 0, first[0] if first else done.stderr.strip()[-200:], done.stderr)


@cache
def _version(compiler: str) -> str:
    told = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return f"{compiler} {told.stdout.partition(chr(10))[0]}"


@cache
def digest_of_sources() -> str:
    """One name for all that an emulator is made of besides the kernel."""
    files = [file for folder in (INCLUDE, RUNTIME, GPU_INCLUDE) for file in folder.iterdir() if file.is_file()]
    return digest_of_files(files)
