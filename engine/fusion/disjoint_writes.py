"""Writes of several statements to disjoint boxes of one array: such statements need no ordering."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

from engine.tensor.nodes import Statement, writers_of

Box = tuple[tuple[int, int], ...]
"""First and last place along each axis."""


def disjointly_written(statements: Sequence[Statement]) -> frozenset[str]:
    """Arrays of which several statements write different boxes, and that none of them reads."""
    writers = writers_of(statements)
    several = {array for array, found in writers.items() if len(found) > 1}
    if several:
        several -= {access.array for statement in statements for access in statement.reads()}
    return frozenset(array for array in several if _are_disjoint([_box_written(s) for s in writers[array]]))


def _box_written(statement: Statement) -> Box:
    extents = statement.extents
    return tuple(index.bounds(extents) for index in statement.write.indices)


def _are_disjoint(boxes: Sequence[Box]) -> bool:
    """Whether every two boxes differ in their places along some axis."""
    # Nearly always one axis tells all of them apart, as that of a Concat: no need to look at every pair.
    for axis in zip(*boxes, strict=True):
        if all(high < low for (_, high), (low, _) in pairwise(sorted(axis))):
            return True
    return all(
        any(high < lowest or highest < low for (low, high), (lowest, highest) in zip(one, other, strict=True))
        for one, other in combinations(boxes, 2)
    )
