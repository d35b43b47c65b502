"""The author `map` on contractions: tiles of a product on CUDA cores, and a thread's part of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.fusion.row_cost import row_tiles, thread_tile
from engine.fusion.row_sides import factors_of, reduced_columns
from engine.fusion.shape import is_contraction
from engine.kernels.advice import mark
from engine.kernels.gemm.limits import most_core_threads
from engine.kernels.gemm.tiles import Loop, Promise, Tile, candidates, promised_best, tile_reason, why_split
from engine.recipe import Advice, Entry, Scenario
from engine.target import Target
from engine.tensor.nodes import Statement, TensorProgram, accesses

TILES = (Tile((128, 128), (8, 8)), Tile((64, 64), (4, 4)), Tile((32, 32), (2, 4)))
"""Parts of a thread in place of a warp's: largest reuse first."""


def map_contraction(program: TensorProgram, machine: Target, promise: Promise) -> Advice:
    """Tiles of a block and of a thread.

    machine: whose streaming multiprocessors want a block each.  promise: the model of its kernels.
    """
    anchor = next(s for s in program.statements if is_contraction(s))
    whole = reduced_columns(program.statements, anchor)
    return Advice("map", Scenario(tuple(_contraction(anchor, whole, machine, promise))))


def _contraction(anchor: Statement, whole: Sequence[str], machine: Target, promise: Promise) -> list[Entry]:
    """Tiles of a product.  whole: columns that a block has all of, because rows of the results are reduced."""
    factors = factors_of(anchor, whole)
    used = [{n for a in accesses(f) for i in a.indices for n in i.iterators()} for f in factors]
    sides = [[i for i in anchor.parallel if i.name in used[n] and i.name not in used[1 - n]] for n in (0, 1)]
    sides[1] = [i for i in sides[1] if i.name in whole] or sides[1]
    rows, columns = (math.prod(i.extent for i in side) for side in sides)
    results, depth = math.prod(i.extent for i in anchor.parallel), math.prod(i.extent for i in anchor.reduced)
    tiles = list(dict.fromkeys(_fit_tile(tile, (rows, columns), _tile_depth(depth)) for tile in TILES))
    if whole:
        tiles = [Tile(block, thread_tile(block)) for block in row_tiles(rows, columns, least=1)]
    loop = Loop(depth, _tile_depth(depth))
    choices = list(candidates(tiles, loop, results, machine))
    chosen, promised = promised_best(choices, promise)
    blocks = results // (rows * columns) * math.prod(
        -(-size // b) for size, b in zip((rows, columns), chosen.block[:2], strict=True)
    )
    reason = tile_reason(blocks, promised, len(tiles), machine)
    entries: list[Entry] = []
    for side, tile, owned in zip(sides, chosen.block[:2], chosen.part, strict=True):
        entries.append(mark((anchor.name,), side[-1].name, "block", tile, reason))
        reuse = "each operand read serves several products"
        entries.append(mark((anchor.name,), side[-1].name, "thread", owned, reuse))
    if chosen.split_k > 1:
        reason = why_split(blocks, machine, promised, choices, promise)
        entries.append(mark((anchor.name,), anchor.reduced[-1].name, "split_k", chosen.split_k, reason))
    return [*entries, _depth(anchor)]


def _fit_tile(tile: Tile, sizes: tuple[int, int], depth: int) -> Tile:
    """A tile no wider than the product needs, a thread's part cut as much but for what its copies ask."""
    block = tuple(min(b, 1 << (size - 1).bit_length()) for b, size in zip(tile.block, sizes, strict=True))
    owned = [max(1, b * t // whole) for b, t, whole in zip(block, tile.warp, tile.block, strict=True)]
    most = most_core_threads((block[0], block[1], depth))
    while block[0] // owned[0] * (block[1] // owned[1]) > most:
        side = 0 if block[0] // owned[0] >= block[1] // owned[1] else 1
        owned[side] *= 2
    return Tile((block[0], block[1]), (owned[0], owned[1]))


def _depth(anchor: Statement) -> Entry:
    depth = _tile_depth(math.prod(i.extent for i in anchor.reduced))
    return mark((anchor.name,), anchor.reduced[-1].name, "tile", depth, "a tile of both factors in shared memory")


def _tile_depth(depth: int) -> int:
    return max(4, min(16, 1 << (depth - 1).bit_length()))
