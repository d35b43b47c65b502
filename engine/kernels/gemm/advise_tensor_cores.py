"""The author `tensorize`: which contractions run on tensor cores, with which instruction and tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping

from engine.fusion.nodes import FusionGroup
from engine.fusion.row_cost import row_tiles, warp_tile
from engine.fusion.shape import is_contraction
from engine.kernels.advice import mark
from engine.kernels.gemm.advise_row_epilogue import row_binding
from engine.kernels.gemm.tiles import (
    Loop,
    Promise,
    Promises,
    Tile,
    candidates,
    promised_best,
    tile_reason,
    why_split,
)
from engine.recipe import Advice, Entry, Scenario
from engine.target import Target
from engine.target.copies import MOST_HELD, SMALLEST_COPY
from engine.target.hardware import WARP
from engine.tensor.nodes import Iterator, Statement
from engine.tensor.rewrite import plain_iterator
from engine.tensorize.bind import Binding, bind, is_allowed
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import FRAGMENT_SIZE, Intrinsic

LEAST = 8
"""Rows, columns and depths below which most of an instruction would multiply zeros."""
DEPTH_BYTES = 64
"""Of one row of a tile: 32 halves, two steps of an instruction for each barrier."""


MOST_RASTER = 16
"""Rows of tiles, past which a wave is no squarer on any GPU."""
TILES = (
    Tile((128, 128), (64, 64)),
    Tile((128, 64), (32, 32)),
    Tile((64, 64), (32, 32)),
    Tile((64, 32), (32, 16)),
    Tile((32, 32), (16, 16)),
)
"""Largest reuse first: 128 sums to a thread, 32, 32, 16, 8."""
GATHERED = Tile((128, 128), (64, 32))
"""In place of the first where copies go element by element: twice the threads share the addresses."""
MOST_WINDOWS = 2
"""Axes that windows slide along, past which the addresses of elements leave no registers for the largest tile."""


def tensorize_group(group: FusionGroup, machine: Target, numerics: Mapping[str, str], promises: Promises) -> Advice:
    """Instruction and tiles for a contraction that tensor cores compute; nothing for other groups.

    numerics: the recipe's, which say whether float32 may be rounded to tf32.  promises: the model of kernels of a
    binding.
    """
    program = group.program
    anchor = next((s for s in program.statements if is_contraction(s)), None)
    for intrinsic in INTRINSICS.values() if anchor else ():
        assert anchor is not None
        binding = bind(anchor, program.arrays, intrinsic)
        if isinstance(binding, Binding):
            binding = row_binding(program.statements, anchor, binding)
        if isinstance(binding, Binding) and is_allowed(intrinsic, numerics) and min(binding.sizes) >= LEAST:
            entries = entries_for(anchor, binding, intrinsic, machine, promises(intrinsic))
            return Advice("tensorize", Scenario(tuple(entries)))
    return Advice("tensorize", Scenario())


def entries_for(
    anchor: Statement, binding: Binding, intrinsic: Intrinsic, machine: Target, promise: Promise
) -> list[Entry]:
    """The instruction for a contraction bound to it, and the tiles that the model promises most of.

    promise: the model's microseconds of a kernel with some knobs.
    """
    m, n, k = binding.sizes
    depth = min(DEPTH_BYTES // intrinsic.element_bytes, max(FRAGMENT_SIZE, 1 << (k - 1).bit_length()))
    loop = Loop(k, depth, intrinsic.k, goes_through_registers(anchor, intrinsic))
    tiles = _tiles(anchor, binding, loop)
    choices = list(candidates(tiles, loop, m * n * binding.batches, machine))
    chosen, promised = promised_best(choices, promise)
    waste = binding.padding(chosen.block)
    padded = f"{waste:.0%} of the products fill ragged tiles" if waste else "whole tiles, no padding"
    blocks = binding.batches * math.prod(-(-size // b) for size, b in zip((m, n), chosen.block[:2], strict=True))
    entries = [_intrinsic(anchor, intrinsic, f"{binding}; {padded}; {intrinsic.because}")]
    because = tile_reason(blocks, promised, len(tiles), machine)
    for side, rows, of_warp in zip((binding.rows, binding.columns), chosen.block[:2], chosen.part, strict=True):
        entries += _tile(anchor, side, rows, of_warp, because)
    steps = f"{depth // intrinsic.k} steps of {intrinsic.k} to a barrier"
    along = ((anchor.name,), binding.depth[-1].name)
    if chosen.slices > 1:
        why = f"{blocks} tiles leave SMs empty" if blocks < machine.sm_count else "a tile has few warps"
        reason = f"{why}: {chosen.slices} times as many hide each other's waiting"
        entries.append(mark(*along, "slices", chosen.slices, reason))
        steps += f" and slice, {chosen.slices} slices"
    if chosen.split_k > 1:
        reason = why_split(blocks, machine, promised, choices, promise)
        entries.append(mark(*along, "split_k", chosen.split_k, reason))
    reason = f"{steps}, rows of {chosen.block[2] * intrinsic.element_bytes} bytes"
    entries.append(mark(*along, "tile", chosen.block[2], reason))
    return [*entries, *raster_entries(anchor.name, binding.rows[-1].name, (m, n), chosen.block[:2], machine.sm_count)]


def _tiles(anchor: Statement, binding: Binding, loop: Loop) -> list[Tile]:
    """Tiles no wider than the product; whole rows where they are reduced, few addresses where elements are gathered."""
    sizes = binding.sizes[:2]
    tiles: tuple[Tile, ...] = (GATHERED, *TILES[1:]) if _is_gathered(anchor) else TILES
    if binding.has_whole_rows:
        tiles = tuple(Tile(block, warp_tile(block)) for block in row_tiles(*sizes))
    fitted = list(dict.fromkeys(_fit_tile(tile, sizes) for tile in tiles))
    if not loop.through_registers:
        return fitted
    few = fitted[_windows(anchor) > MOST_WINDOWS :] or fitted
    return [t for t in few if max(t.block) * loop.tile <= MOST_HELD * WARP * t.warps] or few[-1:]


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


def _is_gathered(anchor: Statement) -> bool:
    """Whether a factor is read through windows: an index that several iterators move, as convolutions have."""
    return any(len(index.iterators()) > 1 for access in anchor.reads() for index in access.indices)


def _windows(anchor: Statement) -> int:
    """Axes along which windows slide."""
    return max(sum(len(index.iterators()) > 1 for index in access.indices) for access in anchor.reads())


def goes_through_registers(anchor: Statement, intrinsic: Intrinsic) -> bool:
    """Whether single elements of a factor, smaller than any asynchronous copy, are read in steps along its last axis:
    windows slide there, and no copy moves neighbours together."""
    last = [access.indices[-1] for access in anchor.reads() if access.indices]
    return intrinsic.element_bytes < SMALLEST_COPY and any(plain_iterator(index) is None for index in last)


def _fit_tile(tile: Tile, sizes: tuple[int, int]) -> Tile:
    """A tile no wider than the product needs."""
    block = tuple(min(b, max(FRAGMENT_SIZE, 1 << (s - 1).bit_length())) for b, s in zip(tile.block, sizes, strict=True))
    warp = tuple(map(min, block, tile.warp))
    return Tile((block[0], block[1]), (warp[0], warp[1]))


def _intrinsic(anchor: Statement, intrinsic: Intrinsic, because: str) -> Entry:
    return Entry((anchor.name,), anchor.reduced[-1].name, "mark", ("intrinsic", intrinsic.name), because=because)


def _tile(anchor: Statement, side: tuple[Iterator, ...], block: int, warp: int, because: str) -> list[Entry]:
    name = side[-1].name
    sharing = f"{block // warp} warps of the block share it" if block > warp else "every warp spans the block's tile"
    return [
        mark((anchor.name,), name, "block", block, because),
        mark((anchor.name,), name, "warp", warp, f"{sharing}; wider ones read shared memory less often"),
    ]
