"""Advice for reductions: vectors along a row, and who shares a row or a column."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from engine.kernels.access_patterns import patterns, row_vector, wanted_widths
from engine.kernels.advice import AS_IN_TEXT, mark
from engine.kernels.marks import DEFAULT_THREADS
from engine.kernels.score import Score, score
from engine.recipe import Advice, Entry, Scenario
from engine.target import Target
from engine.target.hardware import MAX_THREADS, WARP
from engine.tensor.access import reads_beside
from engine.tensor.nodes import Statement, TensorProgram

ROW_ELEMENTS = 32
"""Elements of a row that one thread may hold before more threads share the row."""
BUSY = 128
"""Threads that keep an SM from waiting."""


def vectorize(program: TensorProgram) -> Advice:
    """The width of row reductions: neighbours along the row.

    Down columns neighbouring threads already fill whole transactions; wider threads would only leave fewer blocks.
    """
    target = _reductions(program)[0]
    along, found = target.reduced[-1].name, patterns(program)
    width = row_vector(program, along)
    if width == 1:
        return Advice("vectorize", Scenario())
    best = _width(target, along, width, "")
    if len(wanted_widths(found, along)) == 1:
        return Advice("vectorize", Scenario(best, label=f"all accesses agree on {width} at once"))
    why = f"; {score(along, found, innermost=True)}"
    offered = (Scenario(_width(target, along, w, why), label=f"{w} at once") for w in (width, width // 2))
    return Advice("vectorize", Scenario((), tuple(offered)))


def _width(target: Statement, along: str, width: int, why: str) -> tuple[Entry, ...]:
    moved = f"one access moves {width} elements" if width > 1 else "each is moved by itself"
    reason = f"neighbours along {along} are contiguous: {moved}{why}"
    return (mark((target.name,), "innermost", "vector", width, reason),)


def map_reduction(program: TensorProgram, machine: Target, by_row: bool) -> Advice:
    """Threads that share a row, or warps that share the terms of a column; both, the better one first, where accesses
    disagree on the loop that neighbouring threads should run along.

    by_row: whether rows are the better one.
    """
    reductions, found = _reductions(program), patterns(program)
    first = reductions[0]
    reduced, kept = first.reduced[-1].name, [i.name for i in first.parallel]
    rows, columns = tuple(_rows(reductions, program, machine)), tuple(_columns(reductions))
    ideals = {p.ideal for p in found if p.ideal is not None and reduced in p.moves and not p.moves.isdisjoint(kept)}
    across = [name for name in kept if name in ideals]
    if not across or ideals == {across[-1]}:
        return Advice("map", Scenario(rows if by_row else columns))
    along = _with_score(rows, score(reduced, found, innermost=True))
    beside = _with_score(columns, score(across[-1], found, innermost=True))
    offered = (
        Scenario(along, label=f"threads along a row, {AS_IN_TEXT}"), Scenario(beside, label="threads across columns")
    )
    return Advice("map", Scenario((), offered if by_row else offered[::-1]))


COMPETING = 1.5
"""Times the fewest sectors that a mapping may request to be preferred for its shorter time."""


def best_first(mapped: Advice, measure: Callable[[Advice], tuple[int, float]]) -> Advice:
    """The mappings ranked by their kernels' times; one that requests more sectors than the order of the text, or far
    more than the other, comes last.

    measure: (sectors, microseconds) of the kernel with one mapping alone.
    """
    offered = [(one, *measure(Advice(mapped.author, one))) for one in mapped.scenario.alternatives]
    if not offered:
        return mapped
    in_text = next(sectors for one, sectors, _ in offered if AS_IN_TEXT in one.label)
    limit = min(in_text, COMPETING * min(sectors for _, sectors, _ in offered))
    ranked = sorted(offered, key=lambda one: (one[1] > limit, one[2]))
    return Advice(mapped.author, Scenario((), tuple(one for one, *_ in ranked)))


def _with_score(entries: tuple[Entry, ...], why: Score) -> tuple[Entry, ...]:
    return (replace(entries[0], because=f"{entries[0].because}; {why}"), *entries[1:])


def _reductions(program: TensorProgram) -> list[Statement]:
    return [s for s in program.statements if s.reduction is not None]


def _rows(reductions: list[Statement], program: TensorProgram, machine: Target) -> list[Entry]:
    first = reductions[0]
    columns = math.prod(i.extent for i in first.reduced)
    rows = math.prod(i.extent for i in first.parallel)
    vector = row_vector(program, first.reduced[-1].name)
    lanes = WARP
    while lanes < MAX_THREADS and columns > lanes * ROW_ELEMENTS:
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
    per_block = rows_of_block(lanes, rows, machine)
    if first.parallel:
        everyone = tuple(s.name for s in program.statements)
        entries.append(mark(everyone, "outermost", "block", per_block, f"rows are independent, {per_block} a block"))
    return entries


def rows_of_block(lanes: int, rows: int, machine: Target) -> int:
    """Rows that a block of the usual size takes where so many threads share each: fewer where SMs would have none."""
    if lanes > WARP:
        return 1
    spread = 1 << (-(-rows // machine.sm_count) - 1).bit_length()
    return min(DEFAULT_THREADS // lanes, rows, max(WARP // lanes, spread))


def _columns(reductions: list[Statement]) -> list[Entry]:
    rows = math.prod(i.extent for i in reductions[0].reduced)
    warps = 8 if rows >= 64 else 1
    names = tuple(s.name for s in reductions)
    reason = "neighbouring threads own neighbouring columns, the warps of a block share the rows"
    return [mark(names, "innermost", "warp", warps, reason)]
