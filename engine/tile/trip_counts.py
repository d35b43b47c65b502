"""How often the operations of a tile program run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from engine.tensor.index import Index
from engine.tile.nodes import TileOp


def trip_counts(
    body: tuple[TileOp, ...], times: int = 1, loops: Mapping[str, int] | None = None, threads: int = 0
) -> list[tuple[TileOp, int]]:
    """Every operation and how often one thread runs it; branches that threads take differently count as taken.

    loops: counter -> extent of the loops around the body.  threads: those of a block, of which `times` is a
    multiple: what the first of them alone run counts for these; 0 counts it for all.
    """
    around, found = loops or {}, list[tuple[TileOp, int]]()
    for op in body:
        found.append((op, times))
        for inner in op.bodies:
            holds, of = _share_of_iterations(inner.condition, around) if inner.condition else (1, 1)
            counters = {inner.counter: inner.extent} if inner.counter else {}
            if threads and inner.threads is not None:
                holds, of = holds * inner.threads, of * threads
            inside = times * inner.extent * holds // of
            found += trip_counts(inner.operations, inside, {**around, **counters}, threads)
        # A loop that some iterations leave, and a kernel that some blocks leave: fewer come to what follows.
        some, every = op.passing
        times = times * some // every
    return found


def _share_of_iterations(condition: Index, loops: Mapping[str, int]) -> tuple[int, int]:
    """How many of the iterations that a condition tells apart it holds in, and how many there are."""
    names = [name for name in condition.iterators() if name in loops]
    ranges = [range(loops[name]) for name in names]
    holds = 0
    for values in itertools.product(*ranges):
        point = {name: Index((), value) for name, value in zip(names, values, strict=True)}
        left = condition.substitute(point, loops)
        # What still names the block or a thread differs between them: counted as if all took the branch.
        holds += bool(left.terms) or left.constant >= 0
    return holds, math.prod(map(len, ranges))
