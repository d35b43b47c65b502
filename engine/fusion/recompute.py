"""Select statements to recompute inside their readers instead of storing their results.

What a statement costs is counted in instructions of one thread: its operations and loads, times its points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from engine.fusion.stitching.instruction_costs import instructions
from engine.tensor.nodes import Access, Apply, Scalar, Statement
from engine.tensor.rewrite import is_plain

A_LAUNCH = 10**8
"""Instructions that the GPU issues in the time that one more kernel launch costs: what recomputing may add."""


MOST_DIVISIONS = 512
"""Divisions of indices in an expression of which every producer is computed in place: each goes into every index that
the reader has, so that they multiply from statement to statement."""

MOST_REPEATED = 1024
"""Points of a statement that every block may compute for itself: a few for each thread."""


def find_recomputable(
    statements: Sequence[Statement], kept: frozenset[str], everywhere: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Statements that may be computed again in their readers: element-wise, from outside, wanted by nobody else.

    Where storing needs another kernel, recomputing may add as many instructions as a launch is worth.  everywhere:
    statements whose results every block has.
    """
    made = {s.write.array: s for s in statements}
    points_read = _points_read(statements)
    found: set[str] = set()
    divided: dict[str, int] = {}
    for statement in statements:
        sources = [made[a.array] for a in statement.reads() if a.array in made]
        divided[statement.write.array] = divisions(statement, divided)
        if (
            statement.reduction is None
            and divided[statement.write.array] <= MOST_DIVISIONS
            and _gives_elements(statement, kept)
            and statement.name not in everywhere
            and all(s.name in found or s.name in everywhere for s in sources)
            and _added_instructions(statement, points_read) <= A_LAUNCH
        ):
            found.add(statement.name)
    return frozenset(found - {s.name for s in statements if s.write.array not in points_read})


def divisions(statement: Statement, in_place: Mapping[str, int]) -> int:
    """Divisions of a statement's indices at most, one more for each read, once its producers are computed in place.

    in_place: those of the producers, by the array that they make.
    """
    total = 0
    for access in statement.reads():
        own = max((index.divisions for index in access.indices), default=0)
        total += (1 + own) * in_place.get(access.array, 1)
    return total


def find_repeatable(statements: Sequence[Statement], kept: frozenset[str]) -> frozenset[str]:
    """Statements that every block may compute for itself: short reductions from outside, and what follows from them."""
    made = {s.write.array: s for s in statements}
    found: set[str] = set()
    for statement in statements:
        sources = [made[a.array] for a in statement.reads() if a.array in made]
        if (
            (statement.reduction is not None or sources)
            and _gives_elements(statement, kept)
            and all(s.name in found for s in sources)
            and statement.points <= MOST_REPEATED
        ):
            found.add(statement.name)
    points_read = _points_read(statements)
    return frozenset(found - {s.name for s in statements if s.write.array not in points_read})


def _gives_elements(statement: Statement, kept: frozenset[str]) -> bool:
    """Whether single elements of what a statement makes can be computed again, and nobody outside needs them."""
    is_whole = statement.covers and not statement.guards
    return statement.write.array not in kept and is_whole and is_plain(statement.write)


def _added_instructions(statement: Statement, points_read: Mapping[str, int]) -> int:
    """Instructions more than computing it once."""
    return cost(statement.expression) * (points_read.get(statement.write.array, 0) - statement.points)


def _points_read(statements: Sequence[Statement]) -> Counter[str]:
    """Array -> points of its readers, a reader counted for each of its accesses."""
    found: Counter[str] = Counter()
    for statement in statements:
        for access in statement.reads():
            found[access.array] += statement.points
    return found


def cost(value: Scalar) -> int:
    """Instructions of one evaluation, a load counting as one."""
    match value:
        case Access():
            return 1
        case Apply(function, operands, _):
            return instructions(function) + sum(map(cost, operands))
        case _:
            return 0
