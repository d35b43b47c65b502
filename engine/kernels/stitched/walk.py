"""How the threads of a block walk the points of one part of a stitched kernel.

A walk goes over kept points (one result each) and, for each, over the reduced ones.  By row, neighbouring threads take
neighbouring reduced points; by column, neighbouring kept points.  Parts with the same walk meet the same points in the
same threads: what one of them makes, the next one has in registers.

    by row, 256 threads, 32 sharers:   kept = step * 8 + thread / 32,   reduced = (chunk * 32 + thread % 32) * vector
    by column, 4 sharers:              kept = step * 64 + thread % 64,  reduced = chunk * 4 + thread / 64
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.target.hardware import WARP
from engine.tensor.nodes import Statement

Axis = tuple[str, int]
"""(name of the dimension, extent)."""


@dataclass(frozen=True, slots=True)
class BlockWalk:
    """Who takes which points; equal walks are the same walk."""

    kept: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    threads: int
    sharers: int
    """Threads that share the reduced points of one kept point."""
    by_row: bool
    vector: int
    """Neighbouring points of a thread: reduced ones by row, kept ones by column."""

    @property
    def rows(self) -> int:
        """Kept points."""
        return math.prod(extent for _, extent in self.kept)

    @property
    def columns(self) -> int:
        """Reduced points of each."""
        return math.prod(extent for _, extent in self.reduced)

    @property
    def beside(self) -> int:
        """Threads with kept points of their own."""
        return self.threads // self.sharers

    @property
    def width(self) -> int:
        """Neighbouring kept points of a thread."""
        return 1 if self.by_row else self.vector

    @property
    def steps(self) -> int:
        """Times that the block goes on to further kept points."""
        return -(-self.rows // (self.beside * self.width))

    @property
    def length(self) -> int:
        """Neighbouring reduced points of a thread."""
        return self.vector if self.by_row else 1

    @property
    def chunks(self) -> int:
        """Times that the sharers of a kept point go on to further reduced ones."""
        return -(-self.columns // (self.sharers * self.length))

    @property
    def is_shared_in_memory(self) -> bool:
        """Whether the sharers of a reduction meet in shared memory: lanes of one warp shuffle."""
        return self.sharers > (WARP if self.by_row else 1)

    def points(self, is_whole: bool) -> int:
        """Points of one thread: with the reduced ones, or the kept ones alone."""
        return self.steps * self.width * (self.chunks * self.length if is_whole else 1)

    def owners(self) -> np.ndarray:
        """The register of the block that each point is in: (thread, slot, lane of the vector) as one number.

        Axes are those of the walk in the order of their names.
        """
        row, column = np.arange(self.rows)[:, None], np.arange(self.columns)[None, :]
        if self.by_row:
            step, at = row // self.beside, row % self.beside
            chunk, rest = column // (self.sharers * self.vector), column % (self.sharers * self.vector)
            thread, lane = at * self.sharers + rest // self.vector, rest % self.vector
        else:
            step, rest = row // (self.beside * self.vector), row % (self.beside * self.vector)
            chunk, at = column // self.sharers, column % self.sharers
            thread, lane = at * self.beside + rest // self.vector, rest % self.vector
        number = ((step * self.chunks + chunk) * self.threads + thread) * self.vector + lane
        axes = (*self.kept, *self.reduced)
        order = sorted(range(len(axes)), key=lambda n: axes[n])
        return number.reshape([extent for _, extent in axes]).transpose(order)

    def meets(self, other: BlockWalk) -> bool:
        """Whether every point is in the same register of the same thread in both walks, all points visited."""
        if self == other:
            return True
        loops = (self.steps, self.chunks, self.vector, self.threads)
        if loops != (other.steps, other.chunks, other.vector, other.threads):
            return False
        if sorted((*self.kept, *self.reduced)) != sorted((*other.kept, *other.reduced)):
            return False
        return _same_owners(self, other)

    def __str__(self) -> str:
        kept, reduced = (" ".join(name for name, _ in axes) for axes in (self.kept, self.reduced))
        return f"({kept} | {reduced})" if reduced else f"({kept})"


@lru_cache(maxsize=1024)
def _same_owners(first: BlockWalk, second: BlockWalk) -> bool:
    return np.array_equal(first.owners(), second.owners())


def shared_out(kept: Sequence[Axis], reduced: Sequence[Axis], threads: int, by_row: bool, vector: int) -> BlockWalk:
    """The walk that keeps most threads busy without more sharers than there are reduced points."""
    rows, columns = (math.prod(extent for _, extent in axes) for axes in (kept, reduced))
    if not reduced:
        return BlockWalk(tuple(kept), (), threads, 1, False, vector)
    if by_row:
        wanted = _power(-(-columns // vector))
        spare = threads // min(threads, _power(rows))
        sharers = min(threads, wanted, max(spare, WARP))
        if sharers > WARP and rows > threads // sharers:
            sharers = WARP  # several rows one after the other: each within a warp, without barriers
    else:
        beside = min(threads, _power(-(-rows // vector)))
        sharers = min(threads // beside, _power(columns))
    return BlockWalk(tuple(kept), tuple(reduced), threads, sharers, by_row, vector)


def along_rows(statement: Statement) -> bool:
    """Whether the reduced points of a statement lie next to each other in its largest read."""
    assert statement.reduction is not None
    for access in sorted(statement.reads(), key=lambda a: -len(a.indices)):
        innermost = next((n for i in reversed(access.indices) for n in reversed(i.iterators())), None)
        if innermost is not None:
            return innermost in statement.reduction.iterators
    return True


def _power(number: int) -> int:
    """The smallest power of two that is not below a number."""
    return 1 << max(0, number - 1).bit_length()
