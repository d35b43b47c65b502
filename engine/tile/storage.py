"""Where the buffers of a kernel lie: the map of its shared memory, and what its pointers to global memory must be."""

from __future__ import annotations

from collections.abc import Mapping

from engine.graph.nodes import DTYPES
from engine.target.hardware import VECTOR_BYTES
from engine.tile.nodes import Buffer, TileProgram, operations
from engine.tile.source import GlobalWorkspace


def alignments(program: TileProgram) -> dict[str, int]:
    """Bytes that the address of each buffer in global memory must be a multiple of: those of the widest access to it.

    Accesses lie at multiples of their own width from the start of the buffer.
    """
    found = {b.name: DTYPES[b.dtype] for b in program.buffers.values() if b.scope in ("global", "workspace")}
    for op in operations(program.body):
        for region in op.regions:
            if region.buffer in found:
                found[region.buffer] = max(found[region.buffer], region.bytes_in(program.buffers[region.buffer]))
    return found


def workspaces(program: TileProgram) -> tuple[GlobalWorkspace, ...]:
    """The memory that a launch needs besides its arrays: what blocks of a team leave, and the counters they meet at."""
    own = {name: b for name, b in program.buffers.items() if b.scope == "workspace"}
    if not own:
        return ()  # as of nearly every launch: what follows walks the whole program
    aligned = alignments(program)
    zeroed = {name for op in operations(program.body) for name in op.zeroed}
    return tuple(GlobalWorkspace(f"{n}_", n, b.dtype, b.elements, aligned[n], n in zeroed) for n, b in own.items())


def shared_map(buffers: Mapping[str, Buffer]) -> tuple[dict[str, int], int]:
    """Byte offset of every shared buffer in the block's arena, and the arena's size.

    Parts of a launch have blocks of their own: their buffers lie at the same bytes, those of no part behind them.
    """
    shared = [buffer for buffer in buffers.values() if buffer.scope == "shared"]
    offsets: dict[str, int] = {}
    end = 0
    for part in sorted({b.part for b in shared}, reverse=True):
        own = [b for b in shared if b.part == part]
        begin = 0 if part else end
        last = max([begin, *(b.offset + shared_bytes_of(b) for b in own if b.offset is not None)])
        for buffer in own:
            if buffer.offset is None:
                offsets[buffer.name] = last
                last += shared_bytes_of(buffer)
            else:
                offsets[buffer.name] = buffer.offset
        end = max(end, last)
    return {buffer.name: offsets[buffer.name] for buffer in shared}, end


def shared_bytes_of(buffer: Buffer) -> int:
    """Bytes of shared memory that a buffer takes: whole vectors, so that the next one begins at a multiple of them."""
    return -(-buffer.elements * DTYPES[buffer.dtype] // VECTOR_BYTES) * VECTOR_BYTES
