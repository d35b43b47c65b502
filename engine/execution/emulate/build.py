"""The executable that emulates one kernel: its text compiled by the host's C++ compiler, with the emulated machine.

The machine itself (runtime/) is compiled once for each compiler; a kernel then takes a fraction of a second.
A compiler that does not work is told apart from a text that it refuses: it is asked for an empty program.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from engine.execution.nvrtc import INCLUDE as GPU_INCLUDE
from engine.execution.nvrtc import CompileError
from engine.support.cache import PLACE_HINT, digest, digest_of_files, keep_folder, read_folder, unwritable, workplace
from engine.support.errors import MissingCapability

INCLUDE = Path(__file__).resolve().parent / "include"
RUNTIME = Path(__file__).resolve().parent / "runtime"

# No contraction: a product that is rounded before it is added means the same on every machine.
_COMMON = ("-std=c++17", "-O2", "-fno-exceptions", "-fno-rtti", "-ffp-contract=off", "-fno-math-errno", "-w", "-s")
_PATHS = (f"-I{INCLUDE}", f"-I{GPU_INCLUDE}")
# Baseline instructions only: wider vectors were slower (register tiles are filled from 16-byte loads), and what is kept
# on disk runs on any machine of its kind.
_UNROLLED = ("-funroll-loops",)
_PROGRAM = "emulator"
# A line of source that a message quotes begins with its number and a bar.
_FULL = re.compile(r"^(?!\s*\d* \|).*(?:No space left on device|Disk quota exceeded|File too large)\s*$", re.MULTILINE)
_KILLED = re.compile(r"^(?!\s*\d* \|).*(?:Killed signal terminated program|virtual memory exhausted)", re.MULTILINE)


def host_compiler() -> str | None:
    """Path of the C++ compiler: the one in CXX, else g++, else clang++; None where there is none."""
    candidates = (os.environ.get("CXX", ""), "g++", "clang++")
    return next((found for name in candidates if name and (found := shutil.which(name))), None)


def executable(text: str, entry: str, *, checked: bool) -> Path:
    """The emulator of one kernel; kept on disk.

    Raises CompileError for text that the compiler refuses, MissingCapability where there is no compiler or none that
    works, or where the disk is full.
    """
    compiler = _require_compiler()
    flags = (*_COMMON, *_UNROLLED, f"-DLOOM_CHECKED={int(checked)}")
    name = digest(_compiler_identity(compiler), " ".join(flags), digest_of_sources(), entry, text)
    built = read_folder("emulator", name)
    if built is None:
        machine = _machine_objects(compiler, checked)
        with workplace("emulator") as folder:
            kernel = folder / "kernel.cu"
            _write(kernel, text)
            unit = [f"-DLOOM_ENTRY={entry}", "-include", str(kernel), str(RUNTIME / "entry.cpp")]
            _build_files([compiler, *flags, *_PATHS, *unit, *map(str, machine), "-o", _PROGRAM], folder, [_PROGRAM])
            kernel.unlink()
            built = keep_folder("emulator", name, folder)
    return built / _PROGRAM


def _require_compiler() -> str:
    compiler = host_compiler()
    if compiler is None:
        raise MissingCapability(
            "run", "g++ or clang++", "emulation needs a C++17 compiler and this machine has none", "apt install g++"
        )
    return compiler


def _machine_objects(compiler: str, checked: bool) -> list[Path]:
    """Objects of the emulated machine, compiled when this compiler has not yet."""
    flags = (*_COMMON, f"-DLOOM_CHECKED={int(checked)}")
    name = digest(_compiler_identity(compiler), " ".join(flags), digest_of_sources())
    sources = sorted(file for file in RUNTIME.glob("*.cpp") if file.name != "entry.cpp")
    objects = [f"{source.stem}.o" for source in sources]
    built = read_folder("machine", name)
    if built is None:
        with workplace("machine") as folder:
            _build_files([compiler, *flags, *_PATHS, "-c", *map(str, sources)], folder, objects)
            built = keep_folder("machine", name, folder)
    return [built / file for file in objects]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise unwritable(path, error) from error


def _build_files(command: list[str], folder: Path, wanted: list[str]) -> None:
    """Make the `wanted` files; MissingCapability where that fails for another reason than the text."""
    done = _run_compiler(command, folder)
    if done.returncode == 0 and all((folder / file).is_file() for file in wanted):
        return
    _check_machine(command[0], folder, done)
    error = re.search(r"kernel\.cu:(\d+):(?:\d+:)? (?:fatal )?error: (.*)", done.stderr)
    if error:
        raise CompileError("C++ compiler", int(error[1]), error[2], done.stderr)
    first = re.search(r"error: (.*)|undefined reference.*", done.stderr)
    raise CompileError("C++ compiler", 0, first[0] if first else done.stderr.strip()[-200:], done.stderr)


def _run_compiler(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        # Messages in English: they are read here.
        return subprocess.run(
            command, cwd=folder, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, errors="replace",
            check=False,
        )  # fmt: skip
    except OSError as error:
        raise _broken_compiler(command[0], f"cannot be started: {error.strerror or error}") from error


def _check_machine(compiler: str, folder: Path, failed: subprocess.CompletedProcess[str]) -> None:
    """MissingCapability where the disk or the memory is full, or where the compiler makes nothing of any text."""
    full = _FULL.search(failed.stderr)
    if full:
        raise MissingCapability("cache", str(folder.parent), full[0].strip(), PLACE_HINT)
    if failed.returncode < 0 or _KILLED.search(failed.stderr):
        reason = "was killed, or ran out of memory, while it compiled a kernel"
        raise MissingCapability("run", compiler, reason, "close other programs, or add memory")
    _probe(compiler, folder)


def working_compiler() -> str:
    """Path of the C++ compiler, once it has made a program.  Raises MissingCapability where there is none that does."""
    compiler = _require_compiler()
    with tempfile.TemporaryDirectory() as folder:
        _probe(compiler, Path(folder))
    return compiler


def _probe(compiler: str, folder: Path) -> None:
    """MissingCapability where the compiler makes nothing of an empty program."""
    probe = folder / "probe.cpp"
    _write(probe, "int main() { return 0; }\n")
    tried = _run_compiler([compiler, "-std=c++17", str(probe), "-o", str(folder / "probe")], folder)
    if tried.returncode != 0 or not (folder / "probe").is_file():
        told = tried.stderr.strip().splitlines()
        raise _broken_compiler(compiler, f"does not compile an empty program: {told[0] if told else 'it says nothing'}")


def _broken_compiler(compiler: str, reason: str) -> MissingCapability:
    return MissingCapability("run", compiler, reason, "apt install g++, or name a C++17 compiler that works in CXX")


@cache
def compiler_version(compiler: str) -> str:
    """The first line of what a compiler says of its version."""
    return _run_compiler([compiler, "--version"], RUNTIME).stdout.partition("\n")[0].strip()


def _compiler_identity(compiler: str) -> str:
    return f"{compiler} {compiler_version(compiler)}"


@cache
def digest_of_sources() -> str:
    """One name for all that an emulator is made of besides the kernel."""
    files = [file for folder in (INCLUDE, RUNTIME, GPU_INCLUDE) for file in folder.iterdir() if file.is_file()]
    return digest_of_files(files)
