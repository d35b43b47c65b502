"""The marks of a schedule as the configuration of a product's kernel; notes say which were changed to fit, and why.

Stages are those that are asked for: the pipeline pass decides how many there may be.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from engine.fusion.row_cost import covering
from engine.kernels.gemm.base import GemmLowering
from engine.kernels.gemm.limits import (
    BLOCKS,
    CORE_BLOCK,
    CORE_DEPTH,
    CORE_PART,
    DEPTHS,
    WARPS,
    exchanged_bytes,
    is_tile_size,
    most_core_threads,
)
from engine.kernels.gemm.problem import CORE, takes_thirds
from engine.kernels.gemm.split_k import shared_out
from engine.kernels.marks import Marks, divisor_of, nearest_of, nearest_power, power_up_to
from engine.scheduling.nodes import Member
from engine.target import Target
from engine.target.hardware import MAX_WARPS, WARP
from engine.tensorize.nodes import FRAGMENT_SIZE, Intrinsic
from engine.tensorize.space import GemmConfig

_ON_CUDA_CORES = {
    "split": "loops are split by block, thread and tile; to share the depth of a tile among threads, ask for slices",
    "unroll": "loops inside a tile are always written out, the loop over tiles never",
    "vector": "copies and fragments are as wide as alignment and the tile allow",
    "lane": "the threads of a block share a tile, not a row",
    "warp": "the threads of a block share a tile, not a column",
    "axis": "without an intrinsic there is no axis to leave out of: all dimensions of a side are in its tiles",
}
_ON_TENSOR_CORES = {
    "split": "loops are split by block, warp and tile; to share the depth of a tile among warps, ask for slices",
    "unroll": "loops inside a tile are always written out, the loop over tiles never",
    "vector": "copies and fragments are as wide as alignment and the tile allow",
    "lane": "the threads of a block share a tile, not a row",
    "thread": "on tensor cores the instruction says which sums a thread owns: ask for warp tiles",
}
"""Marks that a contraction has no use for, and why."""


def choose_for_cuda_cores(gemm: GemmLowering, marks: Marks, machine: Target) -> GemmConfig:
    """As many threads as a block may have, and for every thread a share of the copies."""
    marks.refuse(_ON_CUDA_CORES)
    free, loop = gemm.free, gemm.loop.members
    thirds = (takes_thirds(gemm.program, gemm.axes.outer), False)
    blocks, threads = [], []
    whole = _row_tile(gemm, marks, 1) if gemm.has_whole_rows else 0
    for side, members in enumerate(free):
        least = max(1, WARP // whole) if whole else 1  # the lanes of whole warps share rows
        block = whole if side == 1 and whole else _block(marks, (least, CORE_BLOCK), members, thirds[side])
        blocks.append(block)
        threads.append(_part(marks, "thread", max(4, block // 16), (1, min(CORE_PART, block)), (block, members)))
    depth = marks.power("tile", 16, CORE_DEPTH, loop, max(1, WARP // min(blocks)) if whole else 1)
    most = most_core_threads((blocks[0], blocks[1], depth))
    while _parts(blocks, threads) > most:
        side = 0 if blocks[0] // threads[0] >= blocks[1] // threads[1] else 1
        threads[side] *= 2
        because = "with fewer, more threads than copies or than a block has"
        marks.note_change("thread", threads[side], because, free[side])
    while whole and _parts(blocks, threads) < WARP:
        side = 0 if threads[0] >= threads[1] else 1
        threads[side] //= 2
        because = f"with more, fewer than the {WARP} lanes that share rows"
        marks.note_change("thread", threads[side], because, free[side])
    config = GemmConfig((blocks[0], blocks[1], depth), (threads[0], threads[1]))
    slices = _slices(marks, config, min(depth // CORE[2], most // config.parts), (loop, False, machine))
    return _with_depth(gemm, marks, replace(config, slices=slices))


def choose_for_tensor_cores(gemm: GemmLowering, marks: Marks, intrinsic: Intrinsic, machine: Target) -> GemmConfig:
    """Whole fragments to a warp, and no more warps than a block may have."""
    marks.refuse(_ON_TENSOR_CORES)
    thirds = (takes_thirds(gemm.program, gemm.axes.outer), False)
    blocks, warps = [], []
    for side, members in enumerate(gemm.free):
        products = gemm.axes.siblings if side == 1 else 1
        if side == 1 and gemm.has_whole_rows:
            blocks.append(_row_tile(gemm, marks, FRAGMENT_SIZE))
        else:
            blocks.append(_block(marks, (BLOCKS[0] * products, BLOCKS[1]), members, thirds[side]))
        most, block = min(WARPS[1], blocks[-1]), blocks[-1]
        warps.append(_part(marks, "warp", min(32, block), (WARPS[0] * products, most), (block, members)))
    loop = gemm.loop.members
    depth = marks.power("tile", 32, DEPTHS[1], loop, max(DEPTHS[0], intrinsic.k))
    while _parts(blocks, warps) > MAX_WARPS:
        side = 0 if warps[0] <= warps[1] else 1
        warps[side] *= 2
        because = f"with fewer, more than the {MAX_WARPS} warps of a block"
        marks.note_change("warp", warps[side], because, gemm.free[side])
    config = GemmConfig((blocks[0], blocks[1], depth), (warps[0], warps[1]))
    slices = _slices(marks, config, min(depth // intrinsic.k, MAX_WARPS // config.parts), (loop, True, machine))
    return _with_depth(gemm, marks, replace(config, slices=slices))


def _block(marks: Marks, bounds: tuple[int, int], members: Collection[Member], takes_third: bool) -> int:
    """Rows or columns of a block's tile, 64 where no mark asks for others.  takes_third: as in `GemmProblem`."""
    least, most = bounds
    if not takes_third:
        return marks.power("block", 64, most, members, least)
    sizes = [size for size in range(least, most + 1, least) if is_tile_size(size, takes_third=True)]
    return marks.number("block", 64, nearest_of(sizes), _one_of(sizes), members)


def _part(
    marks: Marks, name: str, default: int, bounds: tuple[int, int], of: tuple[int, Collection[Member]]
) -> int:
    """Rows or columns of a warp's or of a thread's part of a tile, which has a power of two of them.

    of: rows or columns of the tile, and the dimensions that marks stand on.
    """
    (least, most), (block, members) = bounds, of
    if is_tile_size(block):
        return marks.power(name, default, most, members, least)
    unit = 3 * least if name == "warp" else 3
    sizes = [unit << n for n in range(block.bit_length()) if unit << n <= most and block % (unit << n) == 0]
    return marks.number(name, default, nearest_of(sizes), _one_of(sizes), members)


def _one_of(sizes: Sequence[int]) -> str:
    return f"one of {', '.join(map(str, sizes))}" if len(sizes) > 1 else str(sizes[0])


def _slices(marks: Marks, config: GemmConfig, most: int, where: tuple[Collection[Member], bool, Target]) -> int:
    """Slices of a tile's depth as a mark asks for them.

    most: that depth and threads leave; shared memory must hold the sums of all.  where: the loop, whether tensor cores
    multiply, and the machine.
    """
    loop, on_tensor_cores, machine = where
    if not all(map(is_tile_size, config.block)):
        return marks.number("slices", 1, lambda _: 1, "1: slices share tiles of powers of two", loop)
    room = max(1, machine.shared_limit // exchanged_bytes(config, on_tensor_cores))
    largest = max(1, min(most, room))
    largest = power_up_to(largest)(largest)
    needs = f"a power of two up to {largest}: slices share a block and its shared memory"
    return marks.number("slices", 1, nearest_power(1, largest), needs, loop)


def _parts(blocks: Sequence[int], parts: Sequence[int]) -> int:
    """Warps or threads that tiles of so many rows and columns have."""
    return math.prod(b // p for b, p in zip(blocks, parts, strict=True))


def _row_tile(gemm: GemmLowering, marks: Marks, least: int) -> int:
    """Columns of a block's tile that has whole rows; marks that ask for others are noted.

    least: columns that a tile has.
    """
    size = gemm.size[1]
    tile = covering(size, least)
    names = " and ".join(s.name for s in gemm.after if s.reduction is not None)
    needs = f"whole rows of {size} columns, {tile} in all, because {names} of them stay in one block"
    return marks.number("block", tile, lambda _: tile, needs, gemm.free[1])


def _with_depth(gemm: GemmLowering, marks: Marks, tiles: GemmConfig) -> GemmConfig:
    """The tiles with what the marks say of the walk through them: its order, and blocks and stages along the depth."""
    (rows, columns, depth), members = tiles.block, gemm.loop.members
    count = -(-gemm.size[0] // rows)
    raster = marks.number("raster", 1, divisor_of(count), f"a divisor of the {count} rows of tiles", gemm.free[0])
    steps, sums = gemm.tiling_of(depth).steps, gemm.tiles_of((rows, columns)) * rows * columns
    split_k = shared_out(marks, members, steps, sums, "the depth")
    stages, sets = marks.stages("stages", 2, members), marks.stages("register_stages", 1, members)
    outer = gemm.axes.outer
    return replace(tiles, stages=stages, register_stages=sets, split_k=split_k, raster=raster, outer=outer)
