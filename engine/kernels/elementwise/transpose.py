"""Element-wise kernels that read an array across the direction in which they write: a tile in shared memory.

    y[i,j] = x[j,i]     a thread reads 8 rows of 8 neighbours of x, turns them in its registers, and stores the columns
                        to a tile in the order of y; behind a barrier all threads write its rows, 8 neighbours at once

Where one side allows no vectors, rows or columns are single elements there; where neither does, nothing is turned in
registers.  Groups of the tile's rows are moved apart, so that the columns that threads store lie in different banks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from engine.fusion.nodes import FusionGroup
from engine.kernels.elementwise.lower import bind_members, place
from engine.kernels.elementwise.tiles import TransposeConfig, Turned, read_config, turned_reads
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks
from engine.kernels.statement_block import BlockOptions, evaluate_block
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Statement
from engine.tensor.rewrite import rewrite_reads
from engine.tile.emit import LANE_OF_VECTOR, Emitter, at
from engine.tile.nodes import Barrier, Load, Slot, Store, TileProgram, TurnRows
from engine.tile.source import Line


def lower_transpose(group: FusionGroup, nest: Nest, marks: Marks) -> TileProgram:
    """One kernel with a shared tile for each turned read; every other read is direct."""
    turned = turned_reads(group.program, nest)
    assert turned is not None, f"{group.name} has no read to turn"
    config = read_config(group.program, nest, turned, marks)
    return marks.describe(_Transpose(group, nest, turned, config).emit(), config)


class _Transpose:
    def __init__(self, group: FusionGroup, nest: Nest, turned: Turned, config: TransposeConfig) -> None:
        self.config = config
        self.group, self.nest, self.program = group, nest, group.program
        self.reads, self.across, self.last = turned.reads, turned.across, nest.outer[-1]
        self.others = tuple(m for m in nest.outer if m not in (self.last, self.across))
        self.counts = (-(-self.across.extent // config.edge), -(-self.last.extent // config.edge))
        grid = math.prod(m.extent for m in self.others) * math.prod(self.counts)
        self.emitter = Emitter(group.program, grid, config.threads)
        self.emitter.vector = config.write
        self.emitter.extents[LANE_OF_VECTOR] = config.write
        self.names = tuple(m.name for m in nest.outer)
        self.link = Line(tuple(dict.fromkeys(s.name for s in self.reads.values())), self.names)
        self.tiles = self._tiles()

    def emit(self) -> TileProgram:
        """Read tiles along their rows, turn them, meet, write along the rows of the result."""
        emitter, config = self.emitter, self.config
        self._bind_block()
        self._fill()
        emitter.add(Barrier(self.link))
        with self._vector_of_result() as inside:
            self._evaluate(inside)
        kept = "register: the same thread makes and writes it"
        in_tile = f"shared memory: {{}} is read along {self.across.name} and written along {self.last.name}"
        constants = {
            "TILE": config.edge, "READ": config.read, "WRITE": config.write, "TURNS": config.blocks_of_thread,
            "ACROSS": self.across.extent, "ALONG": self.last.extent,
        }  # fmt: skip
        return emitter.finish(
            self.group,
            constants=constants,
            assertions=(("TILE * TILE == TURNS * THREADS * READ * WRITE", "every element of the tile has a thread"),),
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
            self.emitter.buffers[name] = self.config.tile(name, dtype)
            found[access] = name
        return found

    def _bind_block(self) -> None:
        """Which tile this block turns."""
        emitter, link = self.emitter, self.link
        block = Index.of("block")
        rows, columns = self.counts
        across = block.floordiv(columns, emitter.extents).mod(rows, emitter.extents)
        self.tile_across = emitter.bind("tile_across", across, link)
        self.tile_last = emitter.bind("tile_last", block.mod(columns, emitter.extents), link)
        flat = block.floordiv(rows * columns, emitter.extents)
        self.batch = bind_members(emitter, self.others, flat)

    def _fill(self) -> None:
        """Each thread turns blocks of `write` rows of `read` neighbours of every turned read into its tile."""
        emitter, config, link = self.emitter, self.config, self.link
        thread, beside = Index.of("thread"), config.edge // config.read
        column = emitter.bind("column", thread.mod(beside, emitter.extents) * config.read, link)
        group = thread.floordiv(beside, emitter.extents)
        with emitter.loop("turn", config.blocks_of_thread, link) as turn:
            first = (turn * (config.threads // beside) + group) * config.write
            first = emitter.bind("first", first, link)
            for access, reader in self.reads.items():
                self._turn_block(access, reader, first, column)

    def _turn_block(self, access: Access, reader: Statement, first: Index, column: Index) -> None:
        """Rows from `first` on and columns from `column` on of a turned read, as they lie in its array, into its tile.

        A column of the array's tile is a row of the one in shared memory.
        """
        emitter, config, across, last = self.emitter, self.config, self.across, self.last
        link, array = at(reader, *self.names), self.program.arrays[access.array]
        rows = emitter.register(f"{array.name}_rows", array.dtype, (config.write, config.read), is_raw=True)
        emitter.declare(rows)
        emitter.read_from.add(array.name)
        with emitter.loop(f"{array.name}_row", config.write, link) as row:
            variables = self.batch | {
                across.name: emitter.bind(f"{across.name}_read", self.tile_across * config.edge + column, link),
                last.name: emitter.bind(f"{last.name}_read", self.tile_last * config.edge + first + row, link),
            }
            inside = self._inside(variables, config.read, 1)
            source = emitter.position(access, place(reader, self.nest.outer, variables), link)
            emitter.add(Load(_vector(rows, row, config.read), array.name, source, config.read, inside, at=link))
        columns = rows
        if config.read > 1 or config.write > 1:
            columns = emitter.register(f"{array.name}_columns", array.dtype, (config.read, config.write), is_raw=True)
            emitter.declare(columns)
            emitter.add(TurnRows(Slot(columns), Slot(rows), (config.write, config.read), link))
        with emitter.loop(f"{array.name}_column", config.read, link) as row:
            target = config.position(column, row, first, emitter.extents, array.dtype)
            column_of_block = _vector(columns, row, config.write)
            emitter.add(Store(self.tiles[access], target, column_of_block, config.write, None, link))

    @contextmanager
    def _vector_of_result(self) -> Iterator[str | None]:
        """For each vector that a thread writes: its place in the tile, `row` and `column`, and in the `variables`.

        Yields the mask that tells whether it exists.
        """
        emitter, config, link = self.emitter, self.config, self.link
        thread, beside = Index.of("thread"), config.edge // config.write
        lane = emitter.bind("written", thread.mod(beside, emitter.extents) * config.write, link)
        with emitter.loop("step", config.blocks_of_thread * config.read, link) as step:
            group = thread.floordiv(beside, emitter.extents)
            self.row = emitter.bind("row", step * (config.threads // beside) + group, link)
            first = self.batch | {
                self.across.name: emitter.bind(self.across.name, self.tile_across * config.edge + self.row, link),
                self.last.name: emitter.bind(self.last.name, self.tile_last * config.edge + lane, link),
            }
            inside = self._inside(first, 1, config.write)
            self.column = lane + Index.of(LANE_OF_VECTOR) if config.write > 1 else lane
            self.variables = first
            if config.write > 1:
                self.variables = first | {self.last.name: first[self.last.name] + Index.of(LANE_OF_VECTOR)}
            yield inside

    def _inside(self, variables: Mapping[str, Index], along_across: int, along_last: int) -> str | None:
        """The mask that tells whether a vector exists.  Extents are multiples of vectors: it does as a whole."""
        widths = ((self.across, along_across), (self.last, along_last))
        conditions = [Index((), m.extent - width) - variables[m.name] for m, width in widths]
        return self.emitter.mask(self.emitter.fresh("inside"), conditions, self.link)

    def _evaluate(self, inside: str | None) -> None:
        """All statements at one vector of elements; turned reads come from the tiles."""
        emitter, config = self.emitter, self.config
        values: dict[Access, Access] = {}
        lanes = (config.write,) if config.write > 1 else ()
        lane = (Index.of(LANE_OF_VECTOR),) if config.write > 1 else ()
        for access, reader in self.reads.items():
            link, dtype = at(reader, *self.names), self.program.arrays[access.array].dtype
            register = emitter.register(f"{access.array}_turned", dtype, lanes, emitter.is_raw)
            if lanes:
                emitter.declare(register)
            start = self.column.substitute({LANE_OF_VECTOR: Index()}, emitter.extents)
            position = config.position(self.row, Index(), start, emitter.extents, dtype)
            emitter.add(Load(Slot(register), self.tiles[access], position, config.write, None, None, link))
            values[access] = Access(register, lane)
        emitter.masked = frozenset(i.name for s in self.nest.statements for i in s.iterators)
        options = BlockOptions(inside, inside, frozenset(emitter.program.outputs), dimensions=self.names)
        statements = [rewrite_reads(s, partial(self._from_tile, s, values)) for s in self.nest.statements]
        evaluate_block(emitter, statements, self._place, {v.array: v for v in values.values()}, options)

    def _from_tile(self, statement: Statement, values: Mapping[Access, Access], read: Access) -> Access:
        """A read, or the register that holds it: another statement may mean other elements by the same text."""
        if read not in values:
            return read
        used = {n for index in read.indices for n in index.iterators()}
        here, there = self._place(statement), self._place(self.reads[read])
        return Access(values[read].array, ()) if all(here[n] == there[n] for n in used) else read

    def _place(self, statement: Statement) -> dict[str, Index]:
        return place(statement, self.nest.outer, self.variables)


def _vector(register: str, number: Index, width: int) -> Slot:
    """One of several vectors, or its only element."""
    return Slot(register, (number,) if width > 1 else (number, Index()))
