"""AKG's own generator of advice (branch r1.8) as a rule to compare with, applied as published.

Research notes, seeds.md 1.5: accesses (A), greedy order of iterators (B), vector width (C), rows (E) and mapping (F),
axis fusion.  What it makes becomes entries for our kernels: loop order, elements and threads of a block, vectors, and a
strip where the vector loop is moved outwards.  Left out: filling up a block of three dimensions from a fourth
(F.4).  Operators with reductions are skipped, as its later versions do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import engine
from engine.recipe import Advice, Entry, Scenario, entry
from engine.scheduling.published.axes import fused_axes
from engine.scheduling.published.match import written_statements
from engine.tensor.access import position, stride
from engine.tensor.nodes import Access, Iterator

THREADS, WARP, SPAN = 1024, 32, 1024
"""Threads of a block; what a factor should be a multiple of; elements that a moved vector loop may span."""

Axis = tuple[Iterator, ...]
"""Neighbouring iterators that the rule sees as one."""


@dataclass(frozen=True, slots=True)
class Described:
    """Step A: one access."""

    preferred: tuple[int, ...]
    """Axes, innermost first."""
    vector: int | None
    written: bool


def rule_advice(group: engine.FusionGroup) -> tuple[Advice, ...] | None:
    """The advice of the rule for a group; None where it is skipped."""
    written = written_statements(group)
    if any(s.reduction is not None for s in group.program.statements) or not written or not written[0].iterators:
        return None
    if any(s.iterators != written[0].iterators for s in written):
        return None
    axes = fused_axes(group, [i.name for i in written[0].iterators])
    accesses = _described(group, axes)
    order = _order(len(axes), accesses)
    vectors = [a.vector for a in accesses if a.preferred]
    width = min((v for v in vectors if v is not None), default=1)
    innermost = order[-1]
    if _extent(axes[innermost]) % width:
        width = 1
    place = len(order) - 1
    if width > 1 and None in vectors:
        place = _outwards(axes, order)
    return (Advice("user", Scenario(tuple(_entries(axes, order, width, place)), label="AKG r1.8")),)


def _extent(axis: Axis) -> int:
    return math.prod(i.extent for i in axis)


def _described(group: engine.FusionGroup, axes: Sequence[Axis]) -> list[Described]:
    """Step A for every read of an input and write of an output."""
    program = group.program
    found = []
    for statement in program.statements:
        found += [_describe(a, False, group, axes) for a in statement.reads() if a.array in program.inputs]
        if statement.write.array in program.outputs:
            found.append(_describe(statement.write, True, group, axes))
    return found


def _describe(access: Access, written: bool, group: engine.FusionGroup, axes: Sequence[Axis]) -> Described:
    where = position(access, group.program.arrays)
    steps = {k: stride(where, axis[-1].name) for k, axis in enumerate(axes)}
    moving = sorted((step, k) for k, step in steps.items() if step)
    if not moving or moving[0][0] != 1 or None in steps.values():
        return Described((), None, written)
    last = _extent(axes[moving[0][1]])
    vector = 2 if last == 2 else 4 if last >= 4 and last % 4 == 0 else None
    return Described(tuple(k for _, k in moving), vector, written)


def _order(axes: int, accesses: Sequence[Described]) -> tuple[int, ...]:
    """Step B, outermost first: the axis with the largest score goes next to the inside, the first name among equals."""
    left, order = list(range(axes)), []
    while left:
        scores = [_score(k, accesses, innermost=not order) for k in left]
        best = left[scores.index(max(scores))]
        left.remove(best)
        order.append(best)
    return tuple(reversed(order))


def _score(axis: int, accesses: Sequence[Described], innermost: bool) -> int:
    total = 0
    for access in accesses:
        if axis not in access.preferred:
            continue
        ideal = access.preferred[0] == axis
        total += len(access.preferred) - access.preferred.index(axis) + (ideal and access.written)
        if innermost and ideal and access.vector:
            total += 3 * access.vector + 2 * access.written
    return total


def _outwards(axes: Sequence[Axis], order: Sequence[int]) -> int:
    """Step E, partial vectors: the position that the "/V" dimension moves to."""
    spanned, furthest = 1, 0
    for k, axis in enumerate(reversed(order[:-1]), 1):
        spanned *= _extent(axes[axis]) - 1
        if spanned <= SPAN:
            furthest = k
    return max(1, len(order) - furthest - 1) if len(order) > 1 else 0


def _entries(axes: Sequence[Axis], order: tuple[int, ...], width: int, place: int) -> list[Entry]:
    """Steps E and F as entries."""
    along = order[-1]
    walked = (*order[:place], along, *order[place:-1])
    iterators = [i for axis in walked for i in axes[axis]]
    entries = []
    if walked != tuple(range(len(axes))):
        for outer, inner in zip([None, *iterators], iterators[:-1], strict=False):
            entries.append(entry(pin=inner.name, at=f"after {outer.name}" if outer else "outermost"))
    sizes = [_extent(axes[axis]) // (width if axis == along else 1) for axis in walked]
    threads = _threads(sizes)
    at = axes[along][-1].name if walked[-1] != along else "innermost"
    if width > 1:
        entries += [entry(split=width, at=at)] if walked[-1] != along else []
        entries.append(entry(mark=("vector", width), at=at))
    entries.append(entry(mark=("thread", threads), at="innermost"))
    entries.append(entry(mark=("block", threads * width), at="innermost"))
    return entries


def _threads(sizes: Sequence[int]) -> int:
    """Step F: threads of a block, over the sizes of the loops outside the vector, outermost first.

    Up to three loops from the inside, as far as they fit; the outermost is left for the grid, or split if it is alone.
    """
    used = 1
    inner = sizes[:0:-1] or sizes
    for size in inner[:3]:
        free = THREADS // used
        if size > free or len(sizes) == 1:
            return used * _factor(size, free, last_resort=len(sizes) == 1)
        used *= size
    return used


def _factor(size: int, limit: int, last_resort: bool) -> int:
    """The inner part of a strip-mined loop: a large divisor, of warps if there is one."""
    divisors = [n for n in range(1, min(size, limit) + 1) if size % n == 0]
    whole = [n for n in divisors if n % WARP == 0]
    best = max(whole or divisors)
    return limit if last_resort and best < math.isqrt(limit) else best
