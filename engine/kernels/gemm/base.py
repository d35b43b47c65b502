"""What all kernels of contractions share: a block's tile, the main loop, the statements after the sum.

    y[i,j] = sum(k) a[i,k] * b[k,j]

A block owns a tile of rows (iterators only `a` has) and columns (iterators only `b` has); shared ones are batches.
The main loop copies a tile, waits for it and uses it; `engine.pipeline` lets the copies run ahead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from engine.fusion.nodes import FusionGroup
from engine.fusion.row_sides import factors_of, reduced_columns
from engine.fusion.shape import is_contraction
from engine.kernels.elementwise.lower import bind_members, place
from engine.kernels.gemm.operand import Operand, Side, Tiling, choose_operand, copy_tile
from engine.kernels.gemm.problem import widest_result
from engine.kernels.loop_nest import Nest, Phase, without_loops
from engine.kernels.statement_block import BlockOptions, evaluate_block, result_statement
from engine.scheduling.nodes import Member
from engine.support.errors import Unsupported
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Scalar, Statement
from engine.tensor.rewrite import plain_iterator, rewrite_scalar
from engine.tensorize.space import GemmConfig
from engine.tile.emit import LANE_OF_VECTOR, Emitter, at
from engine.tile.nodes import Barrier, Commit, PipelineRequest, TileProgram, Wait
from engine.tile.source import Line

Multiply = Callable[[Index], None]
"""Adds the operations that use a tile, given its number."""


@dataclass(frozen=True, slots=True)
class Owned:
    """The sums that one thread holds, and where they belong."""

    shape: tuple[int, int]
    """Rows and columns of one thread."""
    vector: int
    """Neighbouring columns among them."""
    row: Callable[[Index], Index]
    """Row of the product from the number of an owned row."""
    column: Callable[[Index], Index]
    sums: Callable[[Index, Index], Access]
    """The register of an owned row and column."""


class Product:
    """A contraction and its loops.  One instance makes one kernel, once `begin` has given it a tile."""

    def __init__(self, group: FusionGroup, nest: Nest) -> None:
        self.group, self.nest, self.program = group, nest, group.program
        self.loop, self.statement = self._heart()
        without_loops(nest, [s for s in nest.statements if s is not self.statement])
        self.batch, *self.free = self._sides()
        self.size = tuple(math.prod(m.extent for m in members) for members in self.free)
        self.depth = math.prod(m.extent for m in self.loop.members)
        self.names = tuple(m.name for m in nest.outer)
        self.link = at(self.statement, *(m.name for m in self.loop.members))
        """Of everything in the main loop."""
        self.combined: dict[str, str] = {}
        """Reductions of results -> how threads that hold parts of a row combine them."""

    # What is what

    def _heart(self) -> tuple[Phase, Statement]:
        for phase in self.nest.phases:
            for statement in phase.statements:
                if is_contraction(statement) and phase.members:
                    return phase, statement
        raise Unsupported("codegen", self.program.name, "the schedule has no loop for the contraction to reduce over")

    def _sides(self) -> tuple[tuple[Member, ...], tuple[Member, ...], tuple[Member, ...]]:
        """Outer dimensions that are batches, rows (first factor only) and columns (second factor only).

        Where rows of the results are reduced, the columns are what is reduced, and no others.
        """
        whole = reduced_columns(self.program.statements, self.statement)
        self.factors = factors_of(self.statement, whole)
        self.access = tuple(_wide_access(f, self.statement) for f in self.factors)
        used = [{n for i in a.indices for n in i.iterators()} for a in self.access]
        batch: list[Member] = []
        sides: tuple[list[Member], list[Member]] = ([], [])
        for member in self.nest.outer:
            name = plain_iterator(member.rows[self.statement.name])
            if name in used[0] and name not in used[1]:
                sides[0].append(member)
            elif name in used[1] and name not in used[0] and (name in whole or not whole):
                sides[1].append(member)
            else:
                batch.append(member)
        return tuple(batch), tuple(sides[0]), tuple(sides[1])

    # Lowering

    def begin(
        self, config: GemmConfig, threads: int, raster: int, is_swizzled: bool = False
    ) -> tuple[Operand, Operand]:
        """The operands of a block's tile; the emitter and the block's place are made.

        threads: of a block.  raster: rows of tiles that blocks walk down before they go one tile to the right: blocks
        that run together then share tiles of both operands in L2.  is_swizzled: as in `Tiling`.
        """
        self.config, block = config, config.block[:2]
        self.tiling = tiling = Tiling(self.loop.members, config.block[2], is_swizzled)
        counts = tuple(-(-size // tile) for size, tile in zip(self.size, block, strict=True))
        self.steps = math.ceil(-(-self.depth // tiling.tile) / config.split_k)
        self.tiles = self.tiles_of(block)
        self.emitter = Emitter(self.program, self.tiles * config.split_k, threads)
        start = self._bind_block(block, counts, raster)
        batch = place(self.statement, self.batch, self.batch_variables)
        first, second = (
            choose_operand(
                self.emitter, self.statement, self.access[n], Side(self.free[n], block[n], self.size[n], start[n]),
                batch, tiling,
            )
            for n in (0, 1)
        )  # fmt: skip
        return first, second

    def tiles_of(self, block: tuple[int, int]) -> int:
        """Tiles of the result, of all batches."""
        counts = (-(-size // tile) for size, tile in zip(self.size, block, strict=True))
        return math.prod(m.extent for m in self.batch) * math.prod(counts)

    def _bind_block(
        self, block: tuple[int, int], counts: tuple[int, ...], raster: int
    ) -> tuple[Index, Index]:
        """First row and column of this block's tile; its batch is bound too.

            raster 1    0 1 2 3      raster 2    0 2 4 6
                        4 5 6 7                  1 3 5 7
        """
        emitter, number = self.emitter, Index.of("block")
        extents, link = emitter.extents, Line((self.statement.name,), self.names)
        rows, columns = counts
        self.part = Index()
        """Which part of the depth is this block's."""
        if self.config.split_k > 1:
            self.part = emitter.bind("part", number.floordiv(self.tiles, extents), self.link)
            number = emitter.bind("tile_number", number.mod(self.tiles, extents), link)
        self.tile_number = number
        group = number.floordiv(columns * raster, extents).mod(rows // raster, extents)
        tile_row = emitter.bind("tile_row", group * raster + number.mod(raster, extents), link)
        tile_column = emitter.bind("tile_column", number.floordiv(raster, extents).mod(columns, extents), link)
        flat = number.floordiv(columns * rows, extents)
        self.batch_variables: Mapping[str, Index] = bind_members(emitter, self.batch, flat)
        return tile_row * block[0], tile_column * block[1]

    def main_loop(self, operands: tuple[Operand, ...], multiply: Multiply) -> None:
        """Copy a tile of each operand, wait for all threads' copies, use it, wait until all have."""
        emitter, link = self.emitter, self.link
        with emitter.loop("tile", self.steps, link, unroll=False, always=True) as step:
            tile = self.part * self.steps + step
            for operand in operands:
                copy_tile(emitter, operand, tile, link)
            for op in (Commit(link), Wait(0, link), Barrier(link)):
                emitter.add(op)
            multiply(tile)
            emitter.add(Barrier(link))

    # What follows the sum

    @property
    def after(self) -> tuple[Statement, ...]:
        """Statements after the contraction, in order."""
        return tuple(s for s in self.nest.statements if s is not self.statement)

    @property
    def has_whole_rows(self) -> bool:
        """Whether rows of the results are reduced: a block's tile then has all columns."""
        return any(s.reduction is not None for s in self.after)

    @property
    def results_link(self) -> Line:
        """Of everything after the main loop."""
        return Line(tuple(s.name for s in (self.statement, *self.after)), self.names)

    def epilogue(self, owned: Owned, is_ours: tuple[Index, ...] = ()) -> None:
        """Round the sums, run the statements after the contraction, store: as wide as a thread's neighbours are."""
        emitter, link = self.emitter, self.results_link
        vector = min(owned.vector, self.widest_result())
        with emitter.loop("r", owned.shape[0], link) as r, emitter.loop("s", owned.shape[1] // vector, link) as s:
            lane = Index.of(LANE_OF_VECTOR) if vector > 1 else Index()
            emitter.extents[LANE_OF_VECTOR] = vector
            place = (owned.row(r), owned.column(s * vector))
            self.elements(place, vector, owned.sums(r, s * vector + lane), is_ours)

    def elements(
        self, place: tuple[Index, Index], vector: int, total: Access, is_ours: tuple[Index, ...] = ()
    ) -> None:
        """Everything after the sum for `vector` neighbouring columns from a row and column on, and the stores.

        total: the register that holds the sums, over the lanes of the vector.  is_ours: conditions (>= 0) under which
        they are this thread's to store.
        """
        emitter, link = self.emitter, self.results_link
        emitter.vector = vector
        emitter.extents[LANE_OF_VECTOR] = vector
        row, column = emitter.bind("row", place[0], link), emitter.bind("column", place[1], link)
        edges = [Index((), self.size[0] - 1) - row, Index((), self.size[1] - vector) - column]
        inside = emitter.mask("inside", [*edges, *is_ours], link)
        if inside:
            emitter.extents |= {"row": self.size[0], "column": self.size[1]}
        variables = dict(self.batch_variables)
        for members, flat in zip(self.free, (row, column), strict=True):
            variables |= bind_members(emitter, members, flat)
        if vector > 1 and self.free[1]:
            last = self.free[1][-1].name
            variables[last] = variables[last] + Index.of(LANE_OF_VECTOR)
        self._evaluate(variables, total, inside)

    def widest_result(self) -> int:
        """Neighbouring results that can be read and written at once."""
        columns = {name: plain_iterator(row) or "" for name, row in self.free[1][-1].rows.items()}
        return widest_result(self.program, self.statement, columns)

    def _evaluate(self, variables: dict[str, Index], total: Access, inside: str | None) -> None:
        emitter = self.emitter
        dtype = self.program.arrays[self.statement.write.array].dtype
        is_rounded = emitter.buffers[total.array].dtype == dtype
        anchor = result_statement(self.statement, total if is_rounded else Apply("cast", (total,), dtype))
        emitter.masked = frozenset(i.name for st in (self.statement, *self.after) for i in st.parallel)
        options = BlockOptions(
            mask=inside,
            store_mask=inside,
            stored=frozenset(self.program.outputs),
            dimensions=self.names,
        )
        evaluate_block(
            emitter,
            [anchor, *self.after],
            lambda st: place(st, self.nest.outer, variables),
            {total.array: total},
            options,
        )

    def finish(
        self, constants: Mapping[str, int], assertions: tuple[tuple[str, str], ...], held: str,
        requests: tuple[PipelineRequest, ...],
    ) -> TileProgram:  # fmt: skip
        """The tile program.  held: where the sums live, for the reader."""
        (rows, columns, depth), parts = self.config.block, self.config.split_k
        shared = {"PARTS": parts} if parts > 1 else {}
        placements = {s.name: "register: the thread that holds the element uses it" for s in self.program.statements}
        placements |= self.combined
        tile = self.emitter.finish(
            self.group,
            constants={
                "ROWS": self.size[0], "COLUMNS": self.size[1], "DEPTH": self.depth, "TILE_ROWS": rows,
                "TILE_COLUMNS": columns, "TILE_DEPTH": depth, **shared, **constants,
            },
            assertions=assertions,
            placements=placements | {self.statement.name: held},
            requests=requests,
            sequential=tuple(m.name for m in self.loop.members if m.parallel),
        )  # fmt: skip
        # Rows of results stay in registers to the end: left to itself, the compiler spills some for a block more.
        return replace(tile, together=1 if self.has_whole_rows else 0)


def id_of(access: Access) -> str:
    """What tells two reads of a statement apart."""
    return str(access)


def _wide_access(factor: Scalar, statement: Statement) -> Access:
    """The one array read of a factor that moves with the loops."""
    found: list[Access] = []

    def collect(access: Access) -> Scalar:
        if any(i.iterators() for i in access.indices):
            found.append(access)
        return access

    rewrite_scalar(factor, {}, collect, statement.extents)
    if len(set(map(id_of, found))) != 1:
        raise Unsupported("codegen", str(factor), "a factor of a contraction reads more than one array")
    if found[0].guards or any(i.is_indirect for i in found[0].indices):
        raise Unsupported("codegen", str(factor), "a factor of a contraction is read under a guard or looked up")
    return found[0]
