"""The softmax of an attention while the keys go by: a running maximum and sum of every row, in registers.

With m the largest score so far, l the sum of the weights exp(x - m) and o the sums of weights times values, a tile of
keys with the largest score m' makes them (m', l c + ..., o c + ...), c = exp(m - m').  While all scores of a row are
-inf, 0 stands for m in both exponentials, so that none is NaN.  l stays a part of each lane until the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from engine.kernels.attention.block import Block
from engine.kernels.gemm.base import Owned
from engine.kernels.statement_block import BlockOptions, Keep, evaluate_block, result_statement
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal, Scalar, Statement
from engine.tensor.rewrite import plain_iterator
from engine.tile.emit import LANE_OF_VECTOR
from engine.tile.nodes import Comment, Slot, WarpReduce
from engine.tile.source import Line

LOWEST = Literal(-float("inf"), "float32")
ZERO = Literal(0.0, "float32")


class OnlineSoftmax:
    """The rows of one block."""

    def __init__(self, block: Block, scores: Owned, results: Owned, sharers: int) -> None:
        self.block, self.scores, self.results, self.sharers = block, scores, results, sharers
        emitter = block.emitter
        self.largest = emitter.register("largest", "float32", (scores.shape[0],))
        self.total = emitter.register("total", "float32", (scores.shape[0],))
        emitter.declare(self.largest, LOWEST)
        emitter.declare(self.total, ZERO)

    def make(self, tile: Index) -> None:
        """The weights of a tile of keys in the place of its scores."""
        self._mask_and_scale(tile)
        self._update()

    def _mask_and_scale(self, tile: Index) -> None:
        """What the statements after the first product do to each score; keys past the last weigh nothing."""
        block, owned, nest = self.block, self.scores, self.block.nest
        emitter = block.emitter
        array = block.program.arrays[nest.scores.write.array]
        statements = [result_statement(nest.scores, ZERO), *nest.chain]
        vector = block.vector(statements, nest.key, owned.vector)
        block.set_vector(vector)
        link = Line(tuple(s.name for s in statements), (*block.names, nest.key.name))
        key_name = plain_iterator(nest.key.rows[nest.scores.name])
        assert key_name is not None
        lane = Index.of(LANE_OF_VECTOR) if vector > 1 else Index()
        last = statements[-1].write.array
        emitter.add(Comment("each score as the statements after the product make it; no score past the last key", link))
        with emitter.loop("s", owned.shape[1] // vector, link) as s:
            key = emitter.bind("key", tile * block.tiles.keys + owned.column(s * vector), link)
            there = emitter.mask("key_inside", [Index((), block.keys - vector) - key], link)
            if there:
                emitter.extents["key"] = block.keys
            with emitter.loop("r", owned.shape[0], link) as r:
                query = emitter.bind("query", owned.row(r), link)
                inside = emitter.mask("inside", [Index((), block.queries - 1) - query], link, (there,))
                if inside:
                    emitter.extents["query"] = block.queries
                where = block.place_of(query, {key_name: key + lane})
                score = owned.sums(r, s * vector + lane)
                values = {score.array: score}
                emitter.masked = frozenset(where)
                options = BlockOptions(
                    mask=inside, keep=Keep(frozenset((last,)), Index(), 1), dimensions=(*block.names, nest.key.name)
                )
                evaluate_block(
                    emitter,
                    [result_statement(nest.scores, Apply("cast", (score,), array.dtype)), *nest.chain],
                    partial(_point, where),
                    values,
                    options,
                )
                value: Scalar = Apply("cast", (values[last],), "float32")
                if there:
                    value = Apply("select", (Access(there, ()), value, LOWEST), "float32")
                with emitter.loop(LANE_OF_VECTOR, vector, link):
                    emitter.assign(Slot(score.array, score.indices), value, link)

    def _update(self) -> None:
        """The rows' maxima and sums after a tile, its scores as weights, and the results so far to the new maximum."""
        emitter, link = self.block.emitter, self.block.values_link
        rows, columns = self.scores.shape
        emitter.add(Comment("running maximum and sum; what was summed so far moves to the new maximum", link))
        with emitter.loop("r", rows, link) as r:
            largest, total = Slot(self.largest, (r,)), Slot(self.total, (r,))
            before, origin, correction = (
                emitter.register(name, "float32") for name in ("before", "origin", "correction")
            )
            emitter.declare(before, Access(self.largest, (r,)))
            with emitter.loop("s", columns, link) as s:
                emitter.assign(largest, self.scores.sums(r, s), link, "max")
            emitter.add(WarpReduce(largest, "max", self.sharers, link))
            top = Access(self.largest, (r,))
            nothing = Apply("equal", (top, LOWEST), "bool")
            emitter.declare(origin, Apply("select", (nothing, ZERO, top), "float32"))
            emitter.declare(correction, exp(Access(before, ()), Access(origin, ())))
            emitter.assign(total, Access(correction, ()), link, "prod")
            with emitter.loop("s", columns, link) as s:
                score = self.scores.sums(r, s)
                emitter.assign(Slot(score.array, score.indices), self._weight(score, Access(origin, ())), link)
                emitter.assign(total, score, link, "sum")
            with emitter.loop("s", self.results.shape[1], link) as s:
                result = self.results.sums(r, s)
                emitter.assign(Slot(result.array, result.indices), Access(correction, ()), link, "prod")

    def _weight(self, score: Scalar, origin: Scalar) -> Apply:
        """The weight of a score; an approximated one in base 2, where weights of one origin share its rounding."""
        if self.block.program.approximates:
            return Apply("exp_shifted_approx", (score, origin), "float32")
        return exp(score, origin)

    def add_lanes(self) -> None:
        """The sums of the weights of whole rows, in all of their lanes."""
        emitter, link = self.block.emitter, self.block.values_link
        emitter.add(Comment("the sums of the weights of whole rows", link))
        with emitter.loop("r", self.scores.shape[0], link) as r:
            emitter.add(WarpReduce(Slot(self.total, (r,)), "sum", self.sharers, link))

    def divide(self) -> None:
        """The weighted means: results over the sums of their weights."""
        emitter, link = self.block.emitter, self.block.values_link
        emitter.add(Comment("results as means", link))
        with emitter.loop("r", self.scores.shape[0], link) as r:
            reciprocal = Apply("reciprocal", (Access(self.total, (r,)),), "float32")
            emitter.assign(Slot(self.total, (r,)), reciprocal, link)
            with emitter.loop("s", self.results.shape[1], link) as s:
                result = self.results.sums(r, s)
                emitter.assign(Slot(result.array, result.indices), Access(self.total, (r,)), link, "prod")


def _point(where: Mapping[str, Index], statement: Statement) -> dict[str, Index]:
    """A statement's iterators at an element."""
    return {i.name: where[i.name] for i in statement.parallel}


def exp(value: Scalar, origin: Scalar) -> Apply:
    """The factor from one maximum to another: exactly 1 where they are the same."""
    return Apply("exp", (Apply("sub", (value, origin), "float32"),), "float32")
