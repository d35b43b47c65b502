"""What this machine has: one row each, with what to install where something is missing."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.support.cache import CacheState

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
PACKAGES = (
    "numpy", "networkx", "islpy", "highspy", "onnx", "ml_dtypes", "onnxruntime", "cuda-bindings",
    "nvidia-cuda-nvrtc", "typer", "rich", "Pygments", "PySide6-Essentials", "pyqtgraph",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that a verb may need."""

    name: str
    found: str
    """Version or name; "" when it is missing."""
    needed_for: str
    hint: str


def examine() -> list[Capability]:
    """Every row, in the order in which a person would install things."""
    # The verb `open` asks for the display alone: what only these rows need would delay its window.
    from engine.execution.machine import machine
    from engine.execution.measure import GPU_HINT
    from engine.execution.sass import disassembler

    has = machine()
    rows = [
        Capability("Python", platform.python_version(), "everything", ""),
        Capability("display", display(), "loomscope open", "use loomscope render, which needs none"),
        Capability("C++ compiler", has.compiler, "verify", "apt install g++"),
        Capability("NVRTC", has.nvrtc, "generate", "pip install 'nvidia-cuda-nvrtc>=13.0,<13.1'"),
        _cache_row(),
        Capability("GPU", has.gpu, "measure", GPU_HINT),
        Capability("PyCUDA", version_of("pycuda"), "measure", "pip install pycuda; needs the CUDA toolkit to build"),
        Capability("nvdisasm", disassembler() or "", "SASS, explain", "pip install nvidia-cuda-nvdisasm"),
        Capability("lightgbm", version_of("lightgbm"), "tune's ranking", "pip install 'loomscope[learned]'"),
        Capability("torch", version_of("torch"), "torch_op, from_torch", "pip install 'loomscope[torch]'"),
        Capability("distributed", version_of("distributed"), "tune --cluster", "pip install 'loomscope[cluster]'"),
    ]
    return rows + [Capability(name, version_of(name), "everything", f"pip install {name}") for name in PACKAGES]


def describe_cache(state: CacheState) -> str:
    """Its place, size and limit."""
    return f"{state.folder}: {state.entries:,} entries, {state.bytes >> 20:,} of {state.limit >> 20:,} MiB"


def _cache_row() -> Capability:
    from engine.support.cache import cache_state
    from engine.support.errors import EngineError

    try:
        return Capability("compile cache", describe_cache(cache_state()), "verify, generate", "")
    except EngineError as error:
        return Capability("compile cache", "", "verify, generate", f"{error.subject} {error.reason}; {error.hint}")


def display() -> str:
    """Where a window can be shown; "" where it cannot."""
    chosen = os.environ.get("QT_QPA_PLATFORM", "")
    if chosen:
        return f"Qt platform {chosen}"
    if sys.platform in ("win32", "darwin"):
        return platform.system()
    return next((f"{name}={os.environ[name]}" for name in DISPLAYS if os.environ.get(name)), "")


def version_of(package: str) -> str:
    """Version of an installed package; "" where it is missing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "installed" if importlib.util.find_spec(package.replace("-", "_")) else ""
