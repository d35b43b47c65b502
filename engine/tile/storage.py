"""Where the buffers of a kernel that are no parameters lie: shared memory, and global memory of the kernel's own."""

from __future__ import annotations

from collections.abc import Mapping

from engine.graph.nodes import DTYPES
from engine.tile.nodes import Buffer, TileProgram

ALIGNMENT = 16


def workspaces(program: TileProgram) -> dict[str, str]:
    """Names of the kernel's own global memory in the CUDA text -> names of the buffers."""
    return {f"{program.name}_{b.name}": b.name for b in program.buffers.values() if b.scope == "workspace"}


def shared_map(buffers: Mapping[str, Buffer]) -> tuple[dict[str, int], int]:
    """Byte offset of every shared buffer in the block's arena, and the arena's size."""
    shared = [buffer for buffer in buffers.values() if buffer.scope == "shared"]
    end = max((b.offset + shared_bytes_of(b) for b in shared if b.offset is not None), default=0)
    offsets: dict[str, int] = {}
    for buffer in shared:
        if buffer.offset is None:
            offsets[buffer.name] = end
            end += shared_bytes_of(buffer)
        else:
            offsets[buffer.name] = buffer.offset
    return offsets, end


def shared_bytes_of(buffer: Buffer) -> int:
    """Bytes of shared memory that a buffer takes: whole vectors."""
    return -(-buffer.elements * DTYPES[buffer.dtype] // ALIGNMENT) * ALIGNMENT
