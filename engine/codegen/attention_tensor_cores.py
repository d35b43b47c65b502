"""Attention on tensor cores: a warp owns rows of queries, and its scores become the fragments of the second product.

    scores of a warp: rows x keys, as sums of 16 x 8 instructions; a lane holds rows g, g + 8 and columns 2t, 2t + 1
    fragments of a of the second product: rows g, g + 8 and depths 2t, 2t + 1, then 8 further: the same places

So weights are rounded to half and packed where they are; nothing but a row's maximum crosses lanes, and no tile of
weights exists in shared memory.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.codegen.attention_block import Block
from engine.codegen.nodes import Line
from engine.codegen.operand import Operand
from engine.codegen.product import Owned
from engine.codegen.tile import Comment, MapFragment, MatrixLoad, MatrixMultiply, Slot
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal, Scalar
from engine.tensor.rewrite import rewrite_scalar
from engine.tensorize.bind import prologue
from engine.tensorize.intrinsics import LOADS
from engine.tensorize.nodes import MATRIX_ROWS, WARP, Intrinsic

FRAGMENT = 16
"""Rows or columns that one matrix load brings."""
MOST_RESIDENT = 32
"""Registers of a thread that queries may take throughout."""
SHARERS = 4
"""Lanes that hold one row of an instruction's sums."""


class TensorCores:
    """The two products of a block by warps.  One instance makes one kernel."""

    def __init__(self, block: Block, intrinsic: Intrinsic, rows: int) -> None:
        """rows: queries of a warp."""
        self.block, self.intrinsic = block, intrinsic
        tiles, emitter, thread = block.tiles, block.emitter, Index.of("thread")
        link = Line((block.nest.scores.name, block.nest.values.name), block.names)
        emitter.add(Comment("where a warp's queries begin, and what each lane reads of the tiles first", link))
        self.lane = emitter.bind("lane", thread.mod(WARP, emitter.extents), link)
        self.origin = emitter.bind("warp_query", thread.floordiv(WARP, emitter.extents) * rows, link)
        self.fragments, self.key_tiles, self.head_tiles = rows // FRAGMENT, tiles.keys // 8, tiles.heads // 8
        steps = tiles.depth // intrinsic.k
        self.is_resident = self.fragments * steps * 4 <= MOST_RESIDENT
        """Whether the queries stay in registers; else every tile of keys brings them again, a step at a time."""
        shape = (self.fragments, steps, 4) if self.is_resident else (self.fragments, 4)
        self.query_part = emitter.register("query_part", "uint32", shape)
        self.key_part = emitter.register("key_part", "uint32", (self.key_tiles // 2, 2, 2))
        self.weight_part = emitter.register("weight_part", "uint32", (self.fragments, 4))
        self.value_part = emitter.register("value_part", "uint32", (self.head_tiles // 2, 2, 2))
        self.score_sums = emitter.register("scores", "float32", (self.fragments, self.key_tiles, 2, 2))
        self.result_sums = emitter.register("results", "float32", (self.fragments, self.head_tiles, 2, 2))
        emitter.declare(self.result_sums, Literal(0.0, "float32"))
        nest = block.nest
        self.query_lane = self._lane_row(block.query, "query_lane", first=True, origin=self.origin)
        self.key_lane = self._lane_row(block.key, "key_lane", first=False)
        self.value_lane = self._lane_row(block.value, "value_lane", first=False)
        self.prologues = tuple(prologue(f.expression) for f in (nest.query_factor, nest.key_factor, nest.value_factor))
        self.scores = self._owned(self.score_sums, self.key_tiles)
        self.results = self._owned(self.result_sums, self.head_tiles)
        self.sharers = SHARERS

    def _owned(self, sums: str, tiles: int) -> Owned:
        """What a lane holds: of every instruction rows lane / 4 and 8 below, there two neighbouring columns of each."""
        extents = self.block.emitter.extents
        first = self.block.start + self.origin + self.lane.floordiv(4, extents)
        pair = self.lane.mod(4, extents) * 2

        def place(r: Index, s: Index) -> Access:
            return Access(sums, (r.floordiv(2, extents), s.floordiv(2, extents), r.mod(2, extents), s.mod(2, extents)))

        return Owned(
            shape=(self.fragments * 2, tiles * 2),
            vector=2,
            row=lambda r: first + r * 8,
            column=lambda s: pair + s.floordiv(2, extents) * 8 + s.mod(2, extents),
            sums=place,
        )

    # Registers

    def load_queries(self) -> None:
        """The fragments of the block's queries, where they stay in registers."""
        if not self.is_resident:
            return
        emitter, link = self.block.emitter, self.block.scores_link
        emitter.declare(self.query_part)
        emitter.add(Comment("the queries of a warp stay in registers", link))
        steps = self.block.tiles.depth // self.intrinsic.k
        with emitter.loop("r", self.fragments, link) as r, emitter.loop("step", steps, link) as step:
            self._load_query(Slot(self.query_part, (r, step)), r, step)

    def _load_query(self, slot: Slot, fragment: Index, step: Index) -> None:
        k = self.intrinsic.k
        self._load(self.block.query, slot, self.query_lane, fragment * FRAGMENT, step * k)
        self._map(0, slot, "query_element")

    def multiply_keys(self) -> None:
        """The scores of one tile of keys."""
        emitter, link, k = self.block.emitter, self.block.scores_link, self.intrinsic.k
        emitter.add(Comment("scores: the queries times one tile of keys", link))
        emitter.declare(self.score_sums, Literal(0.0, "float32"))
        with emitter.loop("step", self.block.tiles.depth // k, link, always=True) as step:
            if not self.is_resident:
                emitter.declare(self.query_part)
                with emitter.loop("r", self.fragments, link) as r:
                    self._load_query(Slot(self.query_part, (r,)), r, step)
            emitter.declare(self.key_part)
            with emitter.loop("p", self.key_tiles // 2, link) as p:
                self._load(self.block.key, Slot(self.key_part, (p,)), self.key_lane, p * FRAGMENT, step * k)
            self._map_all(1, self.key_part, self.key_tiles // 2, "key_element")

            def query(r: Index) -> tuple[Index, ...]:
                return (r, step) if self.is_resident else (r,)

            self._multiply(self.score_sums, self.key_tiles, query, self.query_part, self.key_part)

    def multiply_values(self) -> None:
        """The weights of one tile of keys times its values; zeros that fill the tile meet weights of 0."""
        emitter, link, k = self.block.emitter, self.block.values_link, self.intrinsic.k
        emitter.add(Comment("weights, rounded to half where they are, times one tile of values", link))
        with emitter.loop("step", self.block.tiles.keys // k, link, always=True) as step:
            emitter.declare(self.value_part)
            with emitter.loop("p", self.head_tiles // 2, link) as p:
                self._load(self.block.value, Slot(self.value_part, (p,)), self.value_lane, p * FRAGMENT, step * k)
            self._map_all(2, self.value_part, self.head_tiles // 2, "value_element")
            emitter.declare(self.weight_part)
            with emitter.loop("r", self.fragments, link) as r, emitter.loop("c", 2, link) as c, emitter.loop(
                "h", 2, link
            ) as h:
                pair = tuple(Access(self.score_sums, (r, step * 2 + c, h, Index.of(v))) for v in (0, 1))
                slot = Slot(self.weight_part, (r, c * 2 + h))
                emitter.assign(slot, Apply("pack_f16", pair, "uint32"), link)
            self._multiply(self.result_sums, self.head_tiles, lambda r: (r,), self.weight_part, self.value_part)

    def _multiply(
        self, sums: str, tiles: int, first: Callable[[Index], tuple[Index, ...]], a: str, b: str
    ) -> None:
        """Every product of a fragment of `a` and one of `b`, added to `sums`."""
        emitter, link = self.block.emitter, self.block.scores_link
        with emitter.loop("r", self.fragments, link) as r, emitter.loop("p", tiles // 2, link) as p, emitter.loop(
            "h", 2, link
        ) as h:
            into = Slot(sums, (r, p * 2 + h))
            emitter.add(MatrixMultiply(self.intrinsic.name, into, Slot(a, first(r)), Slot(b, (p, h)), link))

    # Fragments

    def _lane_row(self, operand: Operand, name: str, first: bool, origin: Index | None = None) -> Index:
        """Position in a tile of the row that this lane names to matrix loads, for the first fragment of its warp.

        Matrices of a first factor go down its rows first, those of a second along the depth first: the order of the
        registers of both fragments.
        """
        emitter = self.block.emitter
        matrix = self.lane.floordiv(MATRIX_ROWS, emitter.extents)
        row = self.lane.mod(MATRIX_ROWS, emitter.extents)
        low, high = matrix.mod(2, emitter.extents), matrix.floordiv(2, emitter.extents)
        free_half, depth_half = (low, high) if first else (high, low)
        free = (origin or Index()) + free_half * MATRIX_ROWS
        depth = depth_half * (self.intrinsic.k // 2)
        place = operand.local(free + row, depth) if operand.depth_inner else operand.local(free, depth + row)
        return emitter.bind(name, place, self.block.scores_link)

    def _load(self, operand: Operand, slot: Slot, lane: Index, free: Index, depth: Index) -> None:
        """16 elements of a side at 16 depths: one fragment of a first factor, two of a second."""
        load = LOADS[not operand.depth_inner]
        place = operand.local(free, depth) + lane
        self.block.emitter.add(MatrixLoad(load.function, slot, operand.tile, place, self.block.scores_link))

    def _map_all(self, number: int, part: str, fragments: int, element: str) -> None:
        if self.prologues[number] is not None:
            with self.block.emitter.loop("p", fragments, self.block.scores_link) as p:
                self._map(number, Slot(part, (p,)), element)

    def _map(self, number: int, slot: Slot, element: str) -> None:
        """What is computed from a factor's elements before they are multiplied, on the fragment."""
        expression = self.prologues[number]
        if expression is None:
            return
        value: Scalar = rewrite_scalar(expression, {}, lambda _: Access(element, ()), {})
        self.block.emitter.add(MapFragment(slot, self.intrinsic.dtype, element, value, self.block.scores_link))
