"""Which axes of a product are rows and which columns, where its kernel reduces rows of the result."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.fusion.row_epilogue import row_reductions
from engine.fusion.shape import product_operands
from engine.tensor.nodes import Scalar, Statement, iterators_of


def reduced_columns(statements: Sequence[Statement], anchor: Statement) -> tuple[str, ...]:
    """The product's iterators that reductions of its results walk, in a group's program; () where there is none.

    One name is one axis there.
    """
    walked = {name for s in row_reductions(statements, anchor) if s.reduction for name in s.reduction.iterators}
    return tuple(i.name for i in anchor.parallel if i.name in walked)


def factors_of(anchor: Statement, columns: Collection[str]) -> tuple[Scalar, Scalar]:
    """The factors of a product, the one that moves with `columns` second; in its own order where there are none."""
    factors = product_operands(anchor.expression)
    assert factors is not None, anchor
    first, second = factors
    return (second, first) if iterators_of(first).intersection(columns) else (first, second)
