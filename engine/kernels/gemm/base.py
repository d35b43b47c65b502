"""What all kernels of contractions share: a block's tile, the main loop, the statements after the sum.

    y[i,j] = sum(k) a[i,k] * b[k,j]

A block owns a tile of rows (iterators only `a` has) and columns (iterators only `b` has); shared ones are batches.
The main loop copies a tile, waits for it and uses it; `engine.pipeline` lets the copies run ahead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.fusion.nodes import FusionGroup
from engine.fusion.row_sides import factors_of, reduced_columns
from engine.fusion.shape import is_contraction, is_of_codes
from engine.kernels.elementwise.lower import bind_members, place
from engine.kernels.gemm.operand import (
    Operand,
    Side,
    Tiling,
    await_copies,
    choose_operand,
    copy_tile,
    operand_of_codes,
    unpack_tile,
    with_window,
)
from engine.kernels.gemm.problem import (
    gemm_problem,
    reaches,
    sources_of_operand,
    widest_result,
    window_axes,
)
from engine.kernels.gemm.unpack import CodedFactor
from engine.kernels.loop_nest import Nest, Phase, without_loops
from engine.kernels.statement_block import BlockOptions, evaluate_block, total_statement
from engine.scheduling.nodes import Member
from engine.support.errors import Unsupported
from engine.target.hardware import VECTOR_BYTES, WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal, Statement
from engine.tensor.rewrite import plain_iterator
from engine.tensorize.bind import axes_of_contraction, element_of, multiplied_dtype
from engine.tensorize.space import GemmConfig
from engine.tile.emit import LANE_OF_VECTOR, Emitter, at
from engine.tile.nodes import Barrier, Buffer, PipelineRequest, TileProgram
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


CROWDED, FULL = 64, 128
"""Sums of a thread on tensor cores, beside which the addresses of windows fill its registers, and that leave few."""
PAIR = 256
"""Threads of an SM that may have 255 registers each."""
FEW, LEAN = 32, 640
"""Sums of a thread that want 96 registers, and the threads of an SM that may have as many: left to itself, the compiler
makes do with 72 for two blocks of 128 more, which shared memory has no room for, and spills 8 to 16 bytes."""


class GemmLowering:
    """A contraction and its loops.  One instance makes one kernel, once `begin` has given it a tile."""

    def __init__(
        self, group: FusionGroup, nest: Nest, taken: Mapping[str, Buffer] | None = None, outer: Collection[str] = ()
    ) -> None:
        """taken: buffers of other parts of a packed kernel.  outer: as for `axes_of_contraction`."""
        self.group, self.nest, self.program = group, nest, group.program
        self._taken = taken
        self.loop, self.statement = self._contraction_loop()
        self.sibling = next((s for s in self.loop.statements if is_contraction(s) and s is not self.statement), None)
        """Another product of the same rows in the main loop."""
        self.products = tuple(s for s in (self.statement, self.sibling) if s is not None)
        self.after = tuple(s for s in nest.statements if s not in self.products)
        """Statements after the contraction, in order."""
        self.has_whole_rows = any(s.reduction is not None for s in self.after)
        """Whether rows of the results are reduced: a block's tile then has all columns."""
        without_loops(nest, self.after)
        assert self.statement.reduction is not None
        self.held = self.statement.reduction.accumulate
        """Type of the sums."""
        self.nothing = Literal(self.statement.reduction.identity, self.held)
        self.batch, *self.free = self._sides(outer)
        self.size = tuple(math.prod(m.extent for m in members) for members in self.free)
        around = {i.name for i in self.axes.around}
        is_around = [plain_iterator(m.rows[self.statement.name]) in around for m in self.loop.members]
        self.around = tuple(m for m, is_it in zip(self.loop.members, is_around, strict=True) if is_it)
        """Loops around the depths."""
        self.depths = tuple(m for m, is_it in zip(self.loop.members, is_around, strict=True) if not is_it)
        self.depth = math.prod(m.extent for m in self.depths)
        self.names = tuple(m.name for m in nest.outer)
        self.link = at(self.statement, *(m.name for m in self.loop.members))
        """Of everything in the main loop."""
        self.results_link = Line(tuple(s.name for s in (self.statement, *self.after)), self.names)
        """Of everything after it."""
        self.combined: dict[str, str] = {}
        """Reductions of results -> how threads that hold parts of a row combine them."""

    # What is what

    def _contraction_loop(self) -> tuple[Phase, Statement]:
        for phase in self.nest.phases:
            for statement in phase.statements:
                if is_contraction(statement) and phase.members:
                    return phase, statement
        raise Unsupported("codegen", self.program.name, "the schedule has no loop for the contraction to reduce over")

    def _sides(self, outer: Collection[str]) -> tuple[tuple[Member, ...], tuple[Member, ...], tuple[Member, ...]]:
        """Outer dimensions that are batches, rows (first factor only) and columns (second factor only)."""
        whole = reduced_columns(self.program.statements, self.statement)
        self.factors = factors_of(self.statement, whole)
        self.has_codes = any(map(is_of_codes, self.factors))
        axes = replace(axes_of_contraction(self.statement, whole, outer), sibling=self.sibling)
        self.access = axes.factors
        self.axes = axes
        for factor, access in zip(self.factors, self.access, strict=True):
            if any(i.is_indirect for i in access.indices):
                reason = "a factor of a contraction is looked up"
                raise Unsupported("codegen", str(factor), reason)
        # A dimension that moves no iterator of the contraction by itself is walked as a batch.
        side_of = {i.name: n for n, side in enumerate((axes.batch, axes.rows, axes.columns)) for i in side}
        sides: tuple[list[Member], list[Member], list[Member]] = ([], [], [])
        for member in self.nest.outer:
            sides[side_of.get(plain_iterator(member.rows[self.statement.name]) or "", 0)].append(member)
        batch, rows, columns = map(tuple, sides)
        return batch, rows, columns

    # Lowering

    def begin(self, config: GemmConfig, threads: int, is_swizzled: bool = False) -> tuple[Operand, ...]:
        """The operands of a block's tile, the second one of each product; the emitter and the block's place are made.

        threads: of a block.  is_swizzled: as in `Tiling`.
        """
        self.config, block = config, (config.block[0], config.block[1] // len(self.products))
        self.tiling = tiling = self.tiling_of(config.block[2], is_swizzled)
        counts = tuple(-(-size // tile) for size, tile in zip(self.size, block, strict=True))
        self.steps = math.ceil(tiling.steps / config.split_k)
        self.tiles = self.tiles_of(config.block[:2])
        self.emitter = Emitter(self.program, self.tiles * config.split_k, threads, self._taken)
        start = self._bind_block(block, counts)
        batch = place(self.statement, self.batch, self.batch_variables)
        found = []
        for n in (0, 1):
            side = Side(self.free[n], block[n], self.size[n], start[n])
            if is_of_codes(self.factors[n]):
                found.append(operand_of_codes(self.emitter, self._coded_factor(n), side, tiling))
            else:
                found.append(choose_operand(self.emitter, self.statement, self.access[n], side, batch, tiling))
        if self.sibling is not None:
            _, access = axes_of_contraction(self.sibling).factors
            side, where = found[1].side, place(self.sibling, self.batch, self.batch_variables)
            found.append(choose_operand(self.emitter, self.sibling, access, side, where, tiling))
        return tuple(found)

    def _coded_factor(self, n: int) -> CodedFactor:
        """The first (0) or the second factor, which is one of codes."""
        axes, arrays = self.axes, self.program.arrays
        return CodedFactor(
            access=axes.factors[n],
            element=element_of(self.factors[n], self.held),
            dtype=multiplied_dtype(self.factors[n], self.held, arrays),
            reads=tuple(sources_of_operand(axes, n, arrays)),
            reach=reaches(self.program, axes.outer)[n],
            iterators=((axes.rows, axes.columns)[n][0].name, axes.depth[0].name),
        )

    def tiling_of(self, tile: int, is_swizzled: bool = False) -> Tiling:
        """The walk through the depths in tiles of so many."""
        return Tiling(self.depths, tile, is_swizzled, self.around)

    def tiles_of(self, block: tuple[int, int]) -> int:
        """Tiles of the result, of all batches.  block: rows, and columns of all products together."""
        sizes = (self.size[0], self.size[1] * len(self.products))
        counts = (-(-size // tile) for size, tile in zip(sizes, block, strict=True))
        return math.prod(m.extent for m in self.batch) * math.prod(counts)

    def _bind_block(self, block: tuple[int, int], counts: tuple[int, ...]) -> tuple[Index, Index]:
        """First row and column of this block's tile; its batch is bound too.

        Blocks that run together share tiles of both operands in L2.

            raster 1    0 1 2 3      raster 2    0 2 4 6
                        4 5 6 7                  1 3 5 7
        """
        emitter, number = self.emitter, Index.of("block")
        extents, link = emitter.extents, Line((self.statement.name,), self.names)
        (rows, columns), raster = counts, self.config.raster
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
        tiles = self.steps * self.config.split_k
        operands = tuple(with_window(emitter, operand, tiles, link) for operand in operands)
        plain = [one.copy for one in operands if one.codes is None]
        are_whole = (copy.width * copy.element_bytes == VECTOR_BYTES for copy in plain)
        self.has_whole_copies = len(plain) == len(operands) and all(are_whole)
        """Whether all tiles are copied in whole vectors, whose places are few."""
        with emitter.loop("tile", self.steps, link, unroll=False, always=True) as step:
            tile = self.part * self.steps + step
            for operand in operands:
                copy_tile(emitter, operand, tile, link)
            await_copies(emitter, link)
            of_codes = [operand for operand in operands if operand.codes]
            for operand in of_codes:
                unpack_tile(emitter, operand, tile, link)
            if of_codes:
                emitter.add(Barrier(link))
            multiply(tile)
            emitter.add(Barrier(link))

    # What follows the sum

    def epilogue(self, owned: Owned, is_ours: tuple[Index, ...] = ()) -> None:
        """Round the sums, run the statements after the contraction, store: as wide as a thread's neighbours are."""
        emitter, link = self.emitter, self.results_link
        vector, columns = min(owned.vector, self.widest_result()), owned.shape[1] // len(self.products)
        with emitter.loop("r", owned.shape[0], link) as r, emitter.loop("s", columns // vector, link) as s:
            lane = Index.of(LANE_OF_VECTOR) if vector > 1 else Index()
            emitter.extents[LANE_OF_VECTOR] = vector
            where = (owned.row(r), owned.column(s * vector))
            totals = [owned.sums(r, s * vector + lane + n * columns) for n in range(len(self.products))]
            self.elements(where, vector, totals, is_ours)

    def elements(
        self, where: tuple[Index, Index], vector: int, totals: Sequence[Access], is_ours: tuple[Index, ...] = ()
    ) -> None:
        """Everything after the sum for `vector` neighbouring columns from a row and column on, and the stores.

        totals: for each product the register that holds its sums, over the lanes of the vector.  is_ours: conditions
        (>= 0) under which they are this thread's to store.
        """
        emitter, link = self.emitter, self.results_link
        emitter.vector = vector
        emitter.extents[LANE_OF_VECTOR] = vector
        row, column = emitter.bind("row", where[0], link), emitter.bind("column", where[1], link)
        edges = [Index((), self.size[0] - 1) - row, Index((), self.size[1] - vector) - column]
        inside = emitter.mask("inside", [*edges, *is_ours], link)
        if inside:
            emitter.extents |= {"row": self.size[0], "column": self.size[1]}
        variables = self.variables_at((row, column), vector)
        emitter.masked = frozenset(i.name for st in (self.statement, *self.after) for i in st.parallel)
        options = BlockOptions(
            mask=inside, store_mask=inside, stored=frozenset(self.program.outputs), dimensions=self.names
        )
        # Sums of several products may be in one register: each has a name of its own here.
        named = [Access(f"{s.name} in registers", ()) for s in self.products]
        rounded = [total_statement(emitter, *each) for each in zip(self.products, named, totals, strict=True)]
        evaluate_block(
            emitter,
            [*rounded, *self.after],
            lambda st: place(st, self.nest.outer, variables),
            {name.array: total for name, total in zip(named, totals, strict=True)},
            options,
        )

    def variables_at(self, where: tuple[Index, ...], vector: int) -> dict[str, Index]:
        """Every dimension of the results at a row, or at a row and the first of `vector` neighbouring columns."""
        variables = dict(self.batch_variables)
        for members, flat in zip(self.free, where, strict=False):
            variables |= bind_members(self.emitter, members, flat)
        if len(where) > 1 and vector > 1 and self.free[1]:
            last = self.free[1][-1].name
            variables[last] = variables[last] + Index.of(LANE_OF_VECTOR)
        return variables

    def widest_result(self) -> int:
        """Neighbouring results that can be read and written at once."""
        columns = {name: plain_iterator(row) or "" for name, row in self.free[1][-1].rows.items()}
        return widest_result(self.program, self.products, columns)

    def finish(
        self, constants: Mapping[str, int], assertions: tuple[tuple[str, str], ...], held: str,
        requests: tuple[PipelineRequest, ...],
    ) -> TileProgram:  # fmt: skip
        """The tile program.  held: where the sums live, for the reader."""
        (rows, columns, depth), parts = self.config.block, self.config.split_k
        shared = {"PRODUCTS": len(self.products)} if self.sibling else {}
        shared |= {"PARTS": parts} if parts > 1 else {}
        shared |= {"ROUNDS": self.tiling.rounds} if self.around else {}
        placements = {s.name: "register: the thread that holds the element uses it" for s in self.program.statements}
        placements |= self.combined
        tile = self.emitter.finish(
            self.group,
            constants={
                "ROWS": self.size[0], "COLUMNS": self.size[1], "DEPTH": self.depth, "TILE_ROWS": rows,
                "TILE_COLUMNS": columns, "TILE_DEPTH": depth, **shared, **constants,
            },
            assertions=assertions,
            placements=placements | {s.name: held for s in self.products},
            requests=requests,
            sequential=tuple(m.name for m in self.loop.members if m.parallel),
        )  # fmt: skip
        # Rows of results stay in registers to the end, and so do addresses of windows beside a large tile's sums: left
        # to itself, the compiler spills some of them for a block more.
        sums = math.prod(self.config.part) // WARP
        is_crowded = self.has_whole_rows or (sums >= CROWDED and window_axes(self.statement) > 0)
        # Two blocks of 128 threads have room for all registers that a thread may have. Asked for them, NVRTC 13 keeps
        # what more than two blocks that share a depth know of each other, of which it spills 8 bytes else; of two
        # blocks it is the other way round.
        is_pair = parts > 2 and sums >= FULL and 2 * tile.threads <= PAIR
        # Two products in one main loop have addresses for more than 96 registers.
        is_plain = self.sibling is None and not window_axes(self.statement)
        is_lean = parts == 1 and sums == FEW and self.has_whole_copies and is_plain
        order = gemm_problem(self.program, None, self.axes.outer).tile_order(self.config)
        together = 1 if is_crowded else 2 if is_pair else LEAN // tile.threads if is_lean else 0
        return replace(tile, together=together, orders=(order,))
