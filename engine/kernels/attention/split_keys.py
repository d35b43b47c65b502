"""Attention split over its keys: blocks that own the same queries walk a part of the keys each (flash-decoding, Dao et
al. 2023).

A part leaves the unnormalised results o of its rows with their maximum m and the sum l of their weights.  The last one
to come makes them those of all parts:

    m = max m_p     l = sum l_p exp(m_p - m)     o = sum o_p exp(m_p - m)

and goes on as if it had seen all keys.  A part without a key that counts has m_p = -inf and weighs nothing; a row
without one in any part is NaN, as that of a softmax is.
"""

from __future__ import annotations

import math

from engine.kernels.attention.block import AttentionTileSizes, Block
from engine.kernels.attention.nest import AttentionNest
from engine.kernels.attention.softmax import ZERO, OnlineSoftmax, exp
from engine.kernels.gemm.base import Owned
from engine.kernels.gemm.split_k import shared_out
from engine.kernels.marks import Marks
from engine.kernels.team import Team
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply
from engine.tile.emit import LANE_OF_VECTOR
from engine.tile.nodes import Comment, Slot

LARGEST, TOTAL, RESULTS = "largest_parts", "total_parts", "result_parts"
"""What is left of every row."""


def parts_of_keys(nest: AttentionNest, tiles: AttentionTileSizes, marks: Marks) -> int:
    """Blocks that share the keys of each tile of queries, as a mark asks: every one has a tile of keys to walk."""
    queries, heads, steps = tiles.counts(nest)
    existing = min(tiles.queries, math.prod(m.extent for m in nest.queries))
    rows = queries * existing * heads * math.prod(m.extent for m in nest.batch)
    return shared_out(marks, (nest.key,), steps, rows * (1 + 1 + tiles.heads), "keys")


def join_parts(block: Block, softmax: OnlineSoftmax, results: Owned) -> None:
    """Make maxima, sums and results of a part of the keys those of all, in the blocks that come last; the others leave.

    results: of this thread.
    """
    _Parts(block, softmax, results).join()


class _Parts:
    """What the blocks of a team hand over.  One instance makes one kernel's."""

    def __init__(self, block: Block, softmax: OnlineSoftmax, results: Owned) -> None:
        self.block, self.softmax, self.results = block, softmax, results
        self.emitter, self.link = block.emitter, block.values_link
        self.team = Team(block.emitter, self.link, block.parts, block.teams, block.part, block.team)
        self.rows = min(block.tiles.queries, block.queries)
        """Of a tile of queries, those that exist in any."""

    def join(self) -> None:
        about = f"{self.block.parts} blocks share the keys: each leaves its rows, the last makes one of them"
        self.emitter.add(Comment(about, self.link))
        for name, width in ((LARGEST, 1), (TOTAL, 1), (RESULTS, self.block.tiles.heads)):
            self.team.workspace(name, "float32", self.rows * width)
        self._leave()
        self.team.meet()
        self._take_maxima()
        self._take_sums()

    def _leave(self) -> None:
        emitter, softmax, results = self.emitter, self.softmax, self.results
        with emitter.loop("r", results.shape[0], self.link) as r:
            row, inside = self._row(r)
            is_first = Index.of("thread").mod(softmax.sharers, emitter.extents) * -1
            first = emitter.mask("first_of_row", [is_first], self.link, (inside,))
            self.team.leave(LARGEST, row, 1, lambda _: Access(softmax.largest, (r,)), first)
            self.team.leave(TOTAL, row, 1, lambda _: Access(softmax.total, (r,)), first)
            with emitter.loop("s", results.shape[1] // results.vector, self.link) as s:
                place, first_of = self._place(row, s), s * results.vector
                self.team.leave(RESULTS, place, results.vector, lambda v: results.sums(r, first_of + v), inside)

    def _take_maxima(self) -> None:
        emitter, largest = self.emitter, self.softmax.largest
        emitter.add(Comment("the maxima of all parts", self.link))
        with emitter.loop("q", self.block.parts, self.link, unroll=False) as q, emitter.loop(
            "r", self.results.shape[0], self.link
        ) as r:
            row, inside = self._row(r)
            part = self.team.take(LARGEST, q, row, 1, inside)
            emitter.assign(Slot(largest, (r,)), part(Index()), self.link, "max")

    def _take_sums(self) -> None:
        """Sums and results, always in the order of the parts, whichever block is the last."""
        emitter, results, total = self.emitter, self.results, self.softmax.total
        emitter.add(Comment("sums and results of all parts, moved to their maximum", self.link))
        with emitter.loop("r", results.shape[0], self.link) as r:
            emitter.assign(Slot(total, (r,)), ZERO, self.link)
            with emitter.loop("s", results.shape[1], self.link) as s:
                emitter.assign(_slot(results.sums(r, s)), ZERO, self.link)
        with emitter.loop("q", self.block.parts, self.link, unroll=False) as q, emitter.loop(
            "r", results.shape[0], self.link
        ) as r:
            row, inside = self._row(r)
            weight = emitter.register("part_weight", "float32")
            top, part = (self.team.take(name, q, row, 1, inside)(Index()) for name in (LARGEST, TOTAL))
            emitter.declare(weight, exp(top, Access(self.softmax.largest, (r,))))
            emitter.assign(Slot(total, (r,)), _times_weight(part, weight), self.link, "sum")
            with emitter.loop("s", results.shape[1] // results.vector, self.link) as s:
                taken = self.team.take(RESULTS, q, self._place(row, s), results.vector, inside)
                with emitter.loop(LANE_OF_VECTOR, results.vector, self.link) as v:
                    result = results.sums(r, s * results.vector + v)
                    emitter.assign(_slot(result), _times_weight(taken(v), weight), self.link, "sum")

    def _row(self, r: Index) -> tuple[Index, str | None]:
        """A row of this thread by its number in the tile of queries, and the mask of those that exist."""
        query = self.results.row(r)
        row = self.emitter.bind("row", query - self.block.start, self.link)
        return row, self.emitter.mask("row_inside", [Index((), self.block.queries - 1) - query], self.link)

    def _place(self, row: Index, s: Index) -> Index:
        """Where a vector of a row's results lies among those that a block leaves."""
        column = self.results.column(s * self.results.vector) - self.block.first_head
        return row * self.block.tiles.heads + column


def _slot(access: Access) -> Slot:
    return Slot(access.array, access.indices)


def _times_weight(value: Access, weight: str) -> Apply:
    return Apply("mul", (value, Access(weight, ())), "float32")
