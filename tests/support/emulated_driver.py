"""The part of PyCUDA's driver that exported programs call, with launches that run in the emulator."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine.execution.emulate.emulate import emulate
from engine.tile.source import CudaSource, GlobalWorkspace, Parameter

SPACING = 1 << 32
"""Between the addresses of two allocations."""


def pointers_of(kernel: dict[str, Any]) -> list[dict[str, Any]]:
    """What a launch hands over, in order."""
    return [*kernel["parameters"], *kernel["workspaces"]]


def run_launch(
    folder: Path, kernel: dict[str, Any], entry: str, memory: list[np.ndarray], blocks: int | None = None
) -> None:
    """What a launch does: the .cu text over the operands' memory, in the order of its parameters and workspaces.

    blocks: the first so many alone.
    """
    (launch,) = (one for one in kernel["launches"] if one["entry"] == entry)
    # What one launch leaves in memory is read by the next: to the emulator of one of several, all is given.
    several = len(kernel["launches"]) > 1
    buffers = [
        Parameter(
            p["parameter"], p["name"], p["dtype"], p["elements"], p["read"] or several, p["written"], p["alignment"]
        )
        for p in kernel["parameters"]
    ]
    workspaces = [
        GlobalWorkspace(w["parameter"], w["name"], w["dtype"], w["elements"], w["alignment"], w["zeroed"])
        for w in kernel["workspaces"]
    ]
    # The emulator has workspaces of its own: that those of the launch are as they must be is seen here.
    for workspace, given in zip(workspaces, memory[len(buffers) :], strict=True):
        assert given.nbytes == workspace.bytes and not (workspace.zeroed and given.any())
    if several:
        buffers += [Parameter(w.parameter, w.name, w.dtype, w.elements, True, True, w.alignment) for w in workspaces]
        workspaces = []
    operands = memory[: len(buffers)]
    grid, block = (launch[name] for name in ("grid", "block"))
    source = CudaSource(
        (folder / kernel["file"]).read_text(encoding="utf-8"), entry, (grid[0], grid[1], grid[2]),
        (block[0], block[1], block[2]), launch["shared_bytes"], tuple(buffers), (), workspaces=tuple(workspaces),
        resident=-(-grid[0] // launch["least_sms"]) if launch["least_sms"] > 1 else 0,
    )  # fmt: skip
    values = {b.array: operand.copy() for b, operand in zip(buffers, operands, strict=True) if b.read}
    run, outputs, masks = emulate(source, values, blocks=None if blocks is None else range(blocks))
    assert not run.findings
    for buffer, operand in zip(buffers, operands, strict=True):
        if buffer.written:
            wrote = masks[buffer.array].reshape(-1)  # others may write, or have written, what lies beside
            operand[wrote] = outputs[buffer.array].reshape(-1)[wrote]


class EmulatedDriver:
    """The part of PyCUDA's driver that the harness calls; memory is the host's, launches are emulated."""

    Error = RuntimeError
    function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")
    device_attribute = SimpleNamespace(MULTIPROCESSOR_COUNT="SMs")

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.sms = 132
        device = SimpleNamespace(
            compute_capability=lambda: (9, 0), get_attribute=lambda name: {"SMs": self.sms}[name]
        )
        self.Context = SimpleNamespace(synchronize=lambda: None, get_device=lambda: device)
        self.folder = folder
        self.kernels = {one["entry"]: kernel for kernel in manifest["kernels"] for one in kernel["launches"]}
        self.memory: list[np.ndarray] = []
        self.attributes: dict[str, int] = {}
        self.forms: dict[str, str] = {}
        self.shared_limit = 1 << 20
        self.shift = 0
        """Bytes by which memory begins behind a large power of two."""

    def mem_alloc(self, size: int) -> int:
        self.memory.append(np.full(size + self.shift, 0xFF, np.uint8))
        return len(self.memory) * SPACING + self.shift

    def at(self, pointer: int, dtype: str, elements: int) -> np.ndarray:
        start = pointer % SPACING
        size = elements * np.dtype(dtype).itemsize
        part = self.memory[pointer // SPACING - 1][start : start + size]
        assert part.size == size, "a launch reaches past its buffer"
        return part.view(dtype)

    def memcpy_htod(self, pointer: int, value: np.ndarray) -> None:
        self.at(pointer, "uint8", value.nbytes)[:] = value.reshape(-1).view(np.uint8)

    def memcpy_dtoh(self, value: np.ndarray, pointer: int) -> None:
        value.reshape(-1)[:] = self.at(pointer, value.dtype.name, value.size)

    def module_from_buffer(self, code: bytes) -> SimpleNamespace:
        assert code[:4] == b"\x7fELF"
        return SimpleNamespace(get_function=self.function)

    def function(self, entry: str) -> SimpleNamespace:
        kernel = self.kernels[entry]

        def launch(grid: Any, block: Any, stream: Any, *pointers: int, shared_size: int) -> None:
            assert self.forms[entry] == "P" * len(pointers)
            (one,) = (one for one in kernel["launches"] if one["entry"] == entry)
            assert (list(block), shared_size) == (one["block"], self.attributes[entry])
            assert list(grid[1:]) == one["grid"][1:] and 1 <= grid[0] <= one["grid"][0]
            operands = zip(pointers, pointers_of(kernel), strict=True)
            memory = [self.at(at, p["dtype"], p["elements"]) for at, p in operands]
            run_launch(self.folder, kernel, entry, memory, grid[0] if grid[0] < one["grid"][0] else None)

        def set_attribute(name: str, value: int) -> None:
            if value > self.shared_limit:
                raise self.Error("invalid value")
            self.attributes[entry] = value

        return SimpleNamespace(
            set_attribute=set_attribute,
            prepare=lambda form: self.forms.__setitem__(entry, form),
            prepared_async_call=launch,
        )

    class Event:
        def record(self) -> None: ...

        def synchronize(self) -> None: ...

        def time_since(self, start: Any) -> float:
            return 0.0
