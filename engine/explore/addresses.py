"""What one warp of a kernel touches, access by access: seen by the emulator, not derived."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.codegen.nodes import Buffer
from engine.codegen.printer import shared_map
from engine.compile import Kernel
from engine.errors import EngineError
from engine.exploration import LanesDoc, WarpDoc
from engine.run.emulate.emulate import emulate
from engine.run.nodes import WarpAccess
from engine.schedule.text import to_text

BLOCK, WARP = 0, 0
SECTOR, PASS = 32, 128
"""Bytes of a sector of global memory, and of one pass over all banks of shared memory."""


def needs_values(kernel: Kernel) -> bool:
    """Whether addresses depend on what inputs hold: then made-up values would show addresses that no run has."""
    program = kernel.group.program
    return any(
        index.is_indirect for s in program.statements for access in (*s.reads(), s.write) for index in access.indices
    )


def addresses(kernel: Kernel, values: Mapping[str, np.ndarray] | None = None, timeout: float = 60.0) -> WarpDoc:
    """The accesses of warp 0 of block 0, in the order in which it came to them.

    values: of the arrays that the kernel reads; without them every element is 1, which no division minds.
    Raises MissingCapability without a C++ compiler, EngineError where the warp came to no access.
    """
    given = {
        b.array: np.ascontiguousarray(values[b.array]).reshape(-1) if values else np.ones(b.elements, b.dtype)
        for b in kernel.source.buffers
        if b.read
    }
    run, _, _ = emulate(kernel.source, given, blocks=(BLOCK,), trace=(BLOCK, WARP), timeout=timeout)
    if not run.accesses:
        reason = run.findings[0].message if run.findings else "the first warp of block 0 touches no memory"
        raise EngineError("run", kernel.group.name, reason)
    lanes = tuple(_document(kernel, access) for access in run.accesses)
    return WarpDoc(kernel.group.name, to_text(kernel.advice), BLOCK, lanes)


def _document(kernel: Kernel, access: WarpAccess) -> LanesDoc:
    arrays: dict[str, Buffer] = {b.parameter: b for b in kernel.source.buffers}
    taken = [offset for offset in access.offsets if offset >= 0]
    if access.parameter:
        name, start = arrays[access.parameter].array, 0
        ideal = -(-len(set(taken)) * access.width // SECTOR)
    else:
        name, start = _shared_buffer(kernel, min(taken, default=0))
        ideal = -(-len(taken) * access.width // PASS)  # lanes that read one word share it, but not a pass
    return LanesDoc(
        line=access.line,
        kind=access.kind,
        array=name,
        width=access.width,
        addresses=tuple(offset - start if offset >= 0 else -1 for offset in access.offsets),
        sectors=access.touched,
        ideal=ideal,
    )


def _shared_buffer(kernel: Kernel, offset: int) -> tuple[str, int]:
    """The shared buffer at an offset of the block's memory, and where it begins."""
    begins = shared_map(kernel.tile.buffers)[0]
    return max(((name, start) for name, start in begins.items() if start <= offset), key=lambda item: item[1])
