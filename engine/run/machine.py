"""What this machine can do for the engine: a GPU, a C++ compiler, NVRTC."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from engine.run.emulate.build import host_compiler
from engine.run.measure import gpu_name
from engine.run.nvrtc import nvrtc_version


@dataclass(frozen=True, slots=True)
class Machine:
    """Each field is "" where the machine lacks the thing."""

    gpu: str
    compiler: str
    """First line of the C++ compiler's version."""
    nvrtc: str


def machine() -> Machine:
    """Look; no GPU is initialised and nothing is installed."""
    return Machine(gpu_name() or "", _compiler_version(), nvrtc_version() or "")


def _compiler_version() -> str:
    path = host_compiler()
    if path is None:
        return ""
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    return answer.stdout.partition("\n")[0].strip()
