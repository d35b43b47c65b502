"""Blocked contractions on CUDA cores: tiles in shared memory, filled by pipelined asynchronous copies.

    y[i,j] = sum(k) a[i,k] * b[k,j]

A block owns a tile of rows (iterators only `a` has) and columns (iterators only `b` has); shared ones are batches.
With S stages the copy of tile t + S - 1 is under way while tile t is used; one barrier a tile separates them: it comes
after the wait, so everyone's copies have landed, and it proves that everyone has left the stage to be filled next
(research: the multistage main loop of Ampere).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.codegen.block import evaluate_block
from engine.codegen.elementwise import bind_members, place
from engine.codegen.emit import LANE_OF_VECTOR, Emitter, at
from engine.codegen.marks import Marks, power_up_to, up_to
from engine.codegen.nest import Nest, Phase, without_loops
from engine.codegen.nodes import Line
from engine.codegen.operand import Operand, Side, choose_operand, copy_tile, fragment_elements, load_fragment
from engine.codegen.tile import Barrier, Comment, Commit, Slot, TileProgram, Wait
from engine.errors import Unsupported
from engine.fuse.nodes import FusionGroup
from engine.fuse.shape import is_contraction, product_operands
from engine.schedule.nodes import Member
from engine.tensor.access import vector_limit
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal, Scalar, Statement
from engine.tensor.rewrite import plain_iterator, rewrite_scalar

MAX_STAGES = 3
MAX_THREADS = 1024
REFUSED = {
    "split": "a contraction splits its loops by block, thread and tile: ask for those",
    "unroll": "loops inside a tile are always written out, the loop over tiles never",
    "vector": "copies and fragments are as wide as alignment and the tile allow",
    "lane": "the threads of a block share a tile, not a row",
    "warp": "the threads of a block share a tile, not a column",
}
"""Marks that a contraction has no use for, and why."""


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Sizes of the main loop."""

    block: tuple[int, int]
    """Rows and columns of a block's tile."""
    thread: tuple[int, int]
    """Rows and columns of a thread's tile."""
    depth: int
    """Reduced elements of one shared-memory tile."""
    stages: int

    @property
    def threads(self) -> int:
        return math.prod(b // t for b, t in zip(self.block, self.thread, strict=True))


def lower_contraction(group: FusionGroup, nest: Nest, marks: Marks) -> TileProgram:
    """One kernel for a contraction and the element-wise statements after it."""
    return _Contraction(group, nest, marks).lower()


class _Contraction:
    def __init__(self, group: FusionGroup, nest: Nest, marks: Marks) -> None:
        self.group, self.nest, self.program = group, nest, group.program
        self.loop, self.statement = self._heart()
        without_loops(nest, [s for s in nest.statements if s is not self.statement])
        self.batch, *self.free = self._sides()
        marks.refuse(REFUSED)
        self.tiles = self._tiles(marks)
        self.size = tuple(math.prod(m.extent for m in members) for members in self.free)
        self.depth = math.prod(m.extent for m in self.loop.members)
        self.counts = tuple(-(-s // b) for s, b in zip(self.size, self.tiles.block, strict=True))
        self.steps = -(-self.depth // self.tiles.depth)
        blocks = math.prod(m.extent for m in self.batch) * math.prod(self.counts)
        self.emitter = Emitter(self.program, blocks, self.tiles.threads)
        self.names = tuple(m.name for m in nest.outer)

    # What is what

    def _heart(self) -> tuple[Phase, Statement]:
        for phase in self.nest.phases:
            for statement in phase.statements:
                if is_contraction(statement) and phase.members:
                    return phase, statement
        raise Unsupported("codegen", self.program.name, "the schedule has no loop for the contraction to reduce over")

    def _sides(self) -> tuple[tuple[Member, ...], tuple[Member, ...], tuple[Member, ...]]:
        """Outer dimensions that are batches, rows (first factor only) and columns (second factor only)."""
        factors = product_operands(self.statement.expression)
        assert factors is not None
        self.access = tuple(_wide_access(f, self.statement) for f in factors)
        used = [{n for i in a.indices for n in i.iterators()} for a in self.access]
        batch: list[Member] = []
        sides: tuple[list[Member], list[Member]] = ([], [])
        for member in self.nest.outer:
            name = plain_iterator(member.rows[self.statement.name])
            if name in used[0] and name not in used[1]:
                sides[0].append(member)
            elif name in used[1] and name not in used[0]:
                sides[1].append(member)
            else:
                batch.append(member)
        return tuple(batch), tuple(sides[0]), tuple(sides[1])

    def _tiles(self, marks: Marks) -> _Tiles:
        """What the marks ask for, with as many threads as a block may have and every thread a share of the copies."""
        blocks, threads = [], []
        for members in self.free:
            block = _power(marks, "block", 64, 128, members)
            blocks.append(block)
            threads.append(_power(marks, "thread", 4, min(8, block), members))
        depth = _power(marks, "tile", 16, 64, self.loop.members)
        stages = marks.number(
            "stages", 2, up_to(MAX_STAGES), f"up to {MAX_STAGES} stages", self.loop.members
        )
        while math.prod(b // t for b, t in zip(blocks, threads, strict=True)) > min(MAX_THREADS, depth * min(blocks)):
            side = 0 if blocks[0] // threads[0] >= blocks[1] // threads[1] else 1
            threads[side] *= 2
            because = "with fewer, more threads than copies or than a block has"
            marks.changed("thread", threads[side], because, self.free[side])
        return _Tiles((blocks[0], blocks[1]), (threads[0], threads[1]), depth, stages)

    # Lowering

    def lower(self) -> TileProgram:
        """The tile program: prologue, main loop, epilogue."""
        emitter, tiles = self.emitter, self.tiles
        self._bind_block()
        sides = tuple(
            Side(
                name=self.access[n].array,
                members=self.free[n],
                tile=tiles.block[n],
                owned=tiles.thread[n],
                size=self.size[n],
                start=self.start[n],
                slot=self.slot[n],
            )
            for n in (0, 1)
        )
        batch = place(self.statement, self.batch, self.batch_variables)
        self.step = min(tiles.depth, *(fragment_elements(self.program.arrays[a.array].dtype) for a in self.access))
        operands = tuple(
            choose_operand(
                emitter, self.statement, self.access[n], sides[n], batch, self.loop.members, tiles.depth, tiles.stages,
                self.step,
            )
            for n in (0, 1)
        )  # fmt: skip
        self.accumulator = emitter.register("acc", "float32", tiles.thread)
        emitter.declare(self.accumulator, Literal(0.0, "float32"))
        self._main_loop(operands)
        self._epilogue(sides, operands)
        accumulated = f"{tiles.thread[0]} x {tiles.thread[1]} registers of a thread: its part of the tile"
        placements = {s.name: "register: the thread that holds the element uses it" for s in self.program.statements}
        return emitter.finish(
            self.group,
            constants={
                "ROWS": self.size[0], "COLUMNS": self.size[1], "DEPTH": self.depth, "TILE_ROWS": tiles.block[0],
                "TILE_COLUMNS": tiles.block[1], "TILE_DEPTH": tiles.depth, "STAGES": tiles.stages,
                "OWNED": math.prod(tiles.thread),
            },
            assertions=(("THREADS * OWNED == TILE_ROWS * TILE_COLUMNS", "the threads own the tile exactly"),),
            placements=placements | {self.statement.name: accumulated},
            stages=tiles.stages,
            sequential=tuple(m.name for m in self.loop.members if m.parallel),
        )  # fmt: skip

    def _bind_block(self) -> None:
        """Which tile this block makes, and which part of it this thread owns."""
        emitter, tiles = self.emitter, self.tiles
        link = Line((self.statement.name,), self.names)
        block, thread = Index.of("block"), Index.of("thread")
        columns, rows = self.counts[1], self.counts[0]
        tile_row = emitter.bind("tile_row", block.floordiv(columns, emitter.extents).mod(rows, emitter.extents), link)
        tile_column = emitter.bind("tile_column", block.mod(columns, emitter.extents), link)
        self.start = (tile_row * tiles.block[0], tile_column * tiles.block[1])
        across = tiles.block[1] // tiles.thread[1]
        self.slot = (
            emitter.bind("thread_row", thread.floordiv(across, emitter.extents), link),
            emitter.bind("thread_column", thread.mod(across, emitter.extents), link),
        )
        flat = block.floordiv(columns * rows, emitter.extents)
        shape = tuple(m.extent for m in self.batch)
        variables = bind_members(emitter, self.batch, flat, shape) if shape else {}
        self.batch_variables = variables

    def _main_loop(self, operands: tuple[Operand, ...]) -> None:
        """Copies ahead by stages - 1 tiles, one wait and one barrier a tile."""
        emitter, tiles = self.emitter, self.tiles
        names = tuple(m.name for m in self.loop.members)
        link = at(self.statement, *names)
        ahead = tiles.stages - 1
        emitter.add(Comment(_pipeline_text(tiles.stages, any(o.is_async for o in operands)), link))
        if tiles.stages > 1:
            with emitter.loop("ahead", ahead, link, unroll=True) as tile:
                self._copy(operands, tile, tile)
        with emitter.loop("tile", self.steps, link, unroll=False) as tile:
            if tiles.stages == 1:
                self._copy(operands, tile, Index())
                emitter.add(Wait(0, link))
                emitter.add(Barrier(link))
                self._multiply(operands, Index())
                emitter.add(Barrier(link))
            else:
                emitter.add(Wait(tiles.stages - 2, link))
                emitter.add(Barrier(link))
                self._copy(operands, tile + ahead, (tile + ahead).mod(tiles.stages, emitter.extents))
                self._multiply(operands, tile.mod(tiles.stages, emitter.extents))
        if tiles.stages > 1:
            emitter.add(Wait(0, link))

    def _copy(self, operands: tuple[Operand, ...], tile: Index, stage: Index) -> None:
        names = tuple(m.name for m in self.loop.members)
        for operand in operands:
            copy_tile(self.emitter, operand, tile, stage, at(self.statement, *names))
        self.emitter.add(Commit(at(self.statement, *names)))

    def _multiply(self, operands: tuple[Operand, ...], stage: Index) -> None:
        """Outer products of the fragments of one tile."""
        emitter, tiles = self.emitter, self.tiles
        names = tuple(m.name for m in self.loop.members)
        link = at(self.statement, *names)
        step = self.step if any(o.depth_inner for o in operands) else 1
        with emitter.loop("depth", tiles.depth // step, link, unroll=True) as depth:
            for operand in operands:
                load_fragment(emitter, operand, stage, depth * step, step, link)
            loops = (("q", step), ("r", tiles.thread[0]), ("s", tiles.thread[1]))
            with emitter.loop(*loops[0], link) as q, emitter.loop(*loops[1], link) as r, emitter.loop(
                *loops[2], link
            ) as s:
                emitter.assign(Slot(self.accumulator, (r, s)), self._term(operands, (r, s), q), link, "sum")

    def _term(self, operands: tuple[Operand, ...], owned: tuple[Index, Index], q: Index) -> Scalar:
        """The product over fragments: the statement's expression with its two wide reads replaced."""
        replaced = {id_of(o.access): o.element(o_index, q) for o, o_index in zip(operands, owned, strict=True)}

        def read(access: Access) -> Scalar:
            if id_of(access) in replaced:
                return replaced[id_of(access)]
            return self.emitter.read(access, {}, at(self.statement))

        return rewrite_scalar(self.statement.expression, {}, read, self.statement.extents)

    def _epilogue(self, sides: tuple[Side, ...], operands: tuple[Operand, ...]) -> None:
        """Round the sums, run the statements after the contraction, store."""
        emitter, tiles = self.emitter, self.tiles
        after = [s for s in self.nest.statements if s is not self.statement]
        link = Line(tuple(s.name for s in (self.statement, *after)), self.names)
        vector = min(operands[1].run, self._vector_limit(after))
        emitter.vector = vector
        emitter.extents[LANE_OF_VECTOR] = vector
        with emitter.loop("r", tiles.thread[0], link) as r, emitter.loop("s", tiles.thread[1] // vector, link) as s:
            row = emitter.bind("row", sides[0].owned_at(r, operands[0].run, emitter.extents), link)
            column = emitter.bind("column", sides[1].owned_at(s * vector, operands[1].run, emitter.extents), link)
            inside = emitter.mask(
                "inside", [Index((), self.size[0] - 1) - row, Index((), self.size[1] - vector) - column], link
            )
            if inside:
                emitter.extents |= {"row": self.size[0], "column": self.size[1]}
            variables = dict(self.batch_variables)
            for members, flat in zip(self.free, (row, column), strict=True):
                variables |= bind_members(emitter, members, flat, tuple(m.extent for m in members))
            if vector > 1 and self.free[1]:
                last = self.free[1][-1].name
                variables[last] = variables[last] + Index.of(LANE_OF_VECTOR)
            self._finish(after, variables, r, s, vector, inside)

    def _vector_limit(self, after: list[Statement]) -> int:
        """Neighbouring results that the epilogue can read and write at once."""
        along = self.free[1][-1].rows
        runs = {s.name: (name,) for s in (self.statement, *after) if (name := plain_iterator(along[s.name]))}
        outside = {a: self.program.arrays[a] for a in (*self.program.inputs, *self.program.outputs)}
        heart = _result_of(self.statement, Literal(0.0, "float32"))
        return vector_limit([heart, *after], outside, runs)

    def _finish(
        self, after: list[Statement], variables: dict[str, Index], r: Index, s: Index, vector: int, inside: str | None
    ) -> None:
        emitter = self.emitter
        lane = Index.of(LANE_OF_VECTOR) if vector > 1 else Index()
        total = Access(self.accumulator, (r, s * vector + lane))
        array = self.program.arrays[self.statement.write.array]
        heart = _result_of(self.statement, Apply("cast", (total,), array.dtype))
        emitter.masked = frozenset(i.name for st in (self.statement, *after) for i in st.parallel)
        evaluate_block(
            emitter,
            [heart, *after],
            lambda st: place(st, self.nest.outer, variables),
            {self.accumulator: total},
            mask=inside,
            store_mask=inside,
            stored=frozenset(self.program.outputs),
            dimensions=self.names,
        )


def _pipeline_text(stages: int, is_async: bool) -> str:
    """The pipeline in a line, for the reader of the CUDA text."""
    copies = "cp.async" if is_async else "a plain copy (no aligned vectors)"
    if stages == 1:
        return f"one stage: {copies} fills the tile, then the block uses it"
    return f"{stages} stages: {copies} fills tile t + {stages - 1} while tile t is used"


def _power(marks: Marks, name: str, default: int, limit: int, members: tuple[Member, ...]) -> int:
    """A mark's number as a power of two."""
    return marks.number(name, default, power_up_to(limit), f"a power of two up to {limit}", members)


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


def _result_of(statement: Statement, value: Scalar) -> Statement:
    """The contraction as an element-wise statement over its finished sum."""
    return Statement(
        statement.name, statement.operator, statement.parallel, statement.write, value, None, statement.guards
    )
