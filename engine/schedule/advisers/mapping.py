"""The author `map`: which dimensions become blocks, threads and tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.fuse.nodes import FusionGroup
from engine.fuse.row_cost import Sizes, filling, row_tiles, thread_tile
from engine.fuse.row_sides import factors_of, reduced_columns, sizes_of
from engine.fuse.shape import is_contraction, product_operands
from engine.recipe import Advice, Entry, Scenario
from engine.schedule.advisers.access import row_vector
from engine.schedule.advisers.plans import Plan, widest
from engine.tensor.nodes import Statement, TensorProgram, accesses

WARP = 32
THREADS = 256
FEWEST_THREADS = 64
"""Smaller blocks could not fill an SM: it holds 32 of them."""
ROW_ELEMENTS = 32
"""Elements of a row that one thread may hold before more threads share the row."""
TILES = ((128, (8, 8)), (64, (4, 4)), (32, (2, 4)))
"""(rows and columns of a block, rows and columns of a thread) of a contraction, largest reuse first."""


def map_group(group: FusionGroup, sms: int, ranked: Sequence[Plan]) -> Advice:
    """Blocks and threads for a group.

    sms: streaming multiprocessors of the target, which want a block each.  ranked: the group's `plans`, best first.
    """
    program = group.program
    reductions = [s for s in program.statements if s.reduction is not None]
    heart = next((s for s in reductions if is_contraction(s)), None)
    if heart is not None:
        sizes = sizes_of(program)
        entries = _whole_rows(heart, program, sizes, sms) if sizes else _contraction(heart, sms)
    elif reductions and group.kind == "column reduction":
        entries = _columns(reductions)
    elif reductions:
        entries = _rows(reductions, program)
    else:
        entries = _elementwise(program, sms, ranked[0]) if ranked else []
    return Advice("map", Scenario(tuple(entries)))


def mark(statements: tuple[str, ...], dimension: str, name: str, value: int, because: str) -> Entry:
    """A `mark` entry."""
    return Entry(statements, dimension, "mark", (name, value), because=because)


def _elementwise(program: TensorProgram, sms: int, plan: Plan) -> list[Entry]:
    statement = (widest(program).name,)
    if plan.is_tiled:
        reason = "a read runs across the direction of the write: a shared tile makes both contiguous"
        return [mark(statement, "innermost", "tile", WARP, reason)]
    vectors = -(-math.prod(extent for _, extent in plan.walk.order) // plan.walk.width)
    threads = THREADS
    while threads > FEWEST_THREADS and -(-vectors // threads) < sms:
        threads //= 2
    blocks = -(-vectors // threads)
    several = f"{blocks:,} block{'s' if blocks > 1 else ''} of {threads} threads"
    reason = f"elements are independent: {several} for {sms} SMs, {plan.walk.width} elements a thread"
    return [mark(statement, "innermost", "thread", threads, reason)]


def _rows(reductions: list[Statement], program: TensorProgram) -> list[Entry]:
    first = reductions[0]
    columns = math.prod(i.extent for i in first.reduced)
    rows = math.prod(i.extent for i in first.parallel)
    vector = row_vector(program, first.reduced[-1].name)
    lanes = WARP
    while lanes < 1024 and columns > lanes * ROW_ELEMENTS:
        lanes *= 2
    while 4 < lanes <= WARP and columns <= lanes // 2 * vector:
        lanes //= 2
    names = tuple(s.name for s in reductions)
    share = "one warp holds a row" if lanes == WARP else f"{lanes} threads share a row of {columns}"
    entries = [mark(names, "innermost", "lane", lanes, share)]
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


def _whole_rows(heart: Statement, program: TensorProgram, sizes: Sizes, sms: int) -> list[Entry]:
    """The same where rows of the results are reduced: a block has all columns of its rows."""
    columns = reduced_columns(program.statements, heart)
    moving = {n for a in accesses(factors_of(heart, columns)[1]) for i in a.indices for n in i.iterators()}
    row = [i.name for i in heart.parallel if i.name not in moving][-1]
    block = filling(row_tiles(sizes.rows, sizes.columns), sizes, sms)
    entries: list[Entry] = []
    for name, tile, owned in zip((row, columns[-1]), block, thread_tile(block), strict=True):
        because = f"{sizes.blocks(block)} blocks of whole rows for {sms} SMs"
        entries.append(mark((heart.name,), name, "block", tile, because))
        entries.append(mark((heart.name,), name, "thread", owned, "each operand read serves several products"))
    return [*entries, _depth(heart)]


def _contraction(heart: Statement, sms: int) -> list[Entry]:
    factors = product_operands(heart.expression)
    assert factors is not None
    used = [{n for a in accesses(f) for i in a.indices for n in i.iterators()} for f in factors]
    sides = [[i for i in heart.parallel if i.name in used[n] and i.name not in used[1 - n]] for n in (0, 1)]
    sizes = [math.prod(i.extent for i in side) for side in sides]
    batches = math.prod(i.extent for i in heart.parallel) // math.prod(sizes)
    fitting = [t for t in TILES if batches * math.prod(-(-s // t[0]) for s in sizes) >= sms]
    block, threads = fitting[0] if fitting else TILES[-1]
    entries: list[Entry] = []
    for side, size, thread in zip(sides, sizes, threads, strict=True):
        tile = min(block, 1 << (size - 1).bit_length())
        blocks = batches * math.prod(-(-s // block) for s in sizes)
        reason = f"{blocks} blocks for {sms} SMs, the widest tile with enough"
        entries.append(mark((heart.name,), side[-1].name, "block", tile, reason))
        owned = max(1, tile * thread // block)
        entries.append(mark((heart.name,), side[-1].name, "thread", owned, "each operand read serves several products"))
    return [*entries, _depth(heart)]


def _depth(heart: Statement) -> Entry:
    depth = math.prod(i.extent for i in heart.reduced)
    tile_depth = max(4, min(16, 1 << (depth - 1).bit_length()))
    reason = "a tile of both factors in shared memory"
    return mark((heart.name,), heart.reduced[-1].name, "tile", tile_depth, reason)
