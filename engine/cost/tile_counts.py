"""Counting a tile program: what its threads request from each level of memory."""

from __future__ import annotations

import math

from engine.cost.nodes import Work
from engine.fusion.shape import is_contraction
from engine.graph.nodes import DTYPES
from engine.target.hardware import WARP
from engine.tensor.nodes import TensorProgram
from engine.tensor.shifted_exponentials import is_shifted
from engine.tensor.traffic import compulsory_bytes, flop_counts
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import ROW_BYTES, Intrinsic
from engine.tile.nodes import (
    AsyncCopy,
    BlockRanges,
    For,
    Load,
    MatrixLoad,
    MatrixMultiply,
    Store,
    TileOp,
    TileProgram,
    before_meeting,
)
from engine.tile.source import CudaSource
from engine.tile.trip_counts import trip_counts


def work_of_tile(
    program: TensorProgram, tile: TileProgram, source: CudaSource, registers: int | None = None
) -> Work:
    """The figures that `predict` works with.  Masked accesses count as if they happened.

    registers: of one thread, once the kernel was compiled for the target.
    """
    read, written = compulsory_bytes(program)
    flops, special = flop_counts(program)
    intrinsic = INTRINSICS.get(tile.intrinsic)
    if intrinsic:
        products = [s for s in program.statements if is_contraction(s) or is_shifted(s)]
        flops -= sum(2 * math.prod(s.extents.values()) for s in products)
    moved = [_moved(tile, blocks, body) for blocks, body in _ranges(tile)]
    return Work(
        blocks=tile.grid,
        threads=tile.threads,
        flops=flops,
        special=special,
        dram_bytes_read=read,
        dram_bytes_written=written,
        l2_bytes=sum(outside for outside, _ in moved),
        shared_bytes=source.shared_bytes,
        shared_bytes_moved=sum(shared for _, shared in moved),
        registers=registers,
        tensor_flops=_tensor_flops(tile, intrinsic) if intrinsic else 0,
        tensor_type=intrinsic.dtype if intrinsic else "",
        stages=tile.stages,
        serial_steps=max(_serial_steps(body) for _, body in _ranges(tile)),
        team=tile.team,
        team_bytes=_team_bytes(source),
    )


def _team_bytes(source: CudaSource) -> int:
    """Of the workspaces that teams share evenly; their counters, which begin as zeros, are not read again."""
    return sum(w.bytes for w in source.workspaces if not w.zeroed) * source.team // source.grid[0]


def _ranges(tile: TileProgram) -> tuple[tuple[int, tuple[TileOp, ...]], ...]:
    """(blocks, what they do): all of them the same, but in a packed kernel."""
    match tile.body:
        case (BlockRanges(parts),):
            return parts
        case body:
            return ((tile.grid, body),)


def _tensor_flops(tile: TileProgram, intrinsic: Intrinsic) -> int:
    """Operations of all warps of the grid."""
    warps = tile.grid * tile.threads // WARP
    products = sum(times for op, times in trip_counts(tile.body) if isinstance(op, MatrixMultiply))
    return warps * products * 2 * intrinsic.m * intrinsic.n * intrinsic.k


def _moved(tile: TileProgram, blocks: int, body: tuple[TileOp, ...]) -> tuple[int, int]:
    """Bytes that the threads of some blocks move to or from (global, shared) memory."""
    outside = shared = 0
    for op, times in trip_counts(body, blocks * tile.threads):
        match op:
            case Load(_, name, _, width) | Store(name, _, _, width):
                buffer = tile.buffers[name]
                size = width * DTYPES[buffer.dtype] * times
                outside += size if buffer.scope in ("global", "workspace") else 0
                shared += size if buffer.scope == "shared" else 0
            case MatrixLoad():
                shared += ROW_BYTES * times
            case AsyncCopy(_, _, name, _, width):
                size = width * DTYPES[tile.buffers[name].dtype] * times
                outside, shared = outside + size, shared + size
            case _:
                continue
    return outside, shared


def _serial_steps(body: tuple[TileOp, ...]) -> int:
    """Iterations that wait for a load of their own: loops that are not unrolled, or one pass.

    What the last block of a team does after the meeting is counted as the meeting's.
    """
    walked = (op for op in before_meeting(body) if isinstance(op, For) and not op.unroll)
    return max([1, *(op.extent * _serial_steps(op.body) for op in walked)])
