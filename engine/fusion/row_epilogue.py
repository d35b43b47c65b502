"""Reductions over the columns of a product inside its kernel: a block's tile then holds whole rows of the result.

    p[i,j] = sum(k) a[i,k] * b[k,j];  t = p + r;  m[i] = max(j) t[i,j];  y[i,j] = t[i,j] - m[i]

The columns of such a kernel are the axes that are reduced; what else the factors move with are rows and batches.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from engine.tensor.nodes import Statement
from engine.tensor.rewrite import looked_up

Axes = Mapping[tuple[str, str], int]
"""(statement, iterator) -> the axis that it walks."""

CUT = "a tile of the matrix product holds only part of each reduced row"
MOST_COLUMNS = 256
"""Of a row that a block keeps: the widest tile of sums whose parts are the registers of its threads."""
SPREAD = frozenset(("sum", "prod", "max", "min", "any", "all"))
"""Reductions whose terms several threads can share."""


def row_reductions(statements: Sequence[Statement], anchor: Statement) -> tuple[Statement, ...]:
    """The reductions beside the product."""
    return tuple(s for s in statements if s.reduction is not None and s is not anchor)


def cut_rows(statements: Sequence[Statement], anchor: Statement, axes: Axes, sides: Sequence[Collection[int]]) -> str:
    """Why no tile of a product's results serves the reductions after it; "" where a tile of whole rows does.

    axes: of every iterator.  sides: axes that only the first and only the second factor moves with.
    """
    reductions = row_reductions(statements, anchor)
    columns = _reduced_axes(reductions[0], axes)
    if not any(columns <= set(side) for side in sides):
        return f"{CUT}: {anchor.operator} and {reductions[0].operator}"
    for other in reductions:
        if _reduced_axes(other, axes) != columns:
            return f"{other.operator} reduces other axes than {reductions[0].operator}"
        if other.reduction and not (other.reduction.associative and other.reduction.operation in SPREAD):
            return f"{other.operator} takes its terms in order, and several threads would share them"
    extents = {axes[anchor.name, i.name]: i.extent for i in anchor.iterators}
    size = math.prod(extents.get(axis, 1) for axis in columns)
    if size > MOST_COLUMNS:
        needs = f"{reductions[0].operator} needs all {size:,} columns of {anchor.operator}"
        return f"{CUT}: {needs}, a block holds up to {MOST_COLUMNS}"
    return _shared_by_threads(statements, anchor, axes, columns)


def _reduced_axes(statement: Statement, axes: Axes) -> set[int]:
    assert statement.reduction is not None
    return {axes[statement.name, name] for name in statement.reduction.iterators}


def _shared_by_threads(statements: Sequence[Statement], anchor: Statement, axes: Axes, columns: Collection[int]) -> str:
    """Why the threads of a row would meet in memory, or look up what they made; or ""."""
    made = {s.write.array: s for s in statements}
    read: set[str] = set()
    for statement in statements:
        for array in looked_up(statement) & made.keys():
            return f"{made[array].operator} computes indices that are looked up in memory"
        walked = {axes[statement.name, i.name] for i in statement.parallel}
        if statement is not anchor and statement.write.array in read and not walked.issuperset(columns):
            return f"{statement.operator} overwrites {statement.write.array}, which other threads of the row read"
        read |= {access.array for access in statement.reads()}
    return ""
