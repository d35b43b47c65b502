"""The author `tensorize`: which contractions run on tensor cores, with which instruction and tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.fuse.nodes import FusionGroup
from engine.fuse.row_cost import row_tiles, warp_tile
from engine.fuse.shape import is_contraction
from engine.recipe import Advice, Entry, Scenario
from engine.schedule.advisers.mapping import mark
from engine.schedule.advisers.row_results import row_binding
from engine.target.copies import MOST_HELD, SMALLEST_COPY
from engine.tensor.nodes import Iterator, Statement
from engine.tensor.rewrite import plain_iterator
from engine.tensorize.bind import Binding, allowed, bind
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import WARP, Intrinsic

LEAST = 8
"""Rows, columns and depths below which most of an instruction would multiply zeros."""
FRAGMENT = 16
"""Rows, columns and depths of the smallest tile: what one matrix load brings."""
DEPTH_BYTES = 64
"""Of one row of a tile: 32 halves, two steps of an instruction for each barrier."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """Rows and columns of a block and of one of its warps."""

    block: tuple[int, int]
    warp: tuple[int, int]


FEWEST_WARPS = 4
"""Of a block: one for each scheduler of an SM."""
FEWEST_TILES = 4
"""Tiles of a slice that fill a pipeline."""
MOST_RASTER = 16
"""Rows of tiles, past which a wave is no squarer on any GPU."""
TILES = (
    _Tile((128, 128), (64, 64)),
    _Tile((128, 64), (32, 32)),
    _Tile((64, 64), (32, 32)),
    _Tile((64, 32), (32, 16)),
    _Tile((32, 32), (16, 16)),
)
"""Largest reuse first: 128 sums to a thread, 32, 32, 16, 8."""
GATHERED = _Tile((128, 128), (64, 32))
"""In place of the first where copies go element by element: twice the threads share the addresses."""
MOST_WINDOWS = 2
"""Axes that windows slide along, past which the addresses of elements leave no registers for the largest tile."""


def tensorize_group(group: FusionGroup, sms: int, numerics: Mapping[str, str]) -> Advice:
    """Instruction and tiles for a contraction that tensor cores compute; nothing for other groups.

    sms: streaming multiprocessors of the target, which want a block each.  numerics: the recipe's, which say whether
    float32 may be rounded to tf32.
    """
    program = group.program
    heart = next((s for s in program.statements if is_contraction(s)), None)
    for intrinsic in INTRINSICS.values() if heart else ():
        assert heart is not None
        binding = bind(heart, program.arrays, intrinsic)
        if isinstance(binding, Binding):
            binding = row_binding(program.statements, heart, binding)
        if isinstance(binding, Binding) and allowed(intrinsic, numerics) and min(binding.sizes) >= LEAST:
            return Advice("tensorize", Scenario(tuple(entries_for(heart, binding, intrinsic, sms))))
    return Advice("tensorize", Scenario())


@dataclass(frozen=True, slots=True)
class Asked:
    """What this author asks for, as far as the pipeline's author needs to know it."""

    step: int
    """Depths of one step of all slices."""
    depth: int
    """Depths of one tile."""
    through_registers: bool
    """Whether elements of a factor go to its tile one by one, through registers."""


def asked_tile(group: FusionGroup, advice: Advice) -> Asked | None:
    """The tile that this author asks for; None for a group left alone."""
    marks = {e.value[0]: e.value[1] for e in advice.scenario.entries if isinstance(e.value, tuple)}
    depth, slices = marks.get("tile"), marks.get("slices", 1)
    if not isinstance(depth, int) or not isinstance(slices, int):
        return None
    intrinsic = INTRINSICS[str(marks["intrinsic"])]
    heart = next(s for s in group.program.statements if is_contraction(s))
    return Asked(intrinsic.k * slices, depth, goes_through_registers(heart, intrinsic))


def entries_for(heart: Statement, binding: Binding, intrinsic: Intrinsic, sms: int) -> list[Entry]:
    """The instruction for a contraction bound to it, and tiles that leave each of the GPU's `sms` a block."""
    m, n, k = binding.sizes
    sides = (binding.rows, binding.columns)

    def blocks_of(block: tuple[int, ...]) -> int:
        return binding.batches * math.prod(-(-size // b) for size, b in zip((m, n), block, strict=True))

    depth = min(DEPTH_BYTES // intrinsic.element_bytes, max(FRAGMENT, 1 << (k - 1).bit_length()))
    tiles: tuple[_Tile, ...] = (GATHERED, *TILES[1:]) if _is_gathered(heart) else TILES
    if binding.has_whole_rows:
        tiles = tuple(_Tile(block, warp_tile(block)) for block in row_tiles(m, n))
    fitted = [(_fitted(tile.block, (m, n)), tile) for tile in tiles]
    if goes_through_registers(heart, intrinsic):
        fitted = fitted[_windows(heart) > MOST_WINDOWS :] or fitted
        fitted = [(b, t) for b, t in fitted if max(b) * depth <= MOST_HELD * WARP * _warps(b, t)] or fitted[-1:]
    filling = ((block, t) for block, t in fitted if blocks_of(block) >= sms and _warps(block, t) >= FEWEST_WARPS)
    block, tile = next(filling, fitted[-1])
    waste = binding.padding((*block, depth))
    padded = f"{waste:.0%} of the products fill ragged tiles" if waste else "whole tiles, no padding"
    entries = [_intrinsic(heart, intrinsic, f"{binding}; {padded}; {intrinsic.because}")]
    for side, rows, of_warp in zip(sides, block, tile.warp, strict=True):
        entries += _tile(heart, side, rows, min(rows, of_warp), f"{blocks_of(block)} blocks for {sms} SMs")
    slices = _slices(blocks_of(block), sms, k // depth)
    steps = f"{depth // intrinsic.k} steps of {intrinsic.k} to a barrier"
    if slices > 1:
        reason = f"{blocks_of(block)} blocks leave SMs empty: {slices} times the warps wait for each other's loads"
        entries.append(mark((heart.name,), binding.depth[-1].name, "slices", slices, reason))
        steps += f" and slice, {slices} slices"
    depth *= slices
    reason = f"{steps}, rows of {depth * intrinsic.element_bytes} bytes"
    entries.append(mark((heart.name,), binding.depth[-1].name, "tile", depth, reason))
    return [*entries, *raster_entries(heart.name, binding.rows[-1].name, (m, n), block, sms)]


def _slices(blocks: int, sms: int, tiles: int) -> int:
    """Slices of the depth, where blocks are too few to hide what each waits for and every slice has tiles enough."""
    return next((n for n in (4, 2) if blocks < sms and tiles >= n * FEWEST_TILES), 1)


def raster_entries(statement: str, row: str, sizes: tuple[int, int], block: tuple[int, int], sms: int) -> list[Entry]:
    """The order of blocks for a product of `sizes` rows and columns in tiles of `block`, where another one is better.

    row: the innermost iterator of the rows.
    """
    raster = _raster(sizes, block, sms)
    return [mark((statement,), row, "raster", *raster)] if raster else []


def _raster(sizes: tuple[int, int], block: tuple[int, int], sms: int) -> tuple[int, str] | None:
    """(rows of tiles that blocks walk down together, why) where blocks that run at once then read less of L2."""
    rows, columns = (-(-size // b) for size, b in zip(sizes, block, strict=True))
    if rows * columns < 2 * sms:
        return None

    def panels(raster: int) -> int:
        """Rows and columns of the operands that a wave of blocks reads."""
        return raster * block[0] + min(columns, -(-sms // raster)) * block[1]

    best = min((n for n in range(1, MOST_RASTER + 1) if rows % n == 0), key=panels)
    if best == 1:
        return None
    saved = f"{panels(best):,} rows and columns of the operands instead of {panels(1):,}"
    return best, f"{sms} blocks at once then read {saved}"


def _is_gathered(heart: Statement) -> bool:
    """Whether a factor is read through windows: an index that several iterators move, as convolutions have."""
    return any(len(index.iterators()) > 1 for access in heart.reads() for index in access.indices)


def _windows(heart: Statement) -> int:
    """Axes along which windows slide."""
    return max(sum(len(index.iterators()) > 1 for index in access.indices) for access in heart.reads())


def goes_through_registers(heart: Statement, intrinsic: Intrinsic) -> bool:
    """Whether single elements of a factor, smaller than any asynchronous copy, are read in steps along its last axis:
    windows slide there, and no copy moves neighbours together."""
    last = [access.indices[-1] for access in heart.reads() if access.indices]
    return intrinsic.element_bytes < SMALLEST_COPY and any(plain_iterator(index) is None for index in last)


def _warps(block: tuple[int, int], tile: _Tile) -> int:
    """Warps of a block that may be narrower than the tile."""
    return math.prod(b // min(b, w) for b, w in zip(block, tile.warp, strict=True))


def _fitted(block: tuple[int, int], sizes: tuple[int, int]) -> tuple[int, int]:
    """A block's tile no wider than the product needs."""
    rows, columns = (min(b, max(FRAGMENT, 1 << (s - 1).bit_length())) for b, s in zip(block, sizes, strict=True))
    return rows, columns


def _intrinsic(heart: Statement, intrinsic: Intrinsic, because: str) -> Entry:
    return Entry((heart.name,), heart.reduced[-1].name, "mark", ("intrinsic", intrinsic.name), because=because)


def _tile(heart: Statement, side: tuple[Iterator, ...], block: int, warp: int, blocks: str) -> list[Entry]:
    name = side[-1].name
    sharing = f"{block // warp} warps of the block share it" if block > warp else "every warp spans the block's tile"
    return [
        mark((heart.name,), name, "block", block, f"{blocks}, the widest tile with enough"),
        mark((heart.name,), name, "warp", warp, f"{sharing}; wider ones read shared memory less often"),
    ]
