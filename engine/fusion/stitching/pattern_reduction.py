"""PatternReduction: the best few patterns that start at each vertex, found from those of its consumers.

A vertex with many consumers has its consumers parted in two until a part is small; within a part every combination of
one or none of each consumer's patterns is tried, and the parts' results are merged (FusionStitching, section 5.2).

    edges 8 -> 5, 6, 7     parts {5, 6} and {7}     {8, 5, 2, 1, 6, 3}, {8, 5, 2, 1}, {8, 6, 3, 1}
                                                    {8, 7, 4, 1}, {8, 7, 4}, {8, 7}
                           merged                   {8, 5, 2, 1, 6, 3, 7, 4}, {8, 5, 2, 1, 7, 4}, {8, 6, 3, 1, 7, 4}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

Pattern = frozenset[int]
Score = Callable[[Pattern], float | None]
"""What a pattern saves (more is better), or None where it cannot be one kernel."""

WIDTH = 3
"""Patterns kept at each vertex."""
TOGETHER = 2
"""Consumers whose patterns are combined exhaustively."""


@dataclass(frozen=True, slots=True)
class ScoredPattern:
    """A pattern with its score."""

    pattern: Pattern
    score: float


def pattern_reduction(
    vertices: Iterable[int], consumers: Callable[[int], Sequence[int]], score: Score
) -> dict[int, tuple[ScoredPattern, ...]]:
    """The best patterns that start at each vertex, best first; every vertex alone is one that saves nothing.

    vertices: consumers before producers.  consumers: those among the vertices.
    """
    found: dict[int, tuple[ScoredPattern, ...]] = {}
    for vertex in vertices:
        found[vertex] = of_consumers(vertex, consumers(vertex), found, score)
    return found


def of_consumers(
    vertex: int, consumers: Sequence[int], found: Mapping[int, Sequence[ScoredPattern]], score: Score
) -> tuple[ScoredPattern, ...]:
    """The best patterns of a vertex with some of its consumers."""
    if len(consumers) <= TOGETHER:
        return best(combinations(vertex, consumers, found), score)
    # Combinations of n consumers are exponential; halving keeps WIDTH patterns of each half instead.
    half = -(-len(consumers) // 2)
    parts = [of_consumers(vertex, part, found, score) for part in (consumers[:half], consumers[half:])]
    alone = [c.pattern for part in parts for c in part]
    unions = [a.pattern | b.pattern for a in parts[0] for b in parts[1]]
    return best([*alone, *unions], score)


def combinations(
    vertex: int, consumers: Sequence[int], found: Mapping[int, Sequence[ScoredPattern]]
) -> Iterable[Pattern]:
    """The vertex with one or none of each consumer's patterns; combinations of equal union are given once."""
    own: Pattern = frozenset((vertex,))
    choices = [[frozenset[int](), *(c.pattern for c in found[consumer])] for consumer in consumers]
    return dict.fromkeys(own.union(*chosen) for chosen in product(*choices))


def best(patterns: Iterable[Pattern], score: Score) -> tuple[ScoredPattern, ...]:
    """The legal patterns with the highest scores; of equal ones the larger."""
    scored = ((pattern, score(pattern)) for pattern in dict.fromkeys(patterns))
    legal = [ScoredPattern(pattern, value) for pattern, value in scored if value is not None]
    return tuple(sorted(legal, key=lambda c: (-c.score, -len(c.pattern), sorted(c.pattern)))[:WIDTH])
