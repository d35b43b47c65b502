"""Build the program that emulates one kernel: its CUDA text, compiled as C++ and linked with the emulated machine.

The machine (runtime/) is compiled once for each compiler and kept on disk; a kernel then takes a tenth of a second.
When a build fails, an empty program is compiled as well, to tell a broken compiler from a text that it refuses.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from engine.execution.nvrtc import INCLUDE as GPU_INCLUDE
from engine.execution.nvrtc import CompileError
from engine.support.cache import PLACE_HINT, digest, digest_of_files, keep_folder, read_folder, unwritable, workplace
from engine.support.child_processes import start_child
from engine.support.errors import MissingCapability
from engine.support.leftovers import temporary_folder

INCLUDE = Path(__file__).resolve().parent / "include"
RUNTIME = Path(__file__).resolve().parent / "runtime"

# No contraction to fused multiply-add: results would differ between machines with and without the instruction.
# No -march=native: wider vectors were slower (register tiles are filled from 16-byte loads), and a kept program must
# run on any machine of its architecture.
_COMMON = ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-ffp-contract=off", "-fno-math-errno", "-w", "-s")
_MACHINE_LEVEL = ("-O2",)
_KERNEL_LEVEL = {True: ("-O1",), False: ("-O2", "-funroll-loops")}
"""By `checked`.  A checked run spends its time in the machine's shadow memory, and compiling its kernel at -O2 takes
longer than it saves; a run without checks is for all blocks of large kernels, where -O2 saves a quarter."""
_PATHS = (f"-I{INCLUDE}", f"-I{GPU_INCLUDE}")
_PROGRAM = "emulator"
_GOLD = "-fuse-ld=gold"
"""Link with gold: a third of the time that GNU ld takes, of which a small kernel's build is a third."""
_LINKS_WITH_GOLD = "gold"
"""File beside the machine's objects that says that the compiler finds gold."""
# Messages of the compiler, not source lines quoted in them: those begin with a line number and a bar.
_FULL = re.compile(
    r"^(?!\s*\d* \|).*"
    r"(?:(?:No space left on device|Disk quota exceeded|File too large)\s*$|File size limit exceeded signal)",
    re.MULTILINE,
)
_KILLED = re.compile(
    r"^(?!\s*\d* \|).*(?:(?:Killed|CPU time limit exceeded) signal terminated program|memory exhausted|out of memory)",
    re.MULTILINE,
)
_SECONDS = 300.0
"""Processor time of each of the compiler's processes."""
_MEMORY = 8 << 30
"""Bytes of address space of each."""


def host_compiler() -> str | None:
    """Path of the C++ compiler: the one in CXX, else g++, else clang++; None where there is none."""
    candidates = (os.environ.get("CXX", ""), "g++", "clang++")
    return next((found for name in candidates if name and (found := shutil.which(name))), None)


def executable(text: str, entries: Sequence[str], *, checked: bool) -> Path:
    """Path of the program that emulates one kernel, kept on disk.  checked: with the checks of every access.

    entries: of its launches, in order.

    Raises CompileError for text that the compiler refuses, MissingCapability where there is no working compiler or
    the disk is full.
    """
    compiler = require_compiler()
    flags = (*_COMMON, *_KERNEL_LEVEL[checked], f"-DLOOM_CHECKED={int(checked)}")
    name = digest(compiler_identity(compiler), " ".join(flags), digest_of_sources(), *entries, text)
    built = read_folder("emulator", name)
    if built is None:
        machine = _machine_folder(compiler, checked)
        with workplace("emulator") as folder:
            kernel = folder / "kernel.cu"
            write_source(kernel, text)
            calls = " ".join(f"case {n}: return call({entry}, arguments);" for n, entry in enumerate(entries))
            unit = [f"-DLOOM_LAUNCHES={calls}", "-include", str(kernel), str(RUNTIME / "entry.cpp")]
            objects = map(str, sorted(machine.glob("*.o")))
            linker = [_GOLD] if (machine / _LINKS_WITH_GOLD).is_file() else []
            build_files([compiler, *flags, *_PATHS, *unit, *objects, *linker, "-o", _PROGRAM], folder, [_PROGRAM])
            kernel.unlink()
            built = keep_folder("emulator", name, folder)
    return built / _PROGRAM


def require_compiler() -> str:
    """Path of the C++ compiler; MissingCapability where there is none."""
    compiler = host_compiler()
    if compiler is None:
        reason = "emulation needs a C++17 compiler and this machine has none"
        raise MissingCapability("run", "g++ or clang++", reason, "apt install g++")
    return compiler


def _machine_folder(compiler: str, checked: bool) -> Path:
    """Folder with the objects of the emulated machine, compiled when this compiler has not yet."""
    flags = (*_COMMON, *_MACHINE_LEVEL, f"-DLOOM_CHECKED={int(checked)}")
    name = digest(compiler_identity(compiler), " ".join(flags), digest_of_sources())
    sources = sorted(file for file in RUNTIME.glob("*.cpp") if file.name != "entry.cpp")
    objects = [f"{source.stem}.o" for source in sources]
    built = read_folder("machine", name)
    if built is None:
        with workplace("machine") as folder:
            build_files([compiler, *flags, *_PATHS, "-c", *map(str, sources)], folder, objects)
            if not _empty_program_failure(compiler, folder, _GOLD):
                write_source(folder / _LINKS_WITH_GOLD, "")
            built = keep_folder("machine", name, folder)
    return built


def write_source(path: Path, text: str) -> None:
    """Write a file in a workplace of the cache.  Raises MissingCapability where it cannot be."""
    try:
        path.write_text(text)
    except OSError as error:
        raise unwritable(path, error) from error


def build_files(command: list[str], folder: Path, wanted: list[str]) -> None:
    """Run the compiler in a folder, where it must make the `wanted` files.

    Raises CompileError with the first error, MissingCapability where the machine and not the text is at fault.
    """
    done = _run_compiler(command, folder)
    if done.returncode == 0 and all((folder / file).is_file() for file in wanted):
        return
    _check_machine(command[0], folder, done)
    error = re.search(r"kernel\.(?:cu|cpp):(\d+):(?:\d+:)? (?:fatal )?error: (.*)", done.stderr)
    if error:
        raise CompileError("C++ compiler", int(error[1]), error[2], done.stderr)
    first = re.search(r"error: (.*)|undefined reference.*", done.stderr)
    raise CompileError("C++ compiler", 0, first[0] if first else done.stderr.strip()[-200:], done.stderr)


def _run_compiler(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    with temporary_folder() as temporary:  # a compiler that is killed leaves its files
        # The messages are searched for "error:" and for reasons in English.
        environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(temporary)}
        try:
            child = start_child(
                command, seconds=_SECONDS, memory=_MEMORY, cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            )  # fmt: skip
        except OSError as error:
            raise _broken_compiler(command[0], f"cannot be started: {error.strerror or error}") from error
        with child:
            try:
                out, errors = child.communicate()
            except BaseException:  # an interrupt
                child.kill()
                raise
    return subprocess.CompletedProcess(command, child.returncode, out, errors)


def _check_machine(compiler: str, folder: Path, failed: subprocess.CompletedProcess[str]) -> None:
    """Raise MissingCapability where the disk or the memory is full, or where the compiler fails for any text."""
    full = _FULL.search(failed.stderr)
    if full:
        raise MissingCapability("cache", str(folder.parent), full[0].strip(), PLACE_HINT)
    if failed.returncode < 0 or _KILLED.search(failed.stderr):
        reason = "was killed, or ran out of memory or time, while it compiled a kernel"
        raise MissingCapability("run", compiler, reason, "close other programs, or add memory")
    _probe(compiler, folder)


def working_compiler() -> str:
    """Path of the C++ compiler, once it has made a program.  Raises MissingCapability where there is none that does."""
    compiler = require_compiler()
    with temporary_folder() as folder:
        _probe(compiler, folder)
    return compiler


def _probe(compiler: str, folder: Path) -> None:
    """Raise MissingCapability where the compiler cannot compile and link an empty program."""
    failure = _empty_program_failure(compiler, folder)
    if failure:
        raise _broken_compiler(compiler, f"does not compile an empty program: {failure}")


def _empty_program_failure(compiler: str, folder: Path, *flags: str) -> str:
    """Compile and link an empty program in a folder: the first line of what went wrong, "" where nothing did."""
    source, program = folder / "probe.cpp", folder / "probe"
    write_source(source, "int main() { return 0; }\n")
    tried = _run_compiler([compiler, "-std=c++17", *flags, str(source), "-o", str(program)], folder)
    works = tried.returncode == 0 and program.is_file()
    source.unlink()
    program.unlink(missing_ok=True)
    return "" if works else next(iter(tried.stderr.strip().splitlines()), "it says nothing")


def _broken_compiler(compiler: str, reason: str) -> MissingCapability:
    return MissingCapability("run", compiler, reason, "apt install g++, or name a C++17 compiler that works in CXX")


@cache
def compiler_version(compiler: str) -> str:
    """The first line of `compiler --version`."""
    return _run_compiler([compiler, "--version"], RUNTIME).stdout.partition("\n")[0].strip()


def compiler_identity(compiler: str) -> str:
    """Path and version of a compiler: part of the name that its output is kept under."""
    return f"{compiler} {compiler_version(compiler)}"


@cache
def digest_of_sources() -> str:
    """Digest of everything that goes into an emulator but the kernel: part of the name that it is kept under."""
    files = [file for folder in (INCLUDE, RUNTIME, GPU_INCLUDE) for file in folder.iterdir() if file.is_file()]
    return digest_of_files(files)
