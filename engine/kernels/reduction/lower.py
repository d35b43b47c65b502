"""Row and column reductions with the element-wise statements around them, in one kernel.

Rows: `lanes` threads walk a row together, a shuffle tree (and shared memory past one warp) combines their parts.
Columns: neighbouring threads own neighbouring columns, the warps of a block walk down and meet in shared memory.
Few long rows or columns: several blocks share the terms of each, and the last one to come joins their parts.

    softmax:   for k: m = max(m, x)   reduce m   for k: e = exp(x - m); s += e   reduce s   for k: y = e / s
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from engine.fusion.nodes import FusionGroup
from engine.kernels.elementwise.lower import bind_members, place
from engine.kernels.loop_nest import Nest, Phase
from engine.kernels.marks import Marks
from engine.kernels.reduction.block_reduce import Accumulator, ReductionThreads, accumulator, combine, round_result
from engine.kernels.reduction.config import MOST_JOINS, ReductionConfig, read_config, row_order
from engine.kernels.statement_block import BlockOptions, Keep, evaluate_block
from engine.kernels.team import Lanes, Team
from engine.target.hardware import MAX_THREADS, WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal, Statement
from engine.tile.emit import LANE_OF_VECTOR, Emitter, at
from engine.tile.nodes import Barrier, Comment, PipelineRequest, TileProgram
from engine.tile.source import Line


def lower_reduction(group: FusionGroup, nest: Nest, marks: Marks, by_row: bool) -> TileProgram:
    """One kernel for a group with reductions that share their rows.  by_row: see `read_config`."""
    config = read_config(group.program, nest, marks, by_row)
    return marks.describe(emit_reduction(group, nest, config), config)


def emit_reduction(group: FusionGroup, nest: Nest, config: ReductionConfig) -> TileProgram:
    """The kernel of a config."""
    tile = _ReductionEmitter(group, nest, config).emit()
    layout = config.layout
    # Left to itself, the compiler spills to have a second of the largest blocks on an SM, and for as many small ones as
    # an SM takes it has a thread wait for the first 8 to 16 of its loads before it asks for others.
    if layout.threads == MAX_THREADS or (config.side_by_side > 1 and not config.kept):
        tile = replace(tile, together=1)
    if config.turns == 1:
        return tile
    return replace(tile, turns=config.turns, requests=(PipelineRequest((), config.stages, "stages"),))


class _ReductionEmitter:
    def __init__(self, group: FusionGroup, nest: Nest, config: ReductionConfig) -> None:
        self.group, self.nest, self.program = group, nest, group.program
        self.layout, self.keep = config.layout, config.kept
        self.columns = row_order(self.program, nest)
        self.emitter = Emitter(self.program, self.layout.blocks * self.layout.parts, self.layout.threads)
        self.emitter.vector = self.layout.vector
        self.emitter.extents[LANE_OF_VECTOR] = self.layout.vector
        self.values: dict[str, Access] = {}
        self.variables: dict[str, Index] = {}
        self.placements: dict[str, str] = {}
        self.outputs = frozenset(self.program.outputs)
        self.in_place = self.outputs & frozenset(self.program.inputs)
        """Arrays that are read and overwritten: no other thread may read an element that a thread writes."""

    def emit(self) -> TileProgram:
        """The tile program, phase by phase."""
        layout, emitter = self.layout, self.emitter
        row_mask = self._rows()
        recomputed: list[Statement] = []
        for phase in self.nest.phases:
            if phase.members:
                self._loop(phase, row_mask, recomputed)
                recomputed += [s for s in phase.statements if s.reduction is None and s.write.array not in self.keep]
            else:
                self._row_statements(phase, row_mask)
        held = f"{layout.chunks} x {layout.vector} registers of a thread"
        for statement in self.program.statements:
            array = statement.write.array
            text = held + ": later loops use it" if array in self.keep else "register: used where it is made"
            self.placements.setdefault(statement.name, text)
        reached, taken = "CHUNKS * SHARERS", "BLOCKS * 32 * VECTOR"
        if layout.by_row:
            reached, taken = "CHUNKS * SHARERS * VECTOR", "BLOCKS * (THREADS / SHARERS)"
        constants = {
            "ROWS": layout.rows, "COLUMNS": layout.columns, "SHARERS": layout.lanes, "CHUNKS": layout.chunks,
            "VECTOR": layout.vector,
        }  # fmt: skip
        if layout.parts > 1:
            constants["PARTS"] = layout.parts
            reached, taken = f"{reached} * PARTS", taken.replace("BLOCKS", "BLOCKS / PARTS")
        whole_rows = (f"{reached} >= COLUMNS", "the sharers of a row reach all of it")
        return emitter.finish(
            self.group,
            constants=constants,
            assertions=(whole_rows, (f"{taken} >= ROWS", "every row has a block")),
            placements=self.placements,
        )

    def _rows(self) -> str | None:
        """Bind the row (or column group) of this thread; the mask that tells whether it exists."""
        layout, emitter = self.layout, self.emitter
        names = tuple(m.name for m in self.nest.outer)
        block, thread, link = Index.of("block"), Index.of("thread"), Line((), names)
        if layout.parts > 1:
            # Blocks of a team lie equally far apart over the grid.
            self.part = emitter.bind("part_of_team", block.floordiv(layout.blocks, emitter.extents), link)
            block = emitter.bind("team", block.mod(layout.blocks, emitter.extents), link)
        self.team = block
        if layout.by_row:
            lane = thread.mod(layout.lanes, emitter.extents)
            row = block * layout.rows_per_block + thread.floordiv(layout.lanes, emitter.extents)
            self.lane = emitter.bind("lane", lane, link)
            start = emitter.bind("row_of_thread", row, link)
            limit = layout.rows - 1
        else:
            self.lane = emitter.bind("warp", thread.floordiv(WARP, emitter.extents), link)
            column = (block * WARP + thread.mod(WARP, emitter.extents)) * layout.vector
            start = emitter.bind("column_of_thread", column, link)
            limit = layout.rows - layout.vector
        mask = emitter.mask("row_exists", [Index((), limit) - start], link)
        emitter.extents[LANE_OF_VECTOR] = layout.vector
        if not self.nest.outer:
            return mask
        flat = emitter.bind("row", start, link, limit=limit) if mask else start
        if mask:
            emitter.definitions["row"] = emitter.expand(start)
        self.variables = bind_members(emitter, self.nest.outer, flat)
        if not layout.by_row and layout.vector > 1:
            last = self.nest.outer[-1].name
            self.variables[last] = self.variables[last] + Index.of(LANE_OF_VECTOR)
        return mask

    def _place(self, statement: Statement) -> dict[str, Index]:
        """Where a statement's iterators stand: its row, and the columns by their one name."""
        inner = {n: self.variables[n] for n in self.columns if n in statement.extents}
        return place(statement, self.nest.outer, self.variables) | inner

    def _loop(self, phase: Phase, row_mask: str | None, recomputed: Sequence[Statement]) -> None:
        """One pass over the reduced elements."""
        layout, emitter = self.layout, self.emitter
        names = tuple(m.name for m in phase.members)
        lanes = 1 if layout.by_row else layout.vector
        accumulators = {s.name: accumulator(emitter, s, lanes) for s in phase.statements if s.reduction is not None}
        link = Line(tuple(s.name for s in phase.statements), names)
        again = _statements_needed(phase.statements, recomputed)
        with self._chunks(link) as chunk:
            first = self.part * layout.chunks if layout.parts > 1 else Index()
            step = (first + chunk) * layout.lanes + self.lane
            column = emitter.bind("column", step * layout.vector if layout.by_row else step, link)
            limit = layout.columns - (layout.vector if layout.by_row else 1)
            mask = emitter.mask("inside", [Index((), limit) - column], link)
            if mask:
                emitter.extents["column"] = layout.columns
            bound = bind_members(emitter, phase.members, column)
            self.variables |= dict(zip(self.columns, bound.values(), strict=True))
            if layout.by_row and layout.vector > 1:
                last = self.columns[-1]
                self.variables[last] = self.variables[last] + Index.of(LANE_OF_VECTOR)
            emitter.masked = frozenset(self.columns)
            if self.in_place:
                # Threads without a row must not read the last one, which its own threads overwrite.
                emitter.masked |= {i.name for s in phase.statements for i in s.parallel}
                mask = emitter.mask("in_row", (), link, (mask, row_mask))
            stores = any(s.write.array in self.outputs for s in phase.statements)
            store_mask = emitter.mask("writes", (), link, (mask, row_mask)) if stores else None
            options = BlockOptions(
                mask=mask,
                store_mask=store_mask,
                stored=self.outputs - {s.write.array for s in again},
                keep=Keep(self.keep, chunk, layout.chunks),
                dimensions=names,
                accumulators=accumulators,
            )
            evaluate_block(emitter, [*again, *phase.statements], self._place, self.values, options)
            for statement in again:
                self.values.pop(statement.write.array, None)
        emitter.masked = frozenset()
        reductions = [(s, accumulators[s.name]) for s in phase.statements if s.reduction is not None]
        if layout.parts > 1 and reductions:
            self._join_blocks(reductions, names)
        for statement, parts in reductions:
            self._combine(statement, parts, row_mask, names)

    @contextmanager
    def _chunks(self, link: Line) -> Iterator[Index]:
        """The loop over the chunks of a row, in two where it is split into strips.

        What is kept stands in registers by chunk, so that nothing but loops written out can reach it.
        """
        layout, emitter = self.layout, self.emitter
        with emitter.loop("strip", layout.strips, link, unroll=bool(self.keep)) as strip:
            name = "chunk" if layout.strips == 1 else "chunk_of_strip"
            is_unrolled = layout.is_unrolled or bool(self.keep)
            with emitter.loop(name, layout.strip, link, unroll=is_unrolled) as chunk:
                yield emitter.bind("chunk", strip * layout.strip + chunk, link)

    def _join_blocks(self, reductions: Sequence[tuple[Statement, Accumulator]], names: tuple[str, ...]) -> None:
        """Leave the parts of this block; in the last one to come, each thread collects some parts of all blocks."""
        emitter, layout, thread = self.emitter, self.layout, Index.of("thread")
        link = Line(tuple(statement.name for statement, _ in reductions), names)
        place_of_row, elements, beside = thread.floordiv(layout.lanes, emitter.extents), layout.rows_per_block, 1
        if not layout.by_row:
            place_of_row, elements = thread.mod(WARP, emitter.extents) * layout.vector, WARP * layout.vector
            beside = layout.vector
        team = Team(emitter, link, layout.parts, layout.blocks, self.part, self.team)
        told = f"{layout.parts} blocks share a row: each leaves its parts, the last one joins them all"
        emitter.add(Comment(told, link))
        writer = self._one_writer(None, link)
        buffers = []
        for statement, parts in reductions:
            reduction = statement.reduction
            assert reduction is not None
            combine(emitter, statement, parts, self._sharers(), link)
            buffers.append(emitter.register(f"{statement.write.array}_parts_of_blocks", reduction.accumulate))
            team.workspace(buffers[-1], reduction.accumulate, elements)
            team.leave(buffers[-1], place_of_row, beside, _lanes_of(parts.total), writer)
        team.meet()
        for (statement, parts), buffer in zip(reductions, buffers, strict=True):
            reduction = statement.reduction
            assert reduction is not None
            emitter.assign_lanes(parts.total, Literal(reduction.identity, reduction.accumulate), link)
            with emitter.loop("block_of_team", layout.joins, link, unroll=layout.joins <= MOST_JOINS) as turn:
                other = turn * layout.lanes + self.lane
                mask = emitter.mask("has_part_of_block", [Index((), layout.parts - 1) - other], link)
                found = team.take(buffer, other, place_of_row, beside, mask, reduction.identity)
                lane = parts.total.indices[0] if parts.total.indices else Index()
                emitter.assign_lanes(parts.total, found(lane), link, reduction.operation)

    def _sharers(self) -> ReductionThreads:
        layout = self.layout
        beside = 1 if layout.by_row else WARP
        return ReductionThreads(layout.lanes, self.lane, beside, by_row=layout.by_row, vector=layout.vector)

    def _combine(self, statement: Statement, parts: Accumulator, row_mask: str | None, names: tuple[str, ...]) -> None:
        """The parts of all threads of a row become one value that each of them has, written if someone reads it."""
        link, emitter = at(statement, *names), self.emitter
        where = combine(emitter, statement, parts, self._sharers(), link)
        if self.layout.parts > 1:
            where = f"{where}, in each of {self.layout.parts} blocks and in the last of them"
        self.placements[statement.name] = f"{where}: every thread of the row needs the result"
        array = statement.write.array
        self.values[array] = round_result(emitter, statement, parts.total, link)
        if array in self.outputs:
            mask = self._one_writer(row_mask, link)
            if array in self.in_place:
                emitter.add(Barrier(link))
            emitter.store(statement, place(statement, self.nest.outer, self.variables), self.values[array], mask, link)

    def _one_writer(self, row_mask: str | None, link: Line) -> str | None:
        """The mask of the one thread (or warp) of a row that writes the row's values."""
        return self.emitter.mask(self.emitter.fresh("writes_row"), [self.lane * -1], link, (row_mask,))

    def _row_statements(self, phase: Phase, row_mask: str | None) -> None:
        """Statements with one value a row: every thread of the row computes it."""
        link = Line(tuple(s.name for s in phase.statements), ())
        writes = any(s.write.array in self.outputs for s in phase.statements)
        others = [s for s in self.nest.statements if s not in phase.statements]
        read = frozenset(a.array for s in others for a in s.reads())
        options = BlockOptions(
            keep=Keep(read & {s.write.array for s in phase.statements}, Index(), 1),
            store_mask=self._one_writer(row_mask, link) if writes else None,
            stored=self.outputs,
            lanes=not self.layout.by_row,
            fence=any(s.write.array in self.in_place for s in phase.statements),
        )
        evaluate_block(self.emitter, phase.statements, self._place, self.values, options)
        for statement in phase.statements:
            self.placements[statement.name] = "register: each thread of the row computes it again"


def _lanes_of(total: Access) -> Lanes:
    """One of the neighbouring results that a thread holds; the only one where it is no vector."""
    return lambda v: Access(total.array, (v,) if total.indices else ())


def _statements_needed(statements: Sequence[Statement], earlier: Sequence[Statement]) -> list[Statement]:
    """The element-wise statements of earlier loops whose results are used here and were not kept."""
    wanted = {a.array for s in statements for a in s.reads()}
    found: list[Statement] = []
    for statement in reversed(earlier):
        if statement.write.array in wanted and statement not in found:
            found.append(statement)
            wanted |= {a.array for a in statement.reads()}
    return found[::-1]
