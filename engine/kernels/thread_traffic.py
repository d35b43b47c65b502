"""What one thread of a kernel moves, and the sectors that its warp touches, by the loops that it does so in.

    for chunk in 0 .. 3: load 16 bytes       ->    {(chunk): 16 bytes, (): 4 bytes};  with 8 chunks 132 bytes
    store 4 bytes

Kernels of a family that differ in the lengths of their loops alone move as much in each iteration: a search counts one
of them and knows the others exactly.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields

from engine.tile.nodes import AsyncCopy, LastArrival, Region, TileOp, TileProgram
from engine.tile.work import OUTSIDE, requests_of

MEETING = "after the meeting"
"""Among the loops where a caller names it: what the last block of a team does, as a loop that others do not enter."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes of one thread, and sectors of its warp."""

    outside: int
    """To and from global memory."""
    shared: int
    """To and from shared memory."""
    copied: int
    """From global to shared memory by asynchronous copies; the two above count them, too."""
    sectors: int
    """Of global memory, that the requests of a warp touch."""

    def __sub__(self, other: Moved) -> Moved:
        return Moved(*(getattr(self, what.name) - getattr(other, what.name) for what in fields(Moved)))


@dataclass(frozen=True, slots=True)
class ThreadTraffic:
    """Bytes in each iteration of nested loops: counters of the loops, outermost first -> what is moved."""

    terms: Mapping[tuple[str, ...], Moved]

    def total(self, trips: Mapping[str, int]) -> Moved:
        """What is moved where loops have these lengths.  KeyError for a loop of the kernel that is not given."""
        times = [(moved, math.prod(trips[name] for name in loops)) for loops, moved in self.terms.items()]
        return Moved(*(sum(getattr(m, what.name) * n for m, n in times) for what in fields(Moved)))


def count_thread_traffic(tile: TileProgram, loops: Collection[str]) -> ThreadTraffic:
    """That of a kernel whose threads all do the same.  loops: those whose lengths differ between kernels; others count
    as often as they turn."""
    terms: dict[tuple[str, ...], Moved] = {}
    sectors: dict[int, dict[Region, int]] = {}
    for one in requests_of(tile):
        if one.is_global:
            sectors.setdefault(id(one.op), {}).setdefault(one.region, one.cost)
    for op, around, times in _walk(tile.body, (), 1, loops):
        moved = op.bytes_moved(tile.buffers)
        if not moved:
            continue
        outside = times * sum(moved.get(scope, 0) for scope in OUTSIDE)
        shared, before = times * moved.get("shared", 0), terms.get(around, Moved(0, 0, 0, 0))
        copied = outside if isinstance(op, AsyncCopy) else 0
        touched = before.sectors + times * sum(sectors.get(id(op), {}).values())
        terms[around] = Moved(before.outside + outside, before.shared + shared, before.copied + copied, touched)
    return ThreadTraffic(terms)


def _walk(
    body: tuple[TileOp, ...], around: tuple[str, ...], times: int, loops: Collection[str]
) -> Iterator[tuple[TileOp, tuple[str, ...], int]]:
    """Every operation, the loops of `loops` around it, and how often the other loops around it turn."""
    for op in body:
        yield op, around, times
        for inner in op.bodies:
            if inner.counter in loops:
                yield from _walk(inner.operations, (*around, inner.counter), times, loops)
            else:
                yield from _walk(inner.operations, around, times * inner.extent, loops)
        if isinstance(op, LastArrival) and MEETING in loops:
            around = (*around, MEETING)
