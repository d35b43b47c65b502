"""Files exported with a runnable program: machine code, weights, reference values."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from engine.execution import host_operators
from engine.execution.nvrtc import compile_cuda
from engine.export.torch_module import TOLERANCE
from engine.graph.nodes import OperatorGraph
from engine.kernels.nodes import Kernel
from engine.support.errors import EngineError
from engine.target import ARCHITECTURES
from engine.verify.kernel import kernel_tolerance
from engine.verify.values import group_values

PROGRAMS = {"torch": "torch_module.py", "harness": "harness.py"}
"""Name of a program -> the file that is copied."""
HOST_OPERATORS = Path(host_operators.__file__)
"""What a harness imports where the host runs operators."""
MAX_VALUES = 64 << 20
"""Largest group, in bytes of its arrays, for which reference values are written."""


def write_code(kernel: Kernel, folder: Path) -> None:
    """The kernel's machine code, a file for each architecture.

    A kernel may have all the shared memory of its own target.  Code for another architecture is the same text: where
    that GPU's blocks have less, loading it fails, and the programs say so.
    """
    for architecture in ARCHITECTURES:
        cubin = compile_cuda(kernel.source.text, architecture).cubin
        (folder / f"{kernel.group.name}.{architecture}.cubin").write_bytes(cubin)


def write_values(kernel: Kernel, folder: Path) -> None:
    """Inputs and results of the group from the reference implementation, where it has them and they are small."""
    arrays = kernel.group.program.arrays
    if sum(arrays[buffer.array].bytes for buffer in kernel.source.buffers) > MAX_VALUES:
        return
    try:
        expected, before = group_values(kernel.group)
    except EngineError:
        return  # the program says that it has nothing to compare with
    values = {**expected, **before}
    (folder / "check").mkdir(exist_ok=True)
    # The tolerance is per element, of its size and the largest one; the program knows only the largest.
    tolerance = np.array(2 * kernel_tolerance(kernel).relative)
    save(folder / "check" / f"{kernel.group.name}.npz", {**values, TOLERANCE: tolerance})


def write_programs(graph: OperatorGraph, programs: Collection[str], folder: Path) -> None:
    """Copy the programs; a harness also gets the model's weights, and the operators that it runs."""
    for name in programs:
        shutil.copyfile(Path(__file__).parent / PROGRAMS[name], folder / PROGRAMS[name])
    if "harness" in programs and graph.host:
        shutil.copyfile(HOST_OPERATORS, folder / HOST_OPERATORS.name)
    constants = {name: one.value for name, one in graph.constants.items() if one.value is not None}
    if "harness" in programs and constants:
        save(folder / "constants.npz", constants)


def save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """An .npz file whose arrays may have any name, "file" too.

    `harness.py` has its own: it stands alone, and importing it would bring PyCUDA into this process.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(value), allow_pickle=False)
