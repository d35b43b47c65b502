"""The author `map`: which dimensions become blocks, threads and tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.fusion.nodes import FusionGroup
from engine.fusion.row_cost import row_tiles, thread_tile
from engine.fusion.row_sides import factors_of, reduced_columns
from engine.fusion.shape import is_contraction
from engine.recipe import Advice, Entry, Scenario
from engine.scheduling.advisers.access import row_vector
from engine.scheduling.advisers.plans import Plan, widest
from engine.scheduling.advisers.tiles import (
    Loop,
    Promise,
    Promises,
    Tile,
    candidates,
    promised_best,
    tile_reason,
    why_split,
)
from engine.target import Target
from engine.target.hardware import WARP
from engine.tensor.access import reads_beside
from engine.tensor.nodes import Statement, TensorProgram, accesses

THREADS = 256
FEWEST_THREADS = 64
"""Smaller blocks could not fill an SM: it holds 32 of them."""
ROW_ELEMENTS = 32
"""Elements of a row that one thread may hold before more threads share the row."""
BUSY = 128
"""Threads that keep an SM from waiting."""
TILES = (Tile((128, 128), (8, 8)), Tile((64, 64), (4, 4)), Tile((32, 32), (2, 4)))
"""Of a contraction, parts of a thread in place of a warp's: largest reuse first."""


def map_group(group: FusionGroup, machine: Target, ranked: Sequence[Plan], promises: Promises) -> Advice:
    """Blocks and threads for a group.

    machine: whose streaming multiprocessors want a block each.  ranked: the group's `plans`, best first.  promises: the
    model of a contraction's kernels.
    """
    program = group.program
    reductions = [s for s in program.statements if s.reduction is not None]
    anchor = next((s for s in reductions if is_contraction(s)), None)
    if anchor is not None:
        entries = _contraction(anchor, reduced_columns(program.statements, anchor), machine, promises(None))
    elif reductions and group.kind == "column reduction":
        entries = _columns(reductions)
    elif reductions:
        entries = _rows(reductions, program, machine)
    else:
        entries = _elementwise(program, machine, ranked[0]) if ranked else []
    return Advice("map", Scenario(tuple(entries)))


def mark(statements: tuple[str, ...], dimension: str, name: str, value: int, because: str) -> Entry:
    """A `mark` entry."""
    return Entry(statements, dimension, "mark", (name, value), because=because)


def _elementwise(program: TensorProgram, machine: Target, plan: Plan) -> list[Entry]:
    statement = (widest(program).name,)
    if plan.is_tiled:
        reason = "a read runs across the direction of the write: a shared tile makes both contiguous"
        return [mark(statement, "innermost", "tile", WARP, reason)]
    vectors = -(-math.prod(extent for _, extent in plan.walk.order) // plan.walk.width)
    threads = THREADS
    while threads > FEWEST_THREADS and -(-vectors // threads) < machine.sm_count:
        threads //= 2
    blocks = -(-vectors // threads)
    several = f"{blocks:,} block{'s' if blocks > 1 else ''} of {threads} threads"
    reason = f"elements are independent: {several} for {machine.sm_count} SMs, {plan.walk.width} elements a thread"
    return [mark(statement, "innermost", "thread", threads, reason)]


def _rows(reductions: list[Statement], program: TensorProgram, machine: Target) -> list[Entry]:
    first = reductions[0]
    columns = math.prod(i.extent for i in first.reduced)
    rows = math.prod(i.extent for i in first.parallel)
    vector = row_vector(program, first.reduced[-1].name)
    lanes = WARP
    while lanes < 1024 and columns > lanes * ROW_ELEMENTS:
        lanes *= 2
    if all(reads_beside(s, program.arrays) for s in reductions):
        lanes = 1
        while rows * lanes < machine.sm_count * BUSY and lanes * 2 <= min(columns, WARP):
            lanes *= 2
    while 1 < lanes <= WARP and columns <= lanes // 2 * vector:
        lanes //= 2
    names = tuple(s.name for s in reductions)
    share = "one warp holds a row" if lanes == WARP else f"{lanes} threads share a row of {columns}"
    if lanes == 1:
        share = f"a thread for each result of {columns} terms: more would have nothing to do, or read elements apart"
    entries = [mark(names, "innermost", "lane", lanes, share)]
    if lanes == 1 == vector and columns > ROW_ELEMENTS:
        reason = "loads of one result wait for each other in a loop; written out, they are under way together"
        entries.append(mark(names, "innermost", "unroll", columns, reason))
    per_block = max(1, min(THREADS // lanes, rows)) if lanes <= WARP else 1
    if first.parallel:
        everyone = tuple(s.name for s in program.statements)
        entries.append(mark(everyone, "outermost", "block", per_block, f"rows are independent, {per_block} a block"))
    return entries


def _columns(reductions: list[Statement]) -> list[Entry]:
    rows = math.prod(i.extent for i in reductions[0].reduced)
    warps = 8 if rows >= 64 else 1
    names = tuple(s.name for s in reductions)
    reason = "neighbouring threads own neighbouring columns, the warps of a block share the rows"
    return [mark(names, "innermost", "warp", warps, reason)]


def _contraction(anchor: Statement, whole: Sequence[str], machine: Target, promise: Promise) -> list[Entry]:
    """Tiles of a product.  whole: columns that a block has all of, because rows of the results are reduced."""
    factors = factors_of(anchor, whole)
    used = [{n for a in accesses(f) for i in a.indices for n in i.iterators()} for f in factors]
    sides = [[i for i in anchor.parallel if i.name in used[n] and i.name not in used[1 - n]] for n in (0, 1)]
    sides[1] = [i for i in sides[1] if i.name in whole] or sides[1]
    rows, columns = (math.prod(i.extent for i in side) for side in sides)
    results, depth = math.prod(i.extent for i in anchor.parallel), math.prod(i.extent for i in anchor.reduced)
    tiles = list(dict.fromkeys(_fitted(tile, (rows, columns)) for tile in TILES))
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


def _fitted(tile: Tile, sizes: tuple[int, int]) -> Tile:
    """A tile no wider than the product needs, a thread's part cut as much."""
    block = tuple(min(b, 1 << (size - 1).bit_length()) for b, size in zip(tile.block, sizes, strict=True))
    owned = tuple(max(1, b * t // whole) for b, t, whole in zip(block, tile.warp, tile.block, strict=True))
    return Tile((block[0], block[1]), (owned[0], owned[1]))


def _depth(anchor: Statement) -> Entry:
    depth = _tile_depth(math.prod(i.extent for i in anchor.reduced))
    return mark((anchor.name,), anchor.reduced[-1].name, "tile", depth, "a tile of both factors in shared memory")


def _tile_depth(depth: int) -> int:
    return max(4, min(16, 1 << (depth - 1).bit_length()))
