"""What the lanes of a warp do with fragments of matrix instructions: contractions and attention do the same.

    first factor    16 rows x k       a lane holds rows g, g + 8 and depths 2t, 2t + 1, then k / 2 further
    second factor   k x 16 columns    two instructions' worth: one matrix load brings four matrices
    sums            16 rows x 8       a lane holds rows g, g + 8 and columns 2t, 2t + 1

with g = lane / 4 and t = lane % 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.kernels.gemm.base import Owned
from engine.kernels.gemm.operand import Operand
from engine.target.hardware import REGISTER_BYTES
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Scalar
from engine.tensor.rewrite import with_element
from engine.tensorize.intrinsics import LOADS
from engine.tensorize.nodes import MATRIX_ROWS, Intrinsic
from engine.tile.emit import Emitter
from engine.tile.nodes import Load, MapFragment, MatrixLoad, MatrixMultiply, Slot
from engine.tile.source import Line

SHARERS = 4
"""Lanes that hold one row of an instruction's sums."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of every warp of a kernel, and the instruction that they carry out together."""

    emitter: Emitter
    intrinsic: Intrinsic
    lane: Index

    @property
    def word(self) -> str:
        """Type of the registers of a fragment: floats one by one, narrower elements in pairs."""
        return "float32" if self.intrinsic.element_bytes == REGISTER_BYTES else "uint32"

    def first(self, operand: Operand, is_first: bool, free: Index, depth: Index) -> Index:
        """Position in a tile of what a lane reads first of the fragment at `free` and `depth`: the row that it names to
        matrix loads, or an element.

        Matrices of a first factor go down its rows first, those of a second along the depth first: the order of the
        registers of both fragments.
        """
        extents = self.emitter.extents
        if self.is_by_element(operand):
            return operand.local(free + self.lane.floordiv(SHARERS, extents), depth + self.lane.mod(SHARERS, extents))
        matrix, row = self.lane.floordiv(MATRIX_ROWS, extents), self.lane.mod(MATRIX_ROWS, extents)
        low, high = matrix.mod(2, extents), matrix.floordiv(2, extents)
        free_half, depth_half = (low, high) if is_first else (high, low)
        free += free_half * MATRIX_ROWS
        depth += depth_half * (self.intrinsic.k // 2)
        return operand.local(free + row, depth) if operand.depth_inner else operand.local(free, depth + row)

    def is_by_element(self, operand: Operand) -> bool:
        """Whether lanes read single elements: matrix loads turn only elements of 2 bytes."""
        return not operand.depth_inner and self.intrinsic.element_bytes == REGISTER_BYTES

    def load(self, slot: Slot, operand: Operand, is_first: bool, place: Index, link: Line) -> None:
        """16 elements of a side at one step's depths: one fragment of a first factor, two of a second."""
        if self.is_by_element(operand):
            self.load_elements(slot, operand, is_first, place, SHARERS, link)
            return
        self.emitter.add(MatrixLoad(LOADS[not operand.depth_inner], slot, operand.tile, place, link))

    def load_elements(self, slot: Slot, operand: Operand, is_first: bool, place: Index, apart: int, link: Line) -> None:
        """The same element by element: 8 below along the side, `apart` further along the depth."""
        with self.emitter.loop("h", 2, link) as h, self.emitter.loop("w", 2, link) as w:
            position = place + operand.local(h * MATRIX_ROWS, w * apart)
            word = (w * 2 + h,) if is_first else (h, w)
            into = Slot(slot.buffer, (*slot.indices, *word))
            self.emitter.add(Load(into, operand.tile, position, 1, None, None, link))

    def map(self, slot: Slot, expression: Scalar | None, element: str, link: Line) -> None:
        """What is computed from a factor's elements before they are multiplied, on the fragment; None for nothing."""
        if expression is not None:
            value = with_element(expression, Access(element, ()))
            self.emitter.add(MapFragment(slot, self.intrinsic.dtype, element, value, link))

    def multiply(
        self, sums: str, count: tuple[int, int], first: Callable[[Index], Slot], second: str, link: Line
    ) -> None:
        """Every product of a fragment of either factor, added to `sums`.  count: instructions down and across."""
        emitter, (rows, columns) = self.emitter, count
        with emitter.loop("r", rows, link) as r, emitter.loop("p", columns // 2, link) as p, emitter.loop(
            "h", 2, link
        ) as h:
            into = Slot(sums, (r, p * 2 + h))
            emitter.add(MatrixMultiply(self.intrinsic.name, into, first(r), Slot(second, (p, h)), link))

    def multiply_pair(
        self, sums: str, rows: int, pair: Index, first: Callable[[Index], Slot], second: Slot, link: Line
    ) -> None:
        """Every fragment of the first factor times both of a pair of the second, which `second` holds."""
        emitter = self.emitter
        with emitter.loop("r", rows, link) as r, emitter.loop("h", 2, link) as h:
            into, factor = Slot(sums, (r, pair * 2 + h)), Slot(second.buffer, (*second.indices, h))
            emitter.add(MatrixMultiply(self.intrinsic.name, into, first(r), factor, link))

    def owned_sums(self, sums: str, count: tuple[int, int], start: tuple[Index, Index]) -> Owned:
        """The sums of a lane.  count: instructions down and across.  start: first row and column of the warp."""
        extents = self.emitter.extents
        row = start[0] + self.lane.floordiv(SHARERS, extents)
        column = start[1] + self.lane.mod(SHARERS, extents) * 2

        def sum_at(r: Index, s: Index) -> Access:
            return Access(sums, (r.floordiv(2, extents), s.floordiv(2, extents), r.mod(2, extents), s.mod(2, extents)))

        return Owned(
            shape=(count[0] * 2, count[1] * 2),
            vector=2,
            row=lambda r: row + r * MATRIX_ROWS,
            column=lambda s: column + s.floordiv(2, extents) * 8 + s.mod(2, extents),
            sums=sum_at,
        )
