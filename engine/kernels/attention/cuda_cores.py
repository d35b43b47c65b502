"""Attention on CUDA cores: a thread owns rows of queries times columns of keys, then rows times columns of heads.

Neighbouring threads share a row, so its maximum and sum cross lanes of one warp only.  Between the two products the
weights lie in shared memory: a thread needs those of its rows for all keys of the tile.
"""

from __future__ import annotations

from engine.kernels.attention.block import Block
from engine.kernels.attention.nest import Factor
from engine.kernels.gemm.base import Owned
from engine.kernels.gemm.copies import TileCopy
from engine.kernels.gemm.operand import Operand, Side, Tiling
from engine.kernels.gemm.thread_fragment import ThreadPart, fragment_elements, load_part, part_of
from engine.target.hardware import SUM_BYTES
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal, without_cast
from engine.tensor.rewrite import with_element
from engine.tile.nodes import Barrier, Buffer, Comment, Slot, Store
from engine.tile.source import Line

SHARERS = 16
"""Threads of one row."""


class CudaCores:
    """The two products of a block by threads.  One instance makes one kernel."""

    def __init__(self, block: Block, rows: int) -> None:
        """rows: queries of a thread."""
        self.block, self.rows, self.sharers = block, rows, SHARERS
        tiles, emitter, thread = block.tiles, block.emitter, Index.of("thread")
        link = Line((block.nest.scores.name, block.nest.values.name), block.names)
        about = "the threads of a row are neighbours: each takes some of its keys, then some of its heads"
        emitter.add(Comment(about, link))
        row = emitter.bind("thread_row", thread.floordiv(SHARERS, emitter.extents), link)
        column = emitter.bind("thread_column", thread.mod(SHARERS, emitter.extents), link)
        step = min(fragment_elements(operand.copy.element_bytes) for operand in (block.query, block.key, block.value))
        self.weight = self._weights()
        self.query_part = part_of(emitter, block.query, rows, row, step)
        self.key_part = part_of(emitter, block.key, tiles.keys // SHARERS, column, step)
        self.weight_part = part_of(emitter, self.weight, rows, row, step)
        self.value_part = part_of(emitter, block.value, tiles.heads // SHARERS, column, step)
        self.fragments_of_loops = (
            (self.query_part.registers, self.key_part.registers),
            (self.weight_part.registers, self.value_part.registers),
        )
        """As in `TensorCores`."""
        self.score_sums = emitter.register("scores", "float32", (rows, self.key_part.owned))
        self.result_sums = emitter.register("results", "float32", (rows, self.value_part.owned))
        emitter.declare(self.result_sums, Literal(0.0, "float32"))
        self.scores = self._sums_of(self.key_part, self.score_sums, Index())
        self.results = self._sums_of(self.value_part, self.result_sums, block.first_head)

    def _weights(self) -> Operand:
        """The tile of weights, laid out as the queries' is: the rows that a thread owns are the same in both."""
        block, tiles = self.block, self.block.tiles
        operand = Operand(
            access=Access("weight", ()), side=Side((), tiles.queries, tiles.queries, Index()),
            tiling=Tiling((), tiles.keys), place={}, free={}, tile="weight_tile", dtype="float32",
            copy=TileCopy(SUM_BYTES, (tiles.queries, tiles.keys), block.query.depth_inner, width=1, is_async=False),
        )  # fmt: skip
        shape = (operand.copy.elements(is_swizzled=False),)
        block.emitter.buffers[operand.tile] = Buffer(operand.tile, operand.dtype, shape, "shared")
        return operand

    def _sums_of(self, part: ThreadPart, sums: str, first: Index) -> Owned:
        """first: column of the block's tile."""
        emitter, rows = self.block.emitter, self.query_part
        return Owned(
            shape=(self.rows, part.owned),
            vector=part.run,
            row=lambda r: self.block.start + rows.local(emitter, r, rows.run),
            column=lambda s: first + part.local(emitter, s, part.run),
            sums=lambda r, s: Access(sums, (r, s)),
        )

    def load_queries(self) -> None:
        """Nothing: the queries stay in shared memory."""

    def multiply_keys(self) -> None:
        """The scores of one tile of keys."""
        self.block.emitter.add(Comment("scores: the queries times one tile of keys", self.block.scores_link))
        self.block.emitter.declare(self.score_sums, Literal(0.0, "float32"))
        nest = self.block.nest
        parts = (self.query_part, nest.query_factor), (self.key_part, nest.key_factor)
        self._multiply(parts, self.score_sums, self.block.tiles.depth, self.block.scores_link)

    def multiply_values(self) -> None:
        """The weights of one tile of keys, by way of shared memory, times its values."""
        emitter, link, nest = self.block.emitter, self.block.values_link, self.block.nest
        emitter.add(Comment("the weights of a row, for all its threads", link))
        with emitter.loop("r", self.rows, link) as r, emitter.loop("s", self.key_part.owned, link) as s:
            score = self.scores.sums(r, s)
            if nest.rounded:
                rounded = Apply("cast", (Apply("cast", (score,), nest.rounded),), "float32")
                emitter.assign(Slot(score.array, score.indices), rounded, link)
            free = self.query_part.local(emitter, r, self.query_part.run)
            place = self.weight.local(free, self.scores.column(s))
            emitter.add(Store(self.weight.tile, place, Slot(score.array, score.indices), 1, None, link))
        emitter.add(Barrier(link))
        emitter.add(Comment("weights times one tile of values", link))
        parts = (self.weight_part, None), (self.value_part, nest.value_factor)
        self._multiply(parts, self.result_sums, self.block.tiles.keys, link)

    def _multiply(
        self, parts: tuple[tuple[ThreadPart, Factor | None], tuple[ThreadPart, Factor | None]], sums: str, size: int,
        link: Line,
    ) -> None:
        """Outer products of the fragments of one tile, added to `sums`."""
        emitter = self.block.emitter
        (first, _), (second, _) = parts
        step = first.step if first.operand.depth_inner or second.operand.depth_inner else 1
        with emitter.loop("depth", size // step, link, always=True) as depth:
            for part, _ in parts:
                load_part(emitter, part, depth * step, step, link)
            for part, factor in parts:
                self._map(part, factor, step, link)
            with emitter.loop("q", step, link) as q, emitter.loop("r", first.owned, link) as r, emitter.loop(
                "s", second.owned, link
            ) as s:
                product = Apply("mul", (first.element(r, q), second.element(s, q)), "float32")
                emitter.assign(Slot(sums, (r, s)), product, link, "sum")

    def _map(self, part: ThreadPart, factor: Factor | None, step: int, link: Line) -> None:
        """What is computed from a factor's elements before they are multiplied, once for each element."""
        if factor is None or isinstance(without_cast(factor.expression), Access):
            return
        emitter = self.block.emitter
        with emitter.loop("r", part.owned, link) as r, emitter.loop("q", step, link) as q:
            element = part.element(r, q)
            value = with_element(factor.expression, element)
            emitter.assign(Slot(element.array, element.indices), value, link)
