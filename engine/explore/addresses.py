"""What one warp of a kernel touches, access by access: seen by the emulator, not derived."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.documents.exploration import LanesDoc, WarpDoc
from engine.execution.emulate.emulate import trace_warp
from engine.execution.nodes import Finding, WarpAccess
from engine.kernels.nodes import Kernel
from engine.scheduling.text import to_text
from engine.target.hardware import PASS_BYTES, SECTOR
from engine.tensor.nodes import TensorProgram
from engine.tile.nodes import TileProgram
from engine.tile.storage import shared_map

TRACED_BLOCK, TRACED_WARP = 0, 0


def addresses(kernel: Kernel, values: Mapping[str, np.ndarray], timeout: float = 60.0) -> WarpDoc | Finding:
    """The accesses of warp 0 of block 0 of each launch, in the order in which it came to them; what went wrong where
    something did.

    values: of the arrays that the kernel reads.  Raises MissingCapability without a C++ compiler.
    """
    given = {b.array: np.ascontiguousarray(values[b.array]).reshape(-1) for b in kernel.source.buffers if b.read}
    lanes: list[LanesDoc] = []
    first = 0
    for tile, launch in zip(kernel.tile.launches, kernel.launches, strict=True):
        traced = first + TRACED_BLOCK
        others = (first + block for block in launch.whole_teams((TRACED_BLOCK,)) if block != TRACED_BLOCK)
        blocks = (*others, traced)  # the last of a team does what is left
        run = trace_warp(kernel.source, given, (traced, TRACED_WARP), blocks=blocks, timeout=timeout)
        # Without the launches before, a later one reads what nobody has written; its addresses are the same.
        wrong = [found for found in run.findings if first == 0 or found.kind != "uninitialised"]
        if wrong:
            return wrong[0]
        lanes += [_document(kernel, tile, access) for access in run.accesses]
        first += launch.blocks
    return WarpDoc(kernel.group.name, to_text(kernel.advice), TRACED_BLOCK, tuple(lanes))


def dummy_inputs(kernel: Kernel, seed: int = 0) -> dict[str, np.ndarray] | None:
    """Dummy inputs for address tracing: indices in their range, ones elsewhere (no division by zero).

    None where addresses depend on inputs that are no whole numbers.
    """
    program = kernel.group.program
    ranges = _index_ranges(program)
    values: dict[str, np.ndarray] = {}
    stream = np.random.default_rng(seed)
    for buffer in kernel.source.buffers:
        if not buffer.read:
            continue
        values[buffer.array] = np.ones(buffer.elements, buffer.dtype)
        if buffer.array in ranges:
            low, high = ranges[buffer.array]
            if values[buffer.array].dtype.kind not in "iu" or low > high:
                return None
            values[buffer.array] = stream.integers(low, high, buffer.elements, buffer.dtype, endpoint=True)
    return values


def _index_ranges(program: TensorProgram) -> dict[str, tuple[int, int]]:
    """The arrays on whose values addresses depend, directly or through other arrays, with the range of the index."""
    accesses = [access for s in program.statements for access in (*s.reads(), s.write)]
    guards = [guard.index for s in program.statements for guard in s.guards]
    indices = [i for a in accesses for i in (*a.indices, *(guard.index for guard in a.guards))]
    ranges: dict[str, tuple[int, int]] = {}
    waiting = [(e.array, max(e.low, 0), e.high) for index in (*indices, *guards) for e in index.elements()]
    while waiting:
        array, low, high = waiting.pop()
        before = ranges.get(array, (low, high))
        after = (max(low, before[0]), min(high, before[1]))
        if ranges.get(array) != after:
            ranges[array] = after
            makers = [s for s in program.statements if s.write.array == array]
            waiting += [(read.array, *after) for s in makers for read in s.reads()]
    return ranges


def _document(kernel: Kernel, tile: TileProgram, access: WarpAccess) -> LanesDoc:
    source = kernel.source
    arrays = {b.parameter: b.array for b in source.buffers} | {w.parameter: w.name for w in source.workspaces}
    taken = [offset for offset in access.offsets if offset >= 0]
    if access.parameter:
        name, start = arrays[access.parameter], 0
        ideal = -(-len(set(taken)) * access.width // SECTOR)
    else:
        name, start = _shared_buffer(tile, min(taken, default=0))
        # Lanes that read one word share it, but a pass only where all of them read in pairs.
        ideal = min(access.touched, -(-len(taken) * access.width // PASS_BYTES))
    addresses = tuple(offset - start if offset >= 0 else -1 for offset in access.offsets)
    return LanesDoc(access.line, access.kind, name, access.width, addresses, sectors=access.touched, ideal=ideal)


def _shared_buffer(tile: TileProgram, offset: int) -> tuple[str, int]:
    """The shared buffer at an offset of the block's memory, and where it begins."""
    begins = shared_map(tile.buffers)[0]
    return max(((name, start) for name, start in begins.items() if start <= offset), key=lambda item: item[1])
