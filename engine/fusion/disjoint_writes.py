"""Writes of several statements to disjoint boxes of one array: such statements need no ordering."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from engine.tensor.nodes import Statement, writers_of


def disjointly_written(statements: Sequence[Statement]) -> frozenset[str]:
    """Arrays of which several statements write different boxes, and that none of them reads."""
    writers = writers_of(statements)
    several = {array for array, found in writers.items() if len(found) > 1}
    if several:
        several -= {access.array for statement in statements for access in statement.reads()}
    return frozenset(a for a in several if all(_are_apart(one, other) for one, other in combinations(writers[a], 2)))


def _are_apart(one: Statement, other: Statement) -> bool:
    """Whether what two statements write differs in the places along some axis."""
    for mine, theirs in zip(one.write.indices, other.write.indices, strict=True):
        (low, high), (lowest, highest) = mine.bounds(one.extents), theirs.bounds(other.extents)
        if high < lowest or highest < low:
            return True
    return False
