"""Whether a mapping keeps every operand in place: products of binary matrices (AMOS, algorithm 1; GTA's first layer).

With X the accesses of the operator (operands x iterators), Y the matching (axes of the intrinsic x iterators) and Z the
accesses of the intrinsic (operands x axes), and * the boolean matrix product:

    valid  iff  Z * Y = X  and  X * Y^T = Z
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.tensorize.product import ProductOperand

Matrix = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Matrices:
    """X, Y and Z of one mapping; iterators that stay loops around the intrinsic have no column."""

    software: Matrix
    """X: which iterators move each operand of the operator."""
    matching: Matrix
    """Y: which iterators make up each axis of the intrinsic."""
    intrinsic: Matrix
    """Z: which axes move each operand of the intrinsic."""

    def why_invalid(self) -> str:
        """Which of the two equations fails; "" for a valid mapping."""
        if not np.array_equal(multiply(self.intrinsic, self.matching), self.software):
            return "an operand would not move with all its iterators: Z * Y is not X"
        if not np.array_equal(multiply(self.software, self.matching.T), self.intrinsic):
            return "an axis of the intrinsic would move an operand that it holds still: X * Y^T is not Z"
        return ""


def multiply(a: Matrix, b: Matrix) -> Matrix:
    """The boolean matrix product: "or" over "and"."""
    return np.asarray(a.astype(np.int64) @ b.astype(np.int64) > 0)


def access_matrix(operands: Sequence[ProductOperand], iterators: Sequence[str]) -> Matrix:
    """operands x iterators: whether the iterator moves the operand."""
    rows = [[name in operand.iterators for name in iterators] for operand in operands]
    return np.array(rows, bool).reshape(len(operands), len(iterators))


def matching_matrix(axes: Sequence[Collection[str]], iterators: Sequence[str]) -> Matrix:
    """axes x iterators: whether the iterator is part of the axis."""
    return np.array([[name in axis for name in iterators] for axis in axes], bool).reshape(len(axes), len(iterators))
