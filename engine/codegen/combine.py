"""The parts of a reduction that several threads hold become one value that each of them has.

By row, neighbouring lanes share a reduction: a shuffle tree, and past one warp a slot of shared memory for each warp.
By column, threads far apart share one: a slot for each thread, added up by all of them in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.codegen.emit import LANE_OF_VECTOR, Emitter
from engine.codegen.nodes import Line
from engine.codegen.tile import THREAD, Barrier, Buffer, Load, Slot, Store, WarpReduce
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal, Reduction, Statement

WARP = 32
FIRST = Index()


@dataclass(frozen=True, slots=True)
class Sharers:
    """The threads of a block that hold parts of the same reductions."""

    count: int
    lane: Index
    """Which of them a thread is."""
    beside: int = 1
    """Reductions that the threads of a block make at a time."""
    turn: Index = FIRST
    """0 or 1: which of two scratch buffers it is the turn of, where a block reduces several times in a loop."""
    turns: int = 1


def accumulator(emitter: Emitter, statement: Statement, lanes: int = 1) -> Access:
    """A register (one for each of `lanes` of a vector) with the neutral value of a statement's reduction."""
    reduction = _reduction(statement)
    shape = () if lanes == 1 else (lanes,)
    name = emitter.register(f"{statement.write.array}_acc", reduction.accumulate, shape)
    emitter.declare(name, Literal(reduction.identity, reduction.accumulate))
    return Access(name, (Index.of(LANE_OF_VECTOR),) if shape else ())


def along_rows(emitter: Emitter, statement: Statement, partial: Access, sharers: Sharers, link: Line) -> str:
    """Combine the parts of neighbouring lanes; says how."""
    reduction = _reduction(statement)
    lanes = min(sharers.count, WARP)
    emitter.add(WarpReduce(Slot(partial.array), reduction.operation, lanes, link))
    if sharers.count <= WARP:
        return f"shuffle over {lanes} lanes"
    warps = sharers.count // WARP
    slots = sharers.beside * warps
    scratch = _scratch(emitter, statement, slots * sharers.turns)
    lane = emitter.bind("lane_of_warp", sharers.lane.mod(WARP, emitter.extents), link)
    warp = emitter.bind("warp", Index.of(THREAD).floordiv(WARP, emitter.extents), link)
    first = emitter.mask(emitter.fresh("first_lane"), [lane * -1], link)
    emitter.add(Store(scratch, warp + sharers.turn * slots, Slot(partial.array), 1, first, link))
    emitter.add(Barrier(link))
    has_part = emitter.mask(emitter.fresh("has_part"), [Index((), warps - 1) - lane], link)
    neutral = Literal(reduction.identity, reduction.accumulate)
    row = Index.of(THREAD).floordiv(sharers.count, emitter.extents) * warps
    emitter.add(Load(Slot(partial.array), scratch, row + lane + sharers.turn * slots, 1, has_part, neutral, link))
    emitter.add(WarpReduce(Slot(partial.array), reduction.operation, WARP, link))
    return f"shuffle over {lanes} lanes, then shared memory over {warps} warps"


def down_columns(
    emitter: Emitter, statement: Statement, partial: Access, sharers: Sharers, link: Line, vector: int = 1
) -> str:
    """Combine the parts of threads `beside` apart; says how."""
    reduction = _reduction(statement)
    if sharers.count == 1:
        return "one thread has all of it"
    slots = sharers.count * sharers.beside * vector
    scratch = _scratch(emitter, statement, slots * sharers.turns)
    name = "lane_of_warp" if sharers.beside == WARP else "column_lane"
    lane = emitter.bind(name, Index.of(THREAD).mod(sharers.beside, emitter.extents), link)
    mine = (sharers.lane * sharers.beside + lane) * vector + sharers.turn * slots
    emitter.add(Store(scratch, mine, Slot(partial.array), vector, None, link))
    emitter.add(Barrier(link))
    emitter.reset(partial, Literal(reduction.identity, reduction.accumulate), link)
    with emitter.loop("part", sharers.count, link) as part:
        found = emitter.register(f"{partial.array}_part", reduction.accumulate, (vector,) if partial.indices else ())
        if partial.indices:
            emitter.declare(found)
        place_of_part = (part * sharers.beside + lane) * vector + sharers.turn * slots
        emitter.add(Load(Slot(found), scratch, place_of_part, vector, None, None, link))
        with emitter.loop(LANE_OF_VECTOR, vector, link):
            value = Access(found, partial.indices)
            emitter.assign(Slot(partial.array, partial.indices), value, link, reduction.operation)
    return f"shared memory over {sharers.count} threads of each column"


def rounded(emitter: Emitter, statement: Statement, total: Access, link: Line) -> Access:
    """A reduction's result in the type of its array: the accumulator itself where it has that type."""
    array, accumulate = emitter.program.arrays[statement.write.array], _reduction(statement).accumulate
    if array.dtype == accumulate:
        return total
    lanes = emitter.buffers[total.array].shape
    name = emitter.register(array.name, array.dtype, lanes)
    cast = Apply("cast", (total,), array.dtype)
    if not lanes:
        emitter.declare(name, cast)
        return Access(name, ())
    emitter.declare(name)
    with emitter.loop(LANE_OF_VECTOR, lanes[-1], link):
        emitter.assign(Slot(name, total.indices), cast, link)
    return Access(name, total.indices)


def _reduction(statement: Statement) -> Reduction:
    assert statement.reduction is not None
    return statement.reduction


def _scratch(emitter: Emitter, statement: Statement, elements: int) -> str:
    name, dtype = f"{statement.write.array}_parts", _reduction(statement).accumulate
    emitter.buffers[name] = Buffer(name, "int32" if dtype == "bool" else dtype, (elements,), "shared")
    return name
