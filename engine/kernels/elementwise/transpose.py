"""Element-wise kernels that read an array across the direction in which they write: a square tile in shared memory.

    y[i,j] = x[j,i]     a 32 x 32 tile of x is read along its rows, and written along the rows of y
The tile's rows are one element longer than 32, so that its columns lie in 32 different banks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from engine.fusion.nodes import FusionGroup
from engine.kernels.elementwise.lower import bind_members, place
from engine.kernels.loop_nest import Nest, without_loops
from engine.kernels.marks import Marks
from engine.kernels.statement_block import BlockOptions, evaluate_block
from engine.scheduling.nodes import Member
from engine.target.hardware import MAX_THREADS
from engine.tensor.access import position, stride
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal, Statement, TensorProgram
from engine.tensor.rewrite import plain_iterator, rewrite_reads
from engine.tile.emit import Emitter, at
from engine.tile.nodes import Barrier, Buffer, KernelConfig, Load, Slot, Store, TileProgram
from engine.tile.source import Line

TILE = 32
ROWS = 8
"""Rows of a tile that a block handles at once, where no mark asks for other threads than 32 x 8."""
REFUSED = {
    "block": f"a block makes one tile of {TILE} x {TILE}",
    "vector": "neighbouring threads move neighbouring elements of a tile, one each, and fill whole sectors",
    "split": f"the tile already splits both of its dimensions by {TILE}",
    "unroll": "the steps of a tile are always written out",
    "stages": "a block has one tile: there is nothing to copy ahead",
    "lane": "no value is shared along a row",
    "warp": "no value is shared down a column",
}
"""Marks that a transposing kernel has no use for, and why."""


@dataclass(frozen=True, slots=True)
class Turned:
    """Reads that are contiguous along another dimension than the last one."""

    across: Member
    """The dimension that they are contiguous along."""
    reads: Mapping[Access, Statement]
    """With the first statement that has each."""


def turned_reads(program: TensorProgram, nest: Nest) -> Turned | None:
    """The reads that a shared tile makes contiguous: all that run along one other dimension, the first read's."""

    def step(access: Access, statement: Statement, member: Member) -> int | None:
        name = plain_iterator(member.rows[statement.name])
        return None if name is None else stride(position(access, program.arrays), name)

    regular = [
        (access, s) for s in nest.statements for access in s.reads()
        if access.array in program.inputs and not access.guards and not any(i.elements() for i in access.indices)
    ]  # fmt: skip
    jumping = [(a, s) for a, s in regular if nest.outer and step(a, s, nest.outer[-1]) not in (0, 1, None)]
    found = [(access, s, m) for access, s in jumping for m in nest.outer[:-1] if step(access, s, m) == 1]
    if not found:
        return None
    across, reads = found[0][2], dict[Access, Statement]()
    for access, statement, member in found:
        if member is across:
            reads.setdefault(access, statement)
    return Turned(across, reads)


@dataclass(frozen=True, slots=True)
class TransposeConfig(KernelConfig):
    """A block turns one tile."""

    threads: int
    """Whole rows of the tile at a time."""


def read_config(nest: Nest, marks: Marks) -> TransposeConfig:
    """The threads that the marks ask for."""
    without_loops(nest, nest.statements)
    marks.refuse(REFUSED)
    marks.number("tile", TILE, lambda asked: TILE, f"tiles of {TILE} x {TILE}")
    return TransposeConfig(marks.power("thread", TILE * ROWS, MAX_THREADS, least=TILE))


def lower_transpose(group: FusionGroup, nest: Nest, marks: Marks) -> TileProgram:
    """One kernel with a shared tile for each turned read; every other read is direct."""
    config = read_config(nest, marks)
    return marks.describe(_Transpose(group, nest, config.threads // TILE).emit(), config)


class _Transpose:
    def __init__(self, group: FusionGroup, nest: Nest, rows: int) -> None:
        """rows: of a tile that the threads of a block handle at once."""
        self.rows = rows
        self.group, self.nest, self.program = group, nest, group.program
        turned = turned_reads(group.program, nest)
        assert turned is not None
        self.reads, self.across, self.last = turned.reads, turned.across, nest.outer[-1]
        self.others = tuple(m for m in nest.outer if m not in (self.last, self.across))
        self.counts = (-(-self.across.extent // TILE), -(-self.last.extent // TILE))
        grid = math.prod(m.extent for m in self.others) * math.prod(self.counts)
        self.emitter = Emitter(group.program, grid, TILE * rows)
        self.names = tuple(m.name for m in nest.outer)
        self.link = Line(tuple(dict.fromkeys(s.name for s in self.reads.values())), self.names)
        self.tiles = self._tiles()

    def emit(self) -> TileProgram:
        """Read tiles along their rows, meet, write along the rows of the result."""
        emitter, across, last = self.emitter, self.across, self.last
        self._bind_block()
        with self._element(f"{across.name}_read", f"{last.name}_read", turn=False) as inside:
            self._fill(inside)
        emitter.add(Barrier(self.link))
        with self._element(across.name, last.name, turn=True) as inside:
            self._evaluate(inside)
        kept = "register: the same thread makes and writes it"
        in_tile = f"shared memory: {{}} is read along {across.name} and written along {last.name}"
        return emitter.finish(
            self.group,
            constants={"TILE": TILE, "ACROSS": across.extent, "ALONG": last.extent},
            assertions=((f"THREADS == TILE * {self.rows}", f"a thread moves {TILE // self.rows} rows of the tile"),),
            placements=dict.fromkeys((s.name for s in self.program.statements), kept)
            | {reader.name: in_tile.format(access.array) for access, reader in self.reads.items()},
        )

    def _tiles(self) -> dict[Access, str]:
        """A buffer in shared memory for every turned read."""
        found: dict[Access, str] = {}
        for access in self.reads:
            number = 1 + sum(other.array == access.array for other in found)
            name = f"{access.array}_tile" + (f"_{number}" if number > 1 else "")
            dtype = self.program.arrays[access.array].dtype
            self.emitter.buffers[name] = Buffer(name, dtype, (TILE * (TILE + 1),), "shared")
            found[access] = name
        return found

    def _bind_block(self) -> None:
        """Which tile this block turns, and the thread's place in it."""
        emitter, link = self.emitter, self.link
        block, thread = Index.of("block"), Index.of("thread")
        rows, columns = self.counts
        self.lane = emitter.bind("lane", thread.mod(TILE, emitter.extents), link)
        self.warp = emitter.bind("warp", thread.floordiv(TILE, emitter.extents), link)
        across = block.floordiv(columns, emitter.extents).mod(rows, emitter.extents)
        self.tile_across = emitter.bind("tile_across", across, link)
        self.tile_last = emitter.bind("tile_last", block.mod(columns, emitter.extents), link)
        flat = block.floordiv(rows * columns, emitter.extents)
        self.batch = bind_members(emitter, self.others, flat)

    @contextmanager
    def _element(self, across: str, last: str, turn: bool) -> Iterator[str | None]:
        """For each element that a thread handles, along the rows of the arrays read or (`turn`) of the result.

        Sets `row`, the row of the tile, and `variables`; yields the mask that tells whether the element exists.
        """
        emitter, link = self.emitter, self.link
        with emitter.loop("step", TILE // self.rows, link) as step:
            self.row = emitter.bind("row", step * self.rows + self.warp, link)
            places = (self.row, self.lane) if turn else (self.lane, self.row)
            self.variables = self.batch | {
                self.across.name: emitter.bind(across, self.tile_across * TILE + places[0], link),
                self.last.name: emitter.bind(last, self.tile_last * TILE + places[1], link),
            }
            conditions = [Index((), m.extent - 1) - self.variables[m.name] for m in (self.across, self.last)]
            yield emitter.mask(emitter.fresh("inside"), conditions, link)

    def _fill(self, inside: str | None) -> None:
        """One element of every turned read into its tile."""
        emitter = self.emitter
        for access, reader in self.reads.items():
            link, dtype = at(reader, *self.names), self.program.arrays[access.array].dtype
            source = emitter.position(access, self._place(reader), link)
            held = emitter.register(f"{access.array}_element", dtype)
            emitter.read_from.add(access.array)
            emitter.add(Load(Slot(held), access.array, source, 1, inside, Literal(0, dtype), link))
            emitter.add(Store(self.tiles[access], self.row * (TILE + 1) + self.lane, Slot(held), 1, None, link))

    def _evaluate(self, inside: str | None) -> None:
        """All statements at one element; turned reads come from the tiles."""
        emitter = self.emitter
        registers: dict[Access, str] = {}
        for access, reader in self.reads.items():
            link, dtype = at(reader, *self.names), self.program.arrays[access.array].dtype
            registers[access] = emitter.register(f"{access.array}_turned", dtype)
            position = self.lane * (TILE + 1) + self.row
            emitter.add(Load(Slot(registers[access]), self.tiles[access], position, 1, None, None, link))
        emitter.masked = frozenset(i.name for s in self.nest.statements for i in s.iterators)
        options = BlockOptions(inside, inside, frozenset(emitter.program.outputs), dimensions=self.names)
        statements = [rewrite_reads(s, partial(self._from_tile, s, registers)) for s in self.nest.statements]
        values = {register: Access(register, ()) for register in registers.values()}
        evaluate_block(emitter, statements, self._place, values, options)

    def _from_tile(self, statement: Statement, registers: Mapping[Access, str], read: Access) -> Access:
        """A read, or the register that holds it: another statement may mean other elements by the same text."""
        if read not in registers:
            return read
        used = {n for index in read.indices for n in index.iterators()}
        here, there = self._place(statement), self._place(self.reads[read])
        return Access(registers[read], ()) if all(here[n] == there[n] for n in used) else read

    def _place(self, statement: Statement) -> dict[str, Index]:
        return place(statement, self.nest.outer, self.variables)
