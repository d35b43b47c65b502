"""Which axes of a product are rows and which columns, where its kernel reduces rows of the result."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from engine.fusion.axis_splitting import split
from engine.fusion.row_cost import Sizes
from engine.fusion.row_epilogue import row_reductions
from engine.fusion.shape import Shape, is_contraction, product_operands
from engine.tensor.nodes import Array, Scalar, Statement, TensorProgram, accesses


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
    return (second, first) if _moving(first).intersection(columns) else (first, second)


def row_sizes(statements: Sequence[Statement], shape: Shape, arrays: Mapping[str, Array]) -> Sizes:
    """What a block with whole rows of a product has to do with, of statements with a loop space."""
    anchor = split(next(s for s in statements if is_contraction(s)), shape.splits)
    columns = [i.name for i in anchor.parallel if shape.axes[anchor.name, i.name] in shape.columns]
    return _sizes(anchor, columns, arrays)


def sizes_of(program: TensorProgram) -> Sizes | None:
    """The same of a group's program; None where no rows of a product's results are reduced."""
    anchor = next((s for s in program.statements if is_contraction(s)), None)
    columns = reduced_columns(program.statements, anchor) if anchor else ()
    return _sizes(anchor, columns, program.arrays) if anchor and columns else None


def _sizes(anchor: Statement, columns: Collection[str], arrays: Mapping[str, Array]) -> Sizes:
    first, second = factors_of(anchor, columns)
    moved = _moving(first), _moving(second)
    m, n, wide = (_points(anchor, names) for names in (moved[0] - moved[1], columns, moved[1] - moved[0]))
    batches, depth = (math.prod(i.extent for i in side) for side in (anchor.parallel, anchor.reduced))
    return Sizes(m, n, depth, batches // (m * n), arrays[next(iter(accesses(first))).array].dtype, wide // n)


def _points(anchor: Statement, names: Collection[str]) -> int:
    return math.prod(i.extent for i in anchor.parallel if i.name in names)


def _moving(factor: Scalar) -> set[str]:
    """Iterators that a factor moves with."""
    return {name for access in accesses(factor) for index in access.indices for name in index.iterators()}
