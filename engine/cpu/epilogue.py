"""C++ of what follows the sums of a tile: the statements after a product, on whole vectors of columns, or of rows where
these are neighbours in memory: a tile's sums are turned around before."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from engine.cpu.instructions import SIGN
from engine.cpu.panels import PanelText, SideText
from engine.cpu.text import element, held_type, round_text
from engine.graph.nodes import DTYPES
from engine.tensor.index import Index, delinearize, linear
from engine.tensor.nodes import Access, Statement
from engine.tensor.nodes import Iterator as Loop
from engine.tile.emit import at
from engine.tile.nodes.expressions import index_text

LANE = "lane"
LINE = 16
"""Rows of a turned tile: as many as a tile may have."""


@dataclass(frozen=True, slots=True)
class _LaneRun:
    """Neighbouring columns (rows, of a turned tile): of one row of an image, or of all of it."""

    where: Mapping[str, Index]
    """Their loops -> values at a lane."""
    count: str
    offset: str
    """Of the first one in the tile: "run - n0 + ", or ""."""


class EpilogueText(PanelText):
    """Writes the function that finishes a tile."""

    @property
    def sum_type(self) -> str:
        """Of the sums."""
        return "float" if self.product.instruction.sums == "float32" else "int"

    def finish_function(self, arguments: list[str]) -> None:
        """The statements after the sum, for each row and column of a tile."""
        text, is_turned = self.text, self.product.is_turned
        text.add("// What follows the sums of a tile.")
        text.add("template <int HEIGHT, int WIDTH>")
        self.extents |= {"m0": self.product.rows.size, "n0": self.product.columns.count}
        with text.block(f"static NOT_INLINE void finish({', '.join(arguments)})", self.link), text.scope():
            if is_turned:
                text.add(f"alignas(64) {self.sum_type} turned[COLUMNS * {LINE}];", self.link)
                text.add(f"turn<HEIGHT, WIDTH, {LINE}>(found, COLUMNS, turned);", self.link)
            is_flat = self._joined == len(self._lane_side.side.loops)
            if is_turned or not is_flat or self.columns.side.size % self.machine.lanes:
                text.add("const int width = n0 + WIDTH * LANES < N ? WIDTH * LANES : int(N - n0);", self.link)
            if is_flat:
                lanes = self._flat_lanes()
                with self._lines() as lines:
                    self._lanes(lines, lanes)
            else:
                full = "HEIGHT" if is_turned else "width"
                text.add(f"const i64 end = {self._lane_side.first} + {full};", self.link)
                with self._image_rows() as lanes, self._lines() as lines:
                    self._lanes(lines, lanes)
        text.add("")

    def fetch_function(self, arguments: list[str]) -> None:
        """Brings what the statements after the sums read to the first cache, while the sums are made."""
        text = self.text
        text.add("// Fetches what is read after the sums of a tile.")
        text.add("template <int HEIGHT, int WIDTH>")
        with text.block(f"static LOOM void fetch({', '.join(arguments)})", self.link), text.scope():
            lanes = self._flat_lanes()
            with self._lines() as lines:
                where = {**{i.name: Index.of(i.name) for i in self.product.batch}, **lines, **lanes.where}
                for statement, access in self.fetched:
                    place = self._first_of_line(statement, access, where)
                    with text.block("for (int first = 0; first < WIDTH * LANES; first += LANES)", self.link):
                        text.add(f"__builtin_prefetch(&{place});", self.link)
        text.add("")

    @property
    def fetched(self) -> list[tuple[Statement, Access]]:
        """Large arrays that are read as results are written, along the lanes: they come from far, and only once."""
        product, near = self.product, self.machine.l1_bytes.value
        if product.is_turned or self._joined != len(product.columns.loops):
            return []
        results, inner = product.rows.size * product.columns.size, product.columns.loops[-1].name
        found: dict[str, tuple[Statement, Access]] = {}
        for statement, access in self._accesses():
            array = self.program.arrays[access.array]
            if access == statement.write or access.guards or array.elements < results or array.bytes <= near:
                continue
            position = linear(access.indices, array.shape)
            own = [name for name, other in product.iterators[statement.name].items() if other == inner]
            if position.is_affine and [position.coefficient(name) for name in own] == [1]:
                found.setdefault(access.array, (statement, access))
        return list(found.values())

    @property
    def _lane_side(self) -> SideText:
        """The side that lanes walk."""
        return self.rows if self.product.is_turned else self.columns

    def _flat_lanes(self) -> _LaneRun:
        """All columns (rows) of the tile are neighbours, in every array."""
        lanes = self._lane_side
        side, flat = lanes.side, Index.of(lanes.first) + Index.of(LANE)
        self.extents[LANE] = lanes.lanes
        count = "HEIGHT" if lanes is self.rows else "width" if side.size % self.machine.lanes else "WIDTH * LANES"
        if len(side.loops) == 1:
            return _LaneRun({side.loops[0].name: flat}, count, "")
        return _LaneRun(self._joined_values(side.loops, lanes.first), count, "")

    def _joined_values(self, loops: Sequence[Loop], start: str) -> dict[str, Index]:
        """Values of loops for which one variable, `column`, stands while they are joined.  start: its first one."""
        self.text.add(f"const i64 start = {start};", self.link)
        shape = tuple(i.extent for i in loops)
        self.extents["column"] = math.prod(shape)
        indices = delinearize(Index.of("column"), shape, self.extents)
        return {loop.name: index for loop, index in zip(loops, indices, strict=True)}

    @contextmanager
    def _lines(self) -> Iterator[Mapping[str, Index]]:
        """Loops of the other side -> their values, in a loop over the rows (columns) of a tile."""
        other, size = (self.columns, "width") if self.product.is_turned else (self.rows, "HEIGHT")
        self.extents["at_line"] = other.side.size
        with self.text.block(f"for (int line = 0; line < {size}; ++line)", self.link):
            self.text.add(f"const i64 at_line = {other.first} + line;", self.link)
            shape = tuple(i.extent for i in other.side.loops)
            indices = delinearize(Index.of("at_line"), shape, self.extents)
            yield {loop.name: index for loop, index in zip(other.side.loops, indices, strict=True)}

    @contextmanager
    def _image_rows(self) -> Iterator[_LaneRun]:
        """Runs of columns (rows) that are neighbours in an image; what staging put between two rows is left out."""
        text, lanes = self.text, self._lane_side
        own = lanes.side.loops
        virtual = lanes.side.staging.loops if lanes.side.staging else own
        if self._joined > 1:
            outer, inner = own[: -self._joined], own[-self._joined :]
            joined = Loop("joined", math.prod(i.extent for i in inner))
            with self.runs((*outer, joined), lanes.first) as (where, count, offset):
                start = index_text(where.pop("joined") + Index.of(LANE) * -1)
                yield _LaneRun({**where, **self._joined_values(inner, start)}, count, offset)
            return
        with self.runs(virtual, lanes.first) as (where, count, offset):
            last, real = virtual[-1], own[-1].extent
            if real < last.extent:
                begin = index_text(where[last.name] + Index.of(LANE) * -1)
                text.add(f"const i64 valid = {real} - {begin} < count ? {real} - {begin} : count;", self.link)
                count = "int(valid)"
                self.extents[LANE] = real
            for n, loop in enumerate(own[:-1]):
                if n and loop.extent < virtual[n].extent:
                    text.add(f"if ({index_text(where[loop.name])} >= {loop.extent}) continue;", self.link)
            yield _LaneRun(where, count, offset)

    @property
    def _joined(self) -> int:
        """How many of the inner loops of the lanes' side are one row of neighbours, in every array; at least 1."""
        side = self._lane_side.side
        is_whole = side.staging is None or side.staging.loops == side.loops
        for count in range(len(side.loops) if is_whole else 1, 1, -1):
            names = {loop.name for loop in side.loops[-count:]}
            places = (
                (linear(access.indices, self.program.arrays[access.array].shape), self._names(statement, names))
                for statement, access in self._accesses()
            )
            if all(_is_joined(position, own) for position, own in places):
                return count
        return 1

    def _names(self, statement: Statement, names: Collection[str]) -> list[tuple[str, int]]:
        """Some loops of the lanes in a statement's own names, with their extents."""
        own = {other: name for name, other in self.product.iterators[statement.name].items()}
        return [(own[i.name], i.extent) for i in self._lane_side.side.loops if i.name in own and i.name in names]

    def _accesses(self) -> Iterator[tuple[Statement, Access]]:
        """What the statements read and write of the kernel's buffers."""
        product, made = self.product, {s.write.array for s in (self.product.anchor, *self.product.after)}
        for statement in (product.anchor, *product.after):
            reads = () if statement is product.anchor else statement.reads()
            yield from ((statement, access) for access in reads if access.array not in made)
            if statement.write.array in self.program.outputs:
                yield statement, statement.write

    # The lanes of a row

    def _lanes(self, lines: Mapping[str, Index], columns: _LaneRun) -> None:
        """The statements for some neighbouring columns of a row: whole vectors, the last of which is cut."""
        text = self.text
        where = {**{i.name: Index.of(i.name) for i in self.product.batch}, **lines, **columns.where}
        reads = self._line_reads(where)
        if reads is None or (columns.count == "WIDTH * LANES" and not self._writes_codes):
            text.pragma("omp simd", self.link)
            with text.block(f"for (int {LANE} = 0; {LANE} < {columns.count}; ++{LANE})", self.link):
                self._statements(where, self._total(f"{columns.offset}{LANE}"), {}, {})
            return
        with text.block(f"for (int first = 0; first < {columns.count}; first += LANES)", self.link):
            text.add(f"const int left = {columns.count} - first;", self.link)
            taken = {}
            for array, place in reads.items():
                kind, taken[array] = _line_type(self.program.arrays[array].dtype), text.name(f"{array}_line")
                text.add(f"alignas(64) {kind} {taken[array]}[LANES];", self.link)
                text.add(f"take({taken[array]}, &{place}, left);", self.link)
            stores = {}
            for statement, access in self._accesses():
                if access == statement.write:
                    array = access.array
                    kind, stores[array] = _line_type(self.program.arrays[array].dtype), text.name(f"{array}_line")
                    text.add(f"alignas(64) {kind} {stores[array]}[LANES];", self.link)
            text.pragma("omp simd", self.link)
            with text.block(f"for (int {LANE} = 0; {LANE} < LANES; ++{LANE})", self.link):
                read = {array: f"{name}[{LANE}]" for array, name in taken.items()}
                self.extents["first"] = self.width
                lane = {LANE: Index.of("first") + Index.of(LANE)}  # conditions ask which column it is
                here = {name: index.substitute(lane, self.extents) for name, index in where.items()}
                self._statements(here, self._total(f"{columns.offset}first + {LANE}"), read, stores)
            for statement, access in self._accesses():
                if access == statement.write:
                    place = self._first_of_line(statement, access, where)
                    text.add(f"put(&{place}, {stores[access.array]}, left);", self.link)

    @property
    def _writes_codes(self) -> bool:
        """Whether results have fewer bits than variables: the compiler makes short vectors of loops over both."""
        return any(DTYPES[self.program.arrays[name].dtype] < 4 for name in self.program.outputs)

    def _total(self, column: str) -> str:
        """The sum of a column of the present row (of a row of the present column)."""
        is_turned = self.product.is_turned
        total = f"turned[line * {LINE} + {column}]" if is_turned else f"found[line * COLUMNS + {column}]"
        return f"({total} - {SIGN} * row_sums[{column if is_turned else 'line'}])" if self.shifts else total

    def _line_reads(self, where: Mapping[str, Index]) -> dict[str, str] | None:
        """Array -> the element of the first lane, of arrays that are read along the lanes; None where an array is not
        read or written as it lies."""
        found: dict[str, str] = {}
        for statement, access in self._accesses():
            position = self._position_of(statement, access, where)
            step = sum(position.coefficient(name) for name in (LANE, "column"))
            if any(name in _inside_divisions(position) for name in (LANE, "column")):
                return None
            is_write = access == statement.write
            if step not in (0, 1) or (is_write and step != 1) or access.guards:
                return None
            if step == 1 and not is_write:
                place = self._first_of_line(statement, access, where)
                if found.setdefault(access.array, place) != place:
                    return None
            elif step == 0 and access.array in found:
                return None
        return found

    def _position_of(self, statement: Statement, access: Access, where: Mapping[str, Index]) -> Index:
        own = {name: where[other] for name, other in self.product.iterators[statement.name].items()}
        indices = [self.expressions.index(i, own) for i in access.indices]
        return linear(indices, self.program.arrays[access.array].shape)

    def _first_of_line(self, statement: Statement, access: Access, where: Mapping[str, Index]) -> str:
        """The element at lane `first`."""
        position = self._position_of(statement, access, where)
        begin = {LANE: Index.of("first"), "column": Index.of("start") + Index.of("first")}
        return f"{access.array}[{index_text(position.substitute(begin, {**self.extents, 'first': self.width}))}]"

    def _statements(
        self, where: Mapping[str, Index], total: str, read: Mapping[str, str], stores: Mapping[str, str]
    ) -> None:
        """The sum's own array and the statements after it: variables, and stores of what others need.

        read: array -> the variable that holds its element.  stores: array -> the line that its elements go to.
        """
        text, program, product = self.text, self.program, self.product
        known = dict(read)
        is_column = any("column" in index.iterators() for index in where.values())
        if is_column:
            first = "first + " if stores else ""
            text.add(f"const int column = int(start) + {first}{LANE};")
        for statement in (product.anchor, *product.after):
            link = at(statement)
            own = {name: where[other] for name, other in product.iterators[statement.name].items()}
            array = program.arrays[statement.write.array]
            if statement is product.anchor:
                value = round_text(total, array.dtype)
            else:
                value = self.expressions.value(statement.expression, own, known)
            name = text.name(f"{array.name}_value")
            text.add(f"const {held_type(array.dtype)} {name} = {value};", link)
            known[array.name] = name
            if array.name in program.outputs:
                indices = [self.expressions.index(i, own) for i in statement.write.indices]
                target = element(array.name, array, indices)
                if array.name in stores:
                    target = f"{stores[array.name]}[{LANE}]"
                # A line is cut to its array's type when it is put there.
                text.add(f"{target} = {name if stores else round_text(name, array.dtype)};", link)


def _is_joined(position: Index, loops: list[tuple[str, int]]) -> bool:
    """Whether an array has the columns of several loops as one row of neighbours, or the same element for all."""
    steps = [position.coefficient(name) for name, _ in loops]
    if any(name in _inside_divisions(position) for name, _ in loops):
        return False
    return all(a == b * size for a, b, (_, size) in zip(steps, steps[1:], loops[1:], strict=False))


def _inside_divisions(position: Index) -> set[str]:
    """The variables that divisions and look-ups of an index depend on."""
    return {name for atom, _ in position.terms if not isinstance(atom, str) for name in Index.of(atom).iterators()}


def _line_type(dtype: str) -> str:
    """The type of a line: as wide as variables are, but for conditions."""
    return "int" if dtype == "bool" else held_type(dtype)
