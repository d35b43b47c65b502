"""How a thread reads copied codes, and what scales them, to write some neighbouring elements of a factor's tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from engine.kernels.gemm.copies import TileCopy
from engine.kernels.gemm.passes import Loads
from engine.target.hardware import VECTOR_BYTES, WARP
from engine.tensor.index import Extents, Index
from engine.tensorize.codes import SourceBox
from engine.tile.addresses import evaluate, passes_of
from engine.tile.nodes import THREAD


@dataclass(frozen=True, slots=True)
class CodeLoad:
    """What a thread reads of one box for `copy.width` neighbouring elements of a tile."""

    copy: TileCopy
    box: SourceBox

    @property
    def shared(self) -> int:
        """Neighbours that have one element of the box together."""
        inner = 1 if self.copy.depth_inner else 0
        return self.box.source.walks[inner].shared if self.box.shape[inner] > 1 else self.copy.width

    @property
    def elements(self) -> int:
        """Of the box."""
        return max(1, self.copy.width // self.shared)

    @property
    def width(self) -> int:
        """Elements of one load: all that lie beside each other, as far as a vector goes."""
        if self.box.is_depth_inner != self.copy.depth_inner:
            return 1
        return min(self.elements, VECTOR_BYTES // self.box.source.element_bytes)

    def place(self, outer: Index, inner: Index, extents: Extents) -> Index:
        """Place in the box of what belongs to an element of the tile."""
        local = (outer, inner) if self.copy.depth_inner else (inner, outer)
        side, depth = (
            index.floordiv(walk.shared, extents) if size > 1 else Index()
            for index, walk, size in zip(local, self.box.source.walks, self.box.shape, strict=True)
        )
        return self.box.place(side, depth)


def chunk_of(copy: TileCopy, chunk: Index, extents: Extents) -> tuple[Index, Index]:
    """(row of a tile, first element in it) of one of the chunks of `copy.width` elements that threads write."""
    per_row = copy.row // copy.width
    return chunk.floordiv(per_row, extents), chunk.mod(per_row, extents) * copy.width


@lru_cache(maxsize=4096)
def loads_of_codes(copy: TileCopy, threads: int) -> tuple[Loads, ...]:
    """Of each box, for one tile; of none where elements are copied as they are."""
    return tuple(_loads(copy, threads))


def _loads(copy: TileCopy, threads: int) -> Iterator[Loads]:
    lanes = np.arange(min(WARP, threads))
    extents = {THREAD: threads}
    outer, first = chunk_of(copy, Index.of(THREAD), extents)
    for box in copy.boxes:
        load, size = CodeLoad(copy, box), box.source.element_bytes
        place = evaluate(load.place(outer, first, extents), {THREAD: lanes}) * size
        where = np.broadcast_to(place, lanes.shape)
        times = copy.shares(threads) * (load.elements // load.width)
        passes = int(passes_of(where, np.ones(lanes.shape, bool), load.width * size))
        yield Loads(times * passes, times * load.width * size)
