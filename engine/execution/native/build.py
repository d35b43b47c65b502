"""Build libraries of kernels for CPUs with the host's compiler, kept on disk by a hash of all that goes into them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from engine.cpu.nodes import CppSource
from engine.execution.emulate.build import build_files, compiler_identity, require_compiler, write_source
from engine.support.cache import digest, digest_of_files, keep_folder, read_folder, workplace
from engine.support.errors import MissingCapability
from engine.target.cpu import CpuTarget
from engine.target.host_cpu import host_cpu

INCLUDE = Path(__file__).resolve().parents[2] / "cpu" / "include"
RUNTIME = Path(__file__).resolve().parent / "runtime"
_COMMON = ("-std=c++20", "-O3", "-fPIC", "-fno-exceptions", "-fno-rtti", "-w", "-fopenmp")
# Vectors need to know that no operation traps and none sets errno; NaN, infinities and -0 are kept.
_KERNEL = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-shared")
_LIBRARY, _PROGRAM = "kernel.so", "runner"


def flags_of(machine: CpuTarget) -> tuple[str, ...]:
    """All flags that a kernel for a machine is compiled with."""
    return (*_COMMON, *_KERNEL, *machine.flags)


def library(source: CppSource, machine: CpuTarget) -> Path:
    """Path of a kernel's library.

    Raises CompileError for text that the compiler refuses, MissingCapability where there is no working compiler.
    """
    compiler, flags = require_compiler(), flags_of(machine)
    name = digest(compiler_identity(compiler), " ".join(flags), digest_of_headers(), source.text)
    built = read_folder("native", name)
    if built is None:
        with workplace("native") as folder:
            kernel = folder / "kernel.cpp"
            write_source(kernel, source.text)
            build_files([compiler, *flags, f"-I{INCLUDE}", str(kernel), "-o", _LIBRARY], folder, [_LIBRARY])
            kernel.unlink()
            built = keep_folder("native", name, folder)
    return built / _LIBRARY


def runner() -> Path:
    """Path of the program that runs kernels as a job file says."""
    compiler, source = require_compiler(), RUNTIME / "main.cpp"
    flags = ("-std=c++20", "-O2", "-w", "-fopenmp")
    name = digest(compiler_identity(compiler), " ".join(flags), digest_of_files([source]))
    built = read_folder("native", name)
    if built is None:
        with workplace("native") as folder:
            build_files([compiler, *flags, str(source), "-ldl", "-o", _PROGRAM], folder, [_PROGRAM])
            built = keep_folder("native", name, folder)
    return built / _PROGRAM


def require_features(machine: CpuTarget) -> None:
    """Raise MissingCapability where this machine lacks instructions that kernels for another use."""
    missing = [name for name in machine.features if name not in host_cpu().features]
    if missing:
        reason = f"has no {', '.join(missing)}, which kernels for {machine.name} use"
        raise MissingCapability("run", f"this machine ({host_cpu().title})", reason, "use --target cpu")


@cache
def digest_of_headers() -> str:
    """Digest of what the texts of kernels include."""
    return digest_of_files(file for file in INCLUDE.iterdir() if file.is_file())
