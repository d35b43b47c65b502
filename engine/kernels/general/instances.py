"""Which instance of a statement runs at a point of the schedule: its rows solved for its iterators.

    rows  t = i + j, u = j     ->   j = u, i = t - u,  where 0 <= t - u < 64
    row   t = 2 i              ->   i = t / 2,         where t % 2 == 0
    rows  t = i, u = 3         ->   i = t,             where u == 3
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.tensor.index import Extents, Index
from engine.tensor.nodes import Iterator


@dataclass(frozen=True, slots=True)
class Instance:
    """The instance of a statement at a point."""

    values: Mapping[str, Index]
    """Iterator -> its value, over the variables of the point; iterators that no row settles have none."""
    conditions: tuple[Index, ...]
    """Where all are >= 0, there is an instance."""


def solve_rows(rows: Sequence[tuple[Index, Index]], iterators: Sequence[Iterator], extents: Extents) -> Instance:
    """The instance at which every row has its value.

    rows: (affine row over the iterators, its value over kernel variables).  extents: of those variables.
    """
    names = [iterator.name for iterator in iterators]
    values = [value - row.constant for row, value in rows]
    alone = {row.terms[0][0]: value for (row, _), value in zip(rows, values, strict=True) if _is_one_iterator(row)}
    if len(alone) == len(rows) and alone.keys() <= set(names):  # the usual rows need no elimination
        last = {iterator.name: iterator.extent - 1 for iterator in iterators}
        ends = [c for name, value in alone.items() for c in (value, Index((), last[str(name)]) - value)]
        return Instance({str(name): value for name, value in alone.items()}, _open(ends, extents))
    # [coefficients of the iterators | the combination of rows that they come from]
    # In fractions: elimination divides, and a rounded pivot would make a wrong address.
    matrix = [
        [*(Fraction(row.coefficient(name)) for name in names), *(Fraction(int(k == r)) for k in range(len(rows)))]
        for r, (row, _) in enumerate(rows)
    ]
    settled: dict[str, Index] = {}
    conditions: list[Index] = []
    pivots = _eliminate(matrix, len(names))
    for r, line in enumerate(matrix):
        right = line[len(names) :]
        scale = math.lcm(*(c.denominator for c in right))
        total = Index()
        for c, value in zip(right, values, strict=True):
            total = total + value * int(c * scale)
        column = pivots.get(r)
        if column is None:  # a row that the others settle, too: its value must agree
            conditions += [total, total * -1]
            continue
        if any(line[k] for k in range(len(names)) if k != column):
            continue  # a sum of iterators that further rows take apart
        iterator = iterators[column]
        index = total.floordiv(scale, extents)
        rest = total.mod(scale, extents)
        settled[iterator.name] = index
        conditions += [rest * -1, index, Index((), iterator.extent - 1) - index]
    return Instance(settled, _open(conditions, extents))


def _is_one_iterator(row: Index) -> bool:
    return len(row.terms) == 1 and row.terms[0][1] == 1


def _open(conditions: Sequence[Index], extents: Extents) -> tuple[Index, ...]:
    """The conditions that do not hold everywhere, each once."""
    return tuple(c for c in dict.fromkeys(conditions) if c.bounds(extents)[0] < 0)


def _eliminate(matrix: list[list[Fraction]], columns: int) -> dict[int, int]:
    """Reduce a matrix to row echelon form in place, pivots 1: row -> the column of its pivot."""
    pivots: dict[int, int] = {}
    for column in range(columns):
        rest = [r for r in range(len(matrix)) if r not in pivots and matrix[r][column]]
        if not rest:
            continue
        first = rest[0]
        pivot = matrix[first][column]
        matrix[first] = [value / pivot for value in matrix[first]]
        for r in range(len(matrix)):
            factor = matrix[r][column]
            if r != first and factor:
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[first], strict=True)]
        pivots[first] = column
    return pivots
