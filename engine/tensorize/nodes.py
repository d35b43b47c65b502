"""A tensor-core instruction as a value: what it computes, how its operands lie in registers, what the text calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.graph.nodes import DTYPES
from engine.target.hardware import WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Statement

LANE, REGISTER = "lane", "register"
"""Variables of a fragment's index maps."""
MATRIX_ROWS, ROW_BYTES = 8, 16
"""Rows of one matrix that a matrix load moves, and bytes of each of them."""
FRAGMENT_SIZE = 2 * MATRIX_ROWS
"""Rows or columns of an operand that one matrix load brings, as two by two matrices: the smallest tile of a warp."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """One operand of an instruction, spread over the lanes of a warp: (lane, register) -> (row, column)."""

    shape: tuple[int, int]
    dtype: str
    registers: int
    """Elements that one lane holds."""
    row: Index
    column: Index

    @property
    def extents(self) -> dict[str, int]:
        """Extents of the variables of `row` and `column`."""
        return {LANE: WARP, REGISTER: self.registers}

    def places(self) -> Iterator[tuple[int, int, int, int]]:
        """(lane, register, row, column) of every element that some lane holds."""
        for lane in range(WARP):
            for register in range(self.registers):
                values = {LANE: Index((), lane), REGISTER: Index((), register)}
                row, column = (i.substitute(values, {}).constant for i in (self.row, self.column))
                yield lane, register, row, column


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """d = a * b + d for an m x k and a k x n operand, by all 32 lanes of a warp together."""

    name: str
    """What a `mark intrinsic` entry says, and the device function of the CUDA text."""
    ptx: str
    m: int
    n: int
    k: int
    meaning: Statement
    """The product in our own expressions."""
    a: Fragment
    b: Fragment
    c: Fragment
    architecture: str
    """The first instruction set that has it."""
    numerics: str
    """What the recipe's numerics must say of "tensor_cores" for it to be used; "" where it loses nothing."""
    because: str
    """What it does to the numbers."""

    @property
    def dtype(self) -> str:
        """Element type of the first operand in memory; the second's has as many bytes."""
        return self.a.dtype

    @property
    def held(self) -> str:
        """Element type of the sums."""
        return self.c.dtype

    @property
    def element_bytes(self) -> int:
        """Of one element of an operand in memory."""
        return DTYPES[self.dtype]
