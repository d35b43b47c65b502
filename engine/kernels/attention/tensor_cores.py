"""Attention on tensor cores: a warp owns rows of queries, and its scores become the fragments of the second product.

    scores of a warp: rows x keys, as sums of 16 x 8 instructions; a lane holds rows g, g + 8 and columns 2t, 2t + 1
    fragments of a of the second product: rows g, g + 8 and depths 2t, 2t + 1, then 8 further: the same places

So weights are rounded to 16 bits and packed where they are; nothing but a row's maximum crosses lanes, and no tile of
weights exists in shared memory.  An instruction of 8 depths wants depths t and t + 4 of each lane: it is given those
keys as 2t and 2t + 1, of weights and values alike, because a sum has no order.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.kernels.attention.block import Block
from engine.kernels.mma_fragments import SHARERS, Lanes
from engine.target.hardware import REGISTER_BYTES, WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal, Scalar, Statement
from engine.tensorize.bind import prologue
from engine.tensorize.nodes import FRAGMENT_SIZE, Intrinsic
from engine.tile.nodes import Comment, Slot
from engine.tile.source import Line

PACK = {"float16": "pack_f16", "bfloat16": "pack_bf16"}
"""Function that rounds two floats and puts them into one word."""
MOST_RESIDENT = 32
"""Registers of a thread that 16 queries may take throughout: those of 128 halves each."""
MOST_HELD = 192
"""Registers of a thread for queries, scores and results: addresses and fragments want the others."""


def is_crowded(depth: int, heads: int, scores: Statement, chain: Sequence[Statement]) -> bool:
    """Whether 32 queries of a warp leave registers for nothing but their results and scores: then what is read for each
    score, as a mask is, has none."""
    own = {scores.write.array, *(s.write.array for s in chain)}
    is_masked = any(access.array not in own for s in chain for access in s.reads())
    return is_masked and depth // 2 + heads + FRAGMENT_SIZE > MOST_HELD


class TensorCores:
    """The two products of a block by warps.  One instance makes one kernel."""

    def __init__(self, block: Block, intrinsic: Intrinsic, rows: int) -> None:
        """rows: queries of a warp."""
        self.block, self.intrinsic = block, intrinsic
        tiles, emitter, thread = block.tiles, block.emitter, Index.of("thread")
        link = Line((block.nest.scores.name, block.nest.values.name), block.names)
        emitter.add(Comment("where a warp's queries begin, and what each lane reads of the tiles first", link))
        lane = emitter.bind("lane", thread.mod(WARP, emitter.extents), link)
        self.lanes = Lanes(emitter, intrinsic, lane)
        self.origin = emitter.bind("warp_query", thread.floordiv(WARP, emitter.extents) * rows, link)
        self.fragments, self.key_tiles, self.head_tiles = rows // FRAGMENT_SIZE, tiles.keys // 8, tiles.heads // 8
        steps, nest = tiles.depth // intrinsic.k, block.nest
        self.is_resident = steps * 4 <= MOST_RESIDENT and not (
            rows > FRAGMENT_SIZE and is_crowded(tiles.depth, tiles.heads, nest.scores, nest.chain)
        )
        """Whether the queries stay in registers; else every tile of keys brings them again, a step at a time."""
        shape = (self.fragments, steps, 4) if self.is_resident else (self.fragments, 4)
        word = self.lanes.word
        self.query_part = emitter.register("query_part", word, shape)
        self.key_part = emitter.register("key_part", word, (self.key_tiles // 2, 2, 2))
        self.weight_part = emitter.register("weight_part", word, (self.fragments, 4))
        self.is_full = self.fragments > 1
        """Whether queries, scores and results leave few registers: values then come two fragments at a time."""
        value_tiles = 1 if self.is_full else self.head_tiles // 2
        self.value_part = emitter.register("value_part", word, (value_tiles, 2, 2))
        self.fragments_of_loops = ((self.key_part,),) if self.is_full else ((self.key_part,), (self.value_part,))
        """Registers that the loops over the depth and over the keys of a tile load ahead."""
        self.score_sums = emitter.register("scores", "float32", (self.fragments, self.key_tiles, 2, 2))
        self.result_sums = emitter.register("results", "float32", (self.fragments, self.head_tiles, 2, 2))
        emitter.declare(self.result_sums, Literal(0.0, "float32"))
        self.is_paired = intrinsic.element_bytes == REGISTER_BYTES
        """Whether a step's depths of the second product are neighbouring keys."""
        self.query_lane, self.key_lane, self.value_lane = (
            emitter.bind(name, place, block.scores_link)
            for name, place in (
                ("query_lane", self.lanes.first(block.query, True, self.origin, Index())),
                ("key_lane", self.lanes.first(block.key, False, Index(), Index())),
                ("value_lane", self._first_value()),
            )
        )
        factors = nest.query_factor, nest.key_factor, nest.value_factor
        self.prologues = tuple(prologue(factor.expression, intrinsic.held) for factor in factors)
        row = block.start + self.origin
        self.scores = self.lanes.owned_sums(self.score_sums, (self.fragments, self.key_tiles), (row, Index()))
        place = row, block.first_head
        self.results = self.lanes.owned_sums(self.result_sums, (self.fragments, self.head_tiles), place)
        self.sharers = SHARERS

    def _first_value(self) -> Index:
        """Where the element or row stands that a lane reads first of a tile of values."""
        if not self.is_paired:
            return self.lanes.first(self.block.value, False, Index(), Index())
        lane, extents = self.lanes.lane, self.block.emitter.extents
        return self.block.value.local(lane.floordiv(SHARERS, extents), lane.mod(SHARERS, extents) * 2)

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
        place = self.block.query.local(fragment * FRAGMENT_SIZE, step * k) + self.query_lane
        self.lanes.load(slot, self.block.query, True, place, self.block.scores_link)
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
                place = self.block.key.local(p * FRAGMENT_SIZE, step * k) + self.key_lane
                self.lanes.load(Slot(self.key_part, (p,)), self.block.key, False, place, link)
            self._map_all(1, self.key_part, self.key_tiles // 2, "key_element")

            def query(r: Index) -> Slot:
                return Slot(self.query_part, (r, step) if self.is_resident else (r,))

            count = (self.fragments, self.key_tiles)
            self.lanes.multiply(self.score_sums, count, query, self.key_part, link)

    def multiply_values(self) -> None:
        """The weights of one tile of keys times its values; zeros that fill the tile meet weights of 0."""
        emitter, link, k = self.block.emitter, self.block.values_link, self.intrinsic.k
        emitter.add(Comment("weights, rounded where they are, times one tile of values", link))
        with emitter.loop("step", self.block.tiles.keys // k, link, always=True) as step:
            if not self.is_full:
                self._load_values(step)
            emitter.declare(self.weight_part)
            with emitter.loop("r", self.fragments, link) as r, emitter.loop("c", 2, link) as c, emitter.loop(
                "h", 2, link
            ) as h:
                emitter.assign(Slot(self.weight_part, (r, c * 2 + h)), self._weight(r, step, c, h), link)
            if self.is_full:
                self._multiply_by_pairs(step)
                return
            count = (self.fragments, self.head_tiles)
            self.lanes.multiply(self.result_sums, count, self._weights_of, self.value_part, link)

    def _weights_of(self, fragment: Index) -> Slot:
        return Slot(self.weight_part, (fragment,))

    def _load_values(self, step: Index) -> None:
        """All fragments of a step, before any is multiplied: registers may then load the next one's ahead."""
        emitter, link = self.block.emitter, self.block.values_link
        emitter.declare(self.value_part)
        with emitter.loop("p", self.head_tiles // 2, link) as p:
            self._load_value(Slot(self.value_part, (p,)), p, step)
        self._map_all(2, self.value_part, self.head_tiles // 2, "value_element")

    def _multiply_by_pairs(self, step: Index) -> None:
        """The weights of a step times its values, of which two fragments are in registers at a time."""
        emitter, link, pair = self.block.emitter, self.block.values_link, Slot(self.value_part, (Index(),))
        with emitter.loop("p", self.head_tiles // 2, link) as p:
            emitter.declare(self.value_part)
            self._load_value(pair, p, step)
            self._map(2, pair, "value_element")
            self.lanes.multiply_pair(self.result_sums, self.fragments, p, self._weights_of, pair, link)

    # Fragments

    def _load_value(self, slot: Slot, fragment: Index, step: Index) -> None:
        """The values of a step for 16 elements of the results."""
        value, link = self.block.value, self.block.values_link
        place = value.local(fragment * FRAGMENT_SIZE, step * self.intrinsic.k) + self.value_lane
        if self.is_paired:
            self.lanes.load_elements(slot, value, False, place, 1, link)
        else:
            self.lanes.load(slot, value, False, place, link)

    def _weight(self, fragment: Index, step: Index, depth_half: Index, row_half: Index) -> Scalar:
        """A word of the fragment of weights: two neighbours in one, or one of them."""
        if self.is_paired:
            return Access(self.score_sums, (fragment, step, row_half, depth_half))
        pair = tuple(Access(self.score_sums, (fragment, step * 2 + depth_half, row_half, Index.of(v))) for v in (0, 1))
        return Apply(PACK[self.intrinsic.dtype], pair, "uint32")

    def _map_all(self, number: int, part: str, fragments: int, element: str) -> None:
        if self.prologues[number] is not None:
            with self.block.emitter.loop("p", fragments, self.block.scores_link) as p:
                self._map(number, Slot(part, (p,)), element)

    def _map(self, number: int, slot: Slot, element: str) -> None:
        self.lanes.map(slot, self.prologues[number], element, self.block.scores_link)
