"""Exact linear algebra on small integer matrices, for tests of linear independence."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

Vector = Sequence[int]


def rank(rows: Sequence[Vector]) -> int:
    """Number of linearly independent rows."""
    return len(_echelon(rows)[1])


@lru_cache(maxsize=4096)
def complement(rows: tuple[tuple[int, ...], ...], width: int) -> tuple[tuple[int, ...], ...]:
    """An integer basis of the vectors of `width` entries that are orthogonal to all `rows`.

    c is linearly independent of the rows exactly when some basis vector has a non-zero product with it.  Entries have
    no common divisor, and the first one is positive.
    """
    matrix, pivots = _echelon(rows)
    basis = []
    for free in range(width):
        if free in pivots:
            continue
        vector = [Fraction(int(k == free)) for k in range(width)]
        for row, pivot in zip(matrix, pivots, strict=True):
            vector[pivot] = -row[free]
        basis.append(_primitive(vector))
    return tuple(basis)


def _echelon(rows: Sequence[Vector]) -> tuple[list[list[Fraction]], list[int]]:
    """The reduced row echelon form without zero rows, and the column of each row's leading one."""
    done: list[list[Fraction]] = []
    pivots: list[int] = []
    for given in rows:
        row = [Fraction(value) for value in given]
        for other, pivot in zip(done, pivots, strict=True):
            row = _without(row, other, pivot)
        column = next((k for k, value in enumerate(row) if value), None)
        if column is None:
            continue
        row = [value / row[column] for value in row]
        done = [_without(other, row, column) for other in done]
        done.append(row)
        pivots.append(column)
    return done, pivots


def _without(row: list[Fraction], other: list[Fraction], column: int) -> list[Fraction]:
    """`row` with its entry in `column` eliminated by `other`, whose entry there is one."""
    factor = row[column]
    return [a - factor * b for a, b in zip(row, other, strict=True)] if factor else row


def _primitive(vector: Sequence[Fraction]) -> tuple[int, ...]:
    scale = lcm(*(value.denominator for value in vector))
    whole = [int(value * scale) for value in vector]
    divisor = gcd(*whole)
    if next(value for value in whole if value) < 0:
        divisor = -divisor
    return tuple(value // divisor for value in whole)
