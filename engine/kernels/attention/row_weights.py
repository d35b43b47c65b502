"""The weights of two products in a row: what is made of the scores of a tile of queries and of whole rows of them.

A thread has the same scores before and after, so that nothing but parts of a row's sums crosses lanes; what other
kernels read is stored on the way.  Where no row is reduced, tiles of keys follow each other as in every attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.kernels.attention.block import Block
from engine.kernels.elementwise.lower import bind_members
from engine.kernels.gemm.base import Owned
from engine.kernels.gemm.problem import widest_result
from engine.kernels.gemm.row_epilogue import RowThreads, store_rows
from engine.kernels.loop_nest import Nest, Phase
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal, Scalar
from engine.tensor.rewrite import plain_iterator
from engine.tile.emit import LANE_OF_VECTOR
from engine.tile.nodes import Comment, Slot
from engine.tile.source import Line


class RowWeights:
    """The rows of one block, as `ProductRows`."""

    def __init__(self, block: Block, scores: Owned, sharers: int, weights: str) -> None:
        """weights: the array that the second product weighs with."""
        nest = block.nest
        self.block, self.scores, self.sharers, self.weights = block, scores, sharers, weights
        self.emitter, self.program = block.emitter, block.program
        self.nest = Nest((*nest.batch, *nest.queries, nest.key), (Phase((), (nest.scores, *nest.chain)),))
        self.statement, self.after = nest.scores, nest.chain
        self.names = tuple(m.name for m in self.nest.outer)
        self.results_link = Line(tuple(s.name for s in (nest.scores, *nest.chain)), self.names)
        self.combined: dict[str, str] = {}
        self.size = (block.queries, block.keys)

    def make(self, tile: Index) -> None:
        """The weights of a tile of keys in the place of its scores; those past the last key are 0."""
        emitter, link, block = self.emitter, self.results_link, self.block
        first = tile * block.tiles.keys
        owned = replace(self.scores, column=lambda s: first + self.scores.column(s))
        vector, made = store_rows(self, owned, self._threads(), (self.weights,))
        weight: Scalar = Apply("cast", (made[self.weights],), "float32")
        emitter.add(Comment("weights in the place of the scores", link))
        with emitter.loop("s", owned.shape[1] // vector, link) as s, emitter.loop("r", owned.shape[0], link) as r:
            key = emitter.bind("key", owned.column(s * vector), link)
            there = emitter.mask("key_inside", [Index((), block.keys - vector) - key], link)
            value = weight
            if there:
                value = Apply("select", (Access(there, ()), weight, Literal(0.0, "float32")), "float32")
            with emitter.loop(LANE_OF_VECTOR, vector, link) as v:
                score = owned.sums(r, s * vector + v)
                emitter.assign(Slot(score.array, score.indices), value, link)

    def _threads(self) -> RowThreads:
        lane = Index.of("thread").mod(self.sharers, self.emitter.extents)
        return RowThreads(self.sharers, lane, 1, Index(), self.block.tiles.queries, self.block.start)

    def widest_result(self) -> int:
        """As `ProductRows` says."""
        key = {name: plain_iterator(row) or "" for name, row in self.block.nest.key.rows.items()}
        columns = {s.name: key[s.name] if s in (self.statement, *self.after) else "" for s in self.program.statements}
        return widest_result(self.program, (self.statement,), columns)

    def variables_at(self, where: tuple[Index, ...], vector: int) -> Mapping[str, Index]:
        """As `ProductRows` says."""
        found = {**self.block.batch, **bind_members(self.emitter, self.block.nest.queries, where[0])}
        for key in where[1:]:
            found[self.block.nest.key.name] = key + Index.of(LANE_OF_VECTOR) if vector > 1 else key
        return found
