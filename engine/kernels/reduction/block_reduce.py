"""The parts of a reduction that several threads hold become one value that each of them has.

By row, neighbouring lanes share a reduction: a shuffle tree, and past one warp a slot of shared memory for each warp.
By column, threads far apart share one: a slot for each thread, added up by all of them in the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from engine.support.errors import Unsupported
from engine.target.hardware import WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal, Reduction, Scalar, Statement
from engine.tensor.shifted_exponentials import SHIFTED_MEAN, SHIFTED_SUM, match_weighted
from engine.tile.emit import LANE_OF_VECTOR, Emitter
from engine.tile.nodes import THREAD, Barrier, Buffer, Declare, Load, Slot, Store, WarpReduce
from engine.tile.source import Line
from engine.tile.storage import shared_bytes_of

FIRST = Index()


@dataclass(frozen=True, slots=True)
class ReductionThreads:
    """The threads of a block that hold parts of the same reductions."""

    count: int
    lane: Index
    """Which of them a thread is."""
    beside: int = 1
    """Reductions that the threads of a block make at a time."""
    turn: Index = FIRST
    """0 or 1: which of two scratch buffers it is the turn of, where a block reduces several times in a loop."""
    turns: int = 1
    by_row: bool = False
    """Whether neighbouring lanes share a reduction and shuffle; else threads `beside` apart, by shared memory."""
    vector: int = 1
    """Reductions that one thread has a part of, side by side."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The registers in which a thread collects its part of a reduction."""

    total: Access
    largest: Access | None = None
    """Where exponentials are relative to the largest exponent (tensor/shifted.py): the largest so far."""


def accumulator(emitter: Emitter, statement: Statement, lanes: int = 1) -> Accumulator:
    """Registers (one for each of `lanes` of a vector) with the neutral value of a statement's reduction."""
    reduction, array = _reduction(statement), statement.write.array
    if reduction.operation == SHIFTED_MEAN:
        raise Unsupported("codegen", statement.name, "divides by its weights, which attention kernels alone sum up too")

    def register(name: str, value: float | int | bool) -> Access:
        shape = () if lanes == 1 else (lanes,)
        unique = emitter.register(name, reduction.accumulate, shape)
        emitter.declare(unique, Literal(value, reduction.accumulate))
        return Access(unique, (Index.of(LANE_OF_VECTOR),) if shape else ())

    total = register(f"{array}_acc", reduction.identity)
    is_shifted = reduction.operation == SHIFTED_SUM
    return Accumulator(total, register(f"{array}_largest", -math.inf) if is_shifted else None)


def accumulate(
    emitter: Emitter, statement: Statement, into: Accumulator, term: Scalar, mask: str | None, link: Line
) -> None:
    """Collect one term, where `mask` holds."""
    reduction = _reduction(statement)
    if into.largest is None:
        neutral = Literal(reduction.identity, reduction.accumulate)
        given = term if mask is None else Apply("select", (Access(mask, ()), term, neutral), reduction.accumulate)
        emitter.assign(_slot(into.total), given, link, reduction.operation)
        return
    parts, dtype = match_weighted(term), reduction.accumulate
    assert parts is not None, term
    lowest = Literal(-math.inf, dtype)
    own = parts.exponent if mask is None else Apply("select", (Access(mask, ()), parts.exponent, lowest), dtype)
    exponent = _local(emitter, f"{statement.write.array}_exponent", own, dtype, link)
    larger = _local(
        emitter, f"{statement.write.array}_larger", Apply("max", (into.largest, exponent), dtype), dtype, link
    )
    # A term of no weight stays one before any other was met: -inf less -inf is no number.
    weight = Apply("exp", (Apply("sub", (exponent, larger), dtype),), dtype)
    weight = Apply("select", (Apply("equal", (exponent, lowest), "bool"), Literal(0.0, dtype), weight), dtype)
    if parts.rounded:
        weight = Apply("cast", (Apply("cast", (weight,), parts.rounded),), dtype)
    added = weight if parts.factor is None else Apply("mul", (weight, parts.factor), dtype)
    moved = Apply("mul", (into.total, _shift(into.largest, larger, dtype)), dtype)
    emitter.assign(_slot(into.total), Apply("add", (moved, added), dtype), link)
    emitter.assign(_slot(into.largest), larger, link)


def combine(
    emitter: Emitter, statement: Statement, parts: Accumulator, sharers: ReductionThreads, link: Line
) -> str:
    """Combine what the threads that share a reduction collected, in all of them; says how."""
    reduction, array = _reduction(statement), statement.write.array

    def join(partial: Access, operation: str, identity: float | int | bool, name: str) -> str:
        its = replace(reduction, operation=operation, identity=identity)
        along = _along_rows if sharers.by_row else _down_columns
        return along(emitter, its, name, partial, sharers, link)

    if parts.largest is None:
        return join(parts.total, reduction.operation, reduction.identity, f"{array}_parts")
    dtype, lanes = reduction.accumulate, emitter.buffers[parts.total.array].shape
    before = Access(emitter.register(f"{array}_own", dtype, lanes), parts.total.indices)
    emitter.declare(before.array)
    emitter.assign_lanes(before, parts.largest, link)
    join(parts.largest, "max", -math.inf, f"{array}_largest_parts")
    moved = Apply("mul", (parts.total, _shift(before, parts.largest, dtype)), dtype)
    emitter.assign_lanes(parts.total, moved, link)
    how = join(parts.total, "sum", 0.0, f"{array}_parts")
    none = Apply("equal", (parts.largest, Literal(-math.inf, dtype)), "bool")
    emitter.assign_lanes(parts.total, Apply("select", (none, Literal(math.nan, dtype), parts.total), dtype), link)
    return f"the largest exponent, then the sum: {how}"


def _shift(old: Access, new: Access, dtype: str) -> Scalar:
    """By what sums relative to an exponent become relative to a larger one; 1 where nothing was summed yet."""
    factor = Apply("exp", (Apply("sub", (old, new), dtype),), dtype)
    return Apply("select", (Apply("equal", (old, new), "bool"), Literal(1.0, dtype), factor), dtype)


def _local(emitter: Emitter, name: str, value: Scalar, dtype: str, link: Line) -> Access:
    unique = emitter.register(name, dtype)
    emitter.add(Declare(unique, value, link))
    return Access(unique, ())


def _slot(register: Access) -> Slot:
    return Slot(register.array, register.indices)


def _along_rows(
    emitter: Emitter, reduction: Reduction, name: str, partial: Access, sharers: ReductionThreads, link: Line
) -> str:
    """Combine the parts of neighbouring lanes."""
    lanes = min(sharers.count, WARP)
    emitter.add(WarpReduce(Slot(partial.array), reduction.operation, lanes, link))
    if sharers.count <= WARP:
        return f"shuffle over {lanes} lanes"
    warps = sharers.count // WARP
    slots = sharers.beside * warps
    scratch = parts_buffer(emitter, name, reduction, slots * sharers.turns)
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


def _down_columns(
    emitter: Emitter, reduction: Reduction, name: str, partial: Access, sharers: ReductionThreads, link: Line
) -> str:
    """Combine the parts of threads `beside` apart."""
    if sharers.count == 1:
        return "one thread has all of it"
    vector = sharers.vector
    slots = sharers.count * sharers.beside * vector
    scratch = parts_buffer(emitter, name, reduction, slots * sharers.turns)
    lane_name = "lane_of_warp" if sharers.beside == WARP else "column_lane"
    lane = emitter.bind(lane_name, Index.of(THREAD).mod(sharers.beside, emitter.extents), link)
    mine = (sharers.lane * sharers.beside + lane) * vector + sharers.turn * slots
    emitter.add(Store(scratch, mine, Slot(partial.array), vector, None, link))
    emitter.add(Barrier(link))
    emitter.assign_lanes(partial, Literal(reduction.identity, reduction.accumulate), link)
    with emitter.loop("part", sharers.count, link) as part:
        found = emitter.register(f"{partial.array}_part", reduction.accumulate, (vector,) if partial.indices else ())
        if partial.indices:
            emitter.declare(found)
        place_of_part = (part * sharers.beside + lane) * vector + sharers.turn * slots
        emitter.add(Load(Slot(found), scratch, place_of_part, vector, None, None, link))
        emitter.assign_lanes(partial, Access(found, partial.indices), link, reduction.operation)
    return f"shared memory over {sharers.count} threads of each column"


def round_result(emitter: Emitter, statement: Statement, total: Access, link: Line) -> Access:
    """A reduction's result in the type of its array: the accumulator itself where it has that type."""
    array, accumulate = emitter.program.arrays[statement.write.array], _reduction(statement).accumulate
    if array.dtype == accumulate:
        return total
    lanes = emitter.buffers[total.array].shape
    name = emitter.register(array.name, array.dtype, lanes)
    cast = Apply("cast", (total,), array.dtype)
    result = Access(name, total.indices)
    emitter.declare(name, None if lanes else cast)
    if lanes:
        emitter.assign_lanes(result, cast, link)
    return result


def _reduction(statement: Statement) -> Reduction:
    assert statement.reduction is not None
    return statement.reduction


def parts_dtype(reduction: Reduction) -> str:
    """The type in which parts of a reduction pass shared memory."""
    return "int32" if reduction.accumulate == "bool" else reduction.accumulate


def parts_buffer(emitter: Emitter, name: str, reduction: Reduction, elements: int) -> str:
    """A buffer of shared memory for parts of a reduction."""
    dtype = parts_dtype(reduction)
    unique = emitter.register(name, dtype)
    emitter.buffers[unique] = Buffer(unique, dtype, (elements,), "shared")
    return unique


def parts_bytes(elements: int, reduction: Reduction) -> int:
    """Bytes of such a buffer in a block's shared memory."""
    return shared_bytes_of(Buffer("", parts_dtype(reduction), (elements,), "shared"))
