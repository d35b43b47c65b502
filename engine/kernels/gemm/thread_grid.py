"""Which part of a block's tile each thread has on CUDA cores: the lanes of a warp lie as 4 rows of 8.

    lane    0  2  4  6  8 10 12 14
            1  3  5  7  9 11 13 15
           16 18 20 22 24 26 28 30
           17 19 21 23 25 27 29 31

A warp then reads 4 parts of one factor and 8 of the other, where a single row of lanes reads 1 and 32.  Lanes n and
n ^ 1 have the same columns, n and n ^ 2 the same rows, so that loads of either factor pass shared memory half as often
(`passes_of`).  CUTLASS's products on CUDA cores lie so (default_mma_core_simt.h, RowMajorInterleaved<2>).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.support.values import value
from engine.target.hardware import WARP
from engine.tensor.index import Extents, Index
from engine.tensorize.space import GemmConfig

WARP_ROWS, WARP_COLUMNS = 4, 8
NEIGHBOURS = 2
"""Lanes beside each other that have the same columns."""

Bind = Callable[[str, Index], Index]
"""Gives an index a name, where somebody wants one."""


@dataclass(frozen=True, slots=True)
class ThreadPlace:
    """Where one thread is in its block."""

    slice: Index
    number: Index
    """In the slice."""
    slots: tuple[Index, Index]
    """Which part of the tile it owns, by rows and columns."""


@value(frozen=True, slots=True)
class ThreadGrid:
    """The threads of a block."""

    rows: int
    """Of the threads of a slice."""
    columns: int
    slices: int
    has_whole_rows: bool
    """Whether rows of results are reduced: over neighbouring lanes, which then lie in a single row."""

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.rows * self.columns * self.slices

    @property
    def is_blocked(self) -> bool:
        """Whether the lanes of a warp lie as above; else rows of threads follow each other."""
        return not (self.has_whole_rows or self.rows % WARP_ROWS or self.columns % WARP_COLUMNS)

    def place(self, bind: Bind, extents: Extents) -> ThreadPlace:
        """Of the thread that the kernel runs as."""
        slice_, number = Index(), Index.of("thread")
        if self.slices > 1:
            of_slice = self.rows * self.columns
            slice_ = bind("slice", number.floordiv(of_slice, extents))
            number = bind("slice_thread", number.mod(of_slice, extents))
        if self.is_blocked:
            row, column = _block_place(number, self.columns // WARP_COLUMNS, bind, extents)
        else:
            row, column = number.floordiv(self.columns, extents), number.mod(self.columns, extents)
        return ThreadPlace(slice_, number, (bind("thread_row", row), bind("thread_column", column)))


def _block_place(number: Index, across: int, bind: Bind, extents: Extents) -> tuple[Index, Index]:
    """Row and column of a thread among those of its slice.  across: warps beside each other."""
    warp, lane = bind("warp", number.floordiv(WARP, extents)), bind("lane", number.mod(WARP, extents))
    both = NEIGHBOURS * WARP_COLUMNS
    row = lane.floordiv(both, extents) * NEIGHBOURS + lane.mod(NEIGHBOURS, extents)
    column = lane.mod(both, extents).floordiv(NEIGHBOURS, extents)
    return (
        warp.floordiv(across, extents) * WARP_ROWS + row,
        warp.mod(across, extents) * WARP_COLUMNS + column,
    )


def thread_grid(config: GemmConfig, has_whole_rows: bool) -> ThreadGrid:
    """The threads of a kernel with a configuration."""
    rows, columns = (config.block[n] // config.part[n] for n in (0, 1))
    return ThreadGrid(rows, columns, config.slices, has_whole_rows)
