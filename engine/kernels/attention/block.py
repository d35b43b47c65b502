"""What the kernels of an attention share: a block's tile of queries, the loop over tiles of keys, what follows.

    for each tile of keys:   s = Q K^T;  x = chain(s);  online softmax of x;  o += weights V
    o / sum of the weights, then the statements after the second product

A block owns one batch and head and some queries; their scores never leave it.  Results too long for its registers are
shared by several blocks, which compute the scores each.  How the two products are multiplied
(tensor cores, CUDA cores) is the business of a file each; the softmax in between is that of `softmax.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.fusion.nodes import FusionGroup
from engine.graph.nodes import DTYPES
from engine.kernels.attention.mask import diagonal
from engine.kernels.attention.nest import AttentionNest
from engine.kernels.elementwise.lower import bind_members, place
from engine.kernels.gemm.base import Owned
from engine.kernels.gemm.operand import Operand, Side, Tiling, await_copies, choose_operand, copy_tile
from engine.kernels.statement_block import BlockOptions, evaluate_block, result_statement
from engine.scheduling.nodes import Member
from engine.tensor.access import vector_limit
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal, Statement
from engine.tensor.rewrite import plain_iterator
from engine.tile.emit import LANE_OF_VECTOR, Emitter, at
from engine.tile.nodes import Barrier, BreakIf, Comment, PipelineRequest, TileProgram
from engine.tile.source import Line

SMALLEST_ROW = 32
"""Bytes of the shortest row whose chunks can be permuted."""


@dataclass(frozen=True, slots=True)
class AttentionTileSizes:
    """Sizes of a block's work, in elements; depth and heads are padded to whole instructions."""

    queries: int
    keys: int
    """Of one tile of the loop."""
    depth: int
    heads: int
    """Elements of a result that a block makes."""

    def counts(self, nest: AttentionNest) -> tuple[int, int, int]:
        """Tiles of the queries, of a result, and of the keys."""
        sizes = (nest.queries, self.queries), (nest.heads, self.heads), ((nest.key,), self.keys)
        queries, heads, keys = (-(-math.prod(m.extent for m in members) // tile) for members, tile in sizes)
        return queries, heads, keys


class Block:
    """One kernel's names, operands and places."""

    def __init__(
        self, group: FusionGroup, nest: AttentionNest, tiles: AttentionTileSizes, parts: int, threads: int,
        permuted: tuple[bool, bool],
    ) -> None:  # fmt: skip
        """parts: of the keys, each walked by blocks of its own.

        permuted: whether chunks of rows are, as matrix loads want them: of queries and keys, and of values.
        """
        self.group, self.nest, self.tiles, self.program = group, nest, tiles, group.program
        self.queries, self.keys, self.depth, self.heads = (
            math.prod(m.extent for m in members) for members in (nest.queries, (nest.key,), nest.depth, nest.heads)
        )
        query_tiles, head_tiles, self.key_tiles = tiles.counts(nest)
        self.parts, self.steps = parts, -(-self.key_tiles // parts)
        self.teams = math.prod((query_tiles, head_tiles, *(m.extent for m in nest.batch)))
        """Results that blocks make: each alone, or a team of them."""
        self.emitter = Emitter(self.program, self.teams * parts, threads)
        self.names = tuple(m.name for m in (*nest.batch, *nest.queries))
        self.scores_link = at(nest.scores, *self.names, nest.key.name)
        self.values_link = at(nest.values, *self.names, nest.key.name)
        self.shift = diagonal(nest, self.program) if nest.is_online else None
        """Keys up to query + shift count, where the graph says so."""
        self.start, self.first_head = self._bind_block(query_tiles, head_tiles)
        self._choose_operands(*permuted)

    def _bind_block(self, query_tiles: int, head_tiles: int) -> tuple[Index, Index]:
        """First query and first element of the results of this block; its batch is bound too.

        Neighbouring blocks share keys and values.  Behind a diagonal the last queries have the most keys: they come
        first, so that no long block is left over at the end.
        """
        emitter, number = self.emitter, Index.of("block")
        link = Line((self.nest.scores.name,), self.names)
        self.part = Index()
        """Which part of the keys is this block's."""
        if self.parts > 1:
            self.part = emitter.bind("part", number.floordiv(self.teams, emitter.extents), self.scores_link)
            number = emitter.bind("team", number.mod(self.teams, emitter.extents), link)
        self.team = number
        turn = number.mod(query_tiles, emitter.extents)
        place = turn if self.shift is None else Index((), query_tiles - 1) - turn
        query_tile = emitter.bind("query_tile_number", place, link)
        rest = number.floordiv(query_tiles, emitter.extents)
        head_tile = Index()
        if head_tiles > 1:
            head_tile = emitter.bind("head_tile_number", rest.mod(head_tiles, emitter.extents), link)
        flat = rest.floordiv(head_tiles, emitter.extents)
        self.batch: Mapping[str, Index] = bind_members(emitter, self.nest.batch, flat)
        return query_tile * self.tiles.queries, head_tile * self.tiles.heads

    def _choose_operands(self, by_depth: bool, by_keys: bool) -> None:
        nest, tiles = self.nest, self.tiles
        queries = Side(nest.queries, tiles.queries, self.queries, self.start)
        keys = Side((nest.key,), tiles.keys, self.keys, Index())
        heads = Side(nest.heads, tiles.heads, self.heads, self.first_head)
        depth, across = (nest.depth, tiles.depth), ((nest.key,), tiles.keys)
        element_bytes = DTYPES[self.program.arrays[nest.query_factor.access.array].dtype]
        along_depth = Tiling(*depth, by_depth and _can_be_permuted(tiles.depth * element_bytes))
        along_keys = Tiling(*across, by_keys and _can_be_permuted(tiles.heads * element_bytes))
        self.query = self._operand("query_tile", nest.scores, nest.query_factor.access, queries, along_depth)
        self.key = self._operand("key_tile", nest.scores, nest.key_factor.access, keys, along_depth)
        self.value = self._operand("value_tile", nest.values, nest.value_factor.access, heads, along_keys)

    def _operand(self, name: str, statement: Statement, access: Access, side: Side, tiling: Tiling) -> Operand:
        """An operand whose tile has a name of its own: one array may be queries, keys and values."""
        batch = place(statement, self.nest.batch, self.batch)
        operand = choose_operand(self.emitter, statement, access, side, batch, tiling)
        buffer = self.emitter.buffers.pop(operand.tile)
        self.emitter.buffers[name] = replace(buffer, name=name)
        return replace(operand, tile=name)

    # The kernel

    def first_copies(self) -> None:
        """The block's queries, awaited before anything else."""
        link = self.scores_link
        copy_tile(self.emitter, self.query, Index(), link)
        await_copies(self.emitter, link)

    def leave_masked(self, tile: Index) -> None:
        """No tile that lies behind the diagonal for all queries of the block."""
        if self.shift is None:
            return
        emitter, tiles = self.emitter, self.tiles
        first = tiles.queries + self.shift
        count = -(-self.queries // tiles.queries)
        ends = ((number * tiles.queries + first - 1) // tiles.keys + 1 for number in range(count))
        begins = [part * self.steps for part in range(self.parts)]
        used = sum(min(self.steps, max(0, end - begin)) for end in ends for begin in begins)
        every = count * self.steps * self.parts
        if self.steps == 1 or used == every:
            return
        emitter.add(Comment("all later keys are masked for the queries of this block", self.scores_link))
        behind = tile * tiles.keys - self.start - first
        emitter.add(BreakIf(behind, (used, every), self.scores_link))

    def copy_keys_and_values(self, tile: Index) -> None:
        """One tile of each, awaited together."""
        first = replace(self.key.side, start=tile * self.tiles.keys)
        copy_tile(self.emitter, replace(self.key, side=first), Index(), self.scores_link)
        copy_tile(self.emitter, self.value, tile, self.values_link)
        await_copies(self.emitter, self.values_link)

    def close_tile(self) -> None:
        """Nobody still uses a tile that the next one overwrites."""
        self.emitter.add(Barrier(self.values_link))

    def place_of(self, query: Index, column: Mapping[str, Index]) -> dict[str, Index]:
        """Every iterator of an element: batch, query and the given columns."""
        bound = {**self.batch, **bind_members(self.emitter, self.nest.queries, query)}
        names = {m.name: plain_iterator(m.rows[self.nest.scores.name]) for m in (*self.nest.batch, *self.nest.queries)}
        return {name: bound[dimension] for dimension, name in names.items() if name is not None} | dict(column)

    def vector(self, statements: Sequence[Statement], along: Member | None, most: int) -> int:
        """Neighbouring elements along a dimension that statements can read and write at once, at most `most`."""
        if along is None:
            return 1
        name = plain_iterator(along.rows[self.nest.values.name])
        return min(most, vector_limit(statements, self.program, {s.name: (name,) for s in statements if name}))

    def set_vector(self, width: int) -> None:
        """The width of the vectors that follow."""
        self.emitter.vector = width
        self.emitter.extents[LANE_OF_VECTOR] = width

    def epilogue(self, owned: Owned) -> None:
        """Round the results, run the statements after the second product, store."""
        emitter, nest = self.emitter, self.nest
        anchor = result_statement(nest.values, Literal(0.0, "float32"))
        along = nest.heads[-1] if nest.heads else None
        vector = self.vector([anchor, *nest.after], along, owned.vector)
        self.set_vector(vector)
        link = Line(tuple(s.name for s in (nest.values, *nest.after)), self.names)
        emitter.add(Comment("the results of the block's queries", link))
        with emitter.loop("r", owned.shape[0], link) as r, emitter.loop("s", owned.shape[1] // vector, link) as s:
            query = emitter.bind("query", owned.row(r), link)
            head = emitter.bind("head", owned.column(s * vector), link)
            limits = [Index((), self.queries - 1) - query, Index((), self.heads - vector) - head]
            inside = emitter.mask("inside", limits, link)
            if inside:
                emitter.extents |= {"query": self.queries, "head": self.heads}
            columns = bind_members(emitter, nest.heads, head)
            lane = Index.of(LANE_OF_VECTOR) if vector > 1 else Index()
            if along:
                columns[along.name] = columns[along.name] + lane
            named = {n: columns[m.name] for m in nest.heads if (n := plain_iterator(m.rows[nest.values.name]))}
            where = self.place_of(query, named)
            total = owned.sums(r, s * vector + lane)
            array = self.program.arrays[nest.values.write.array]
            emitter.masked = frozenset(where)
            options = BlockOptions(
                mask=inside, store_mask=inside, stored=frozenset(self.program.outputs), dimensions=self.names
            )
            evaluate_block(
                emitter,
                [result_statement(nest.values, Apply("cast", (total,), array.dtype)), *nest.after],
                lambda st: {i.name: where[i.name] for i in st.parallel},
                {total.array: total},
                options,
            )

    def finish(
        self, constants: Mapping[str, int], assertions: tuple[tuple[str, str], ...], held: str,
        requests: tuple[PipelineRequest, ...],
    ) -> TileProgram:
        """The tile program.  held: where scores and results live, for the reader."""
        placements = {s.name: held for s in self.program.statements}
        placements |= {s.name: "register: the thread that holds the element uses it" for s in self.nest.after}
        sizes = {
            "QUERIES": self.queries, "KEYS": self.keys, "DEPTH": self.depth, "HEAD": self.heads,
            "TILE_QUERIES": self.tiles.queries, "TILE_KEYS": self.tiles.keys,
        }  # fmt: skip
        sizes |= {"TILE_HEAD": self.tiles.heads} if self.tiles.heads < self.heads else {}
        sizes |= {"PARTS": self.parts} if self.parts > 1 else {}
        return self.emitter.finish(
            self.group,
            constants={**sizes, **constants},
            assertions=assertions,
            placements=placements,
            requests=requests,
        )


def _can_be_permuted(size: int) -> bool:
    """Whether the chunks of rows of so many bytes can be; other rows are padded, to an odd number of chunks."""
    return size >= SMALLEST_ROW and size & (size - 1) == 0
