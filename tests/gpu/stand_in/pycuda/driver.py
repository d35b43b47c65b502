"""The part of PyCUDA's driver module that the benchmark calls; a launch runs the kernel's CUDA text in the emulator.

Which text a cubin was compiled from is looked up in the folder of `tests.benchmarks.prepared` that
LOOMSCOPE_STAND_IN_KERNELS names.  Pointers are addresses of the host.
"""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine.execution.emulate.emulate import emulate
from engine.support.serialization import from_json
from engine.tile.source import CudaSource
from tests.benchmarks.prepared import Prepared, PreparedKernel

function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")


class Error(Exception):
    """Base of the driver's errors."""


class Device:
    """The one device."""

    def __init__(self, number: int) -> None:
        assert number == 0

    def retain_primary_context(self) -> SimpleNamespace:
        return SimpleNamespace(push=lambda: None)


def init() -> None:
    pass


def get_driver_version() -> int:
    return int(os.environ.get("STAND_IN_CUDA", "13000"))


def module_from_buffer(code: bytes) -> SimpleNamespace:
    return SimpleNamespace(get_function=lambda entry: Function(_kernel(code, entry)))


def _kernel(code: bytes, entry: str) -> PreparedKernel:
    """The prepared kernel whose machine code this is."""
    folder = Path(os.environ["LOOMSCOPE_STAND_IN_KERNELS"])
    for path in folder.glob("*/*.cubin"):
        if path.read_bytes() == code:
            row, _, rest = path.name.removesuffix(".cubin").rpartition(".")
            row, group = row.rsplit(".", 1)
            data = json.loads(path.with_name(f"{row}.{rest}.json").read_text(encoding="utf-8"))
            kernel = from_json(Prepared, data).kernels[group]
            assert kernel.entry == entry
            return kernel
    raise Error("no prepared kernel has this machine code")


class Function:
    """A kernel that is emulated."""

    def __init__(self, kernel: PreparedKernel) -> None:
        self.kernel = kernel
        self.source = CudaSource(
            kernel.text, kernel.entry, kernel.grid, kernel.block, kernel.shared_bytes, kernel.parameters, (),
            workspaces=kernel.workspaces,
        )  # fmt: skip

    def set_attribute(self, name: str, value: int) -> None:
        assert (name, value) == ("shared", self.kernel.shared_bytes)

    def prepare(self, arguments: str) -> None:
        assert arguments == "P" * len([*self.kernel.parameters, *self.kernel.workspaces])

    def prepared_async_call(self, grid: Any, block: Any, stream: Any, *pointers: int, shared_size: int) -> None:
        assert (grid, block, shared_size) == (self.kernel.grid, self.kernel.block, self.kernel.shared_bytes)
        operands = {}
        count = len(self.kernel.parameters)
        for pointer, workspace in zip(pointers[count:], self.kernel.workspaces, strict=True):
            # The emulator has its own: that a launch gets zeros where it needs them is seen here.
            assert not workspace.zeroed or not any(ctypes.string_at(pointer, workspace.bytes))
        for pointer, parameter in zip(pointers[:count], self.kernel.parameters, strict=True):
            kind = np.dtype(parameter.dtype)
            memory = (ctypes.c_char * (parameter.elements * kind.itemsize)).from_address(pointer)
            operands[parameter.array] = np.frombuffer(memory, kind)
        given = {p.array: operands[p.array].copy() for p in self.kernel.parameters if p.read}
        run, outputs, _ = emulate(self.source, given)
        assert not run.findings, run.findings[0]
        for parameter in self.kernel.parameters:
            if parameter.written:
                operands[parameter.array][:] = outputs[parameter.array]
