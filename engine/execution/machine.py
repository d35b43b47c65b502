"""What this machine can do for the engine: a GPU, a C++ compiler, NVRTC."""

from __future__ import annotations

from dataclasses import dataclass

from engine.execution.emulate.build import compiler_version, working_compiler
from engine.execution.measure import GPU_HINT, gpu_name, require_pycuda
from engine.execution.nvrtc import nvrtc_version
from engine.support.errors import MissingCapability


@dataclass(frozen=True, slots=True)
class Machine:
    """Each field is "" where the machine lacks the thing."""

    gpu: str
    compiler: str
    """First line of the C++ compiler's version."""
    nvrtc: str
    lacking: str
    """What keeps the machine from measuring, and what to install; "" where nothing is known to."""


def machine() -> Machine:
    """Look for them, without initialising CUDA."""
    gpu = gpu_name() or ""
    return Machine(gpu, _compiler_version(), nvrtc_version() or "", _lacking(gpu))


def _lacking(gpu: str) -> str:
    if not gpu:
        return f"There is no NVIDIA GPU: {GPU_HINT}"
    try:
        require_pycuda()
    except MissingCapability as error:
        return f"{error.reason}: {error.hint}"
    return ""


def _compiler_version() -> str:
    try:
        return compiler_version(working_compiler())
    except MissingCapability:
        return ""
