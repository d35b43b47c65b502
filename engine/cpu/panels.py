"""C++ that brings the factors of a product to panels: words of the depth, each for neighbouring rows or columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from engine.cpu.instructions import BYTES, SIGN, is_shifted
from engine.cpu.product import CpuProduct, ProductSide, is_along_depth
from engine.cpu.ranges import declare_range
from engine.cpu.source import KernelText
from engine.cpu.staging import StagedSide
from engine.cpu.text import Expressions, element, held_type, literal
from engine.cpu.tiles import DIRECT, PACKED, STAGED, ProductConfig, depth_units
from engine.target.cpu import CpuTarget
from engine.tensor.index import Index, delinearize, linear
from engine.tensor.nodes import Access, Apply, Literal, Position, Scalar, accesses, map_leaves
from engine.tensor.nodes import Iterator as Loop
from engine.tile.emit import at
from engine.tile.nodes.expressions import condition_text, index_text, scalar_text

FEW_WORDS = 16 * 1024
"""Words that one thread stages alone."""


@dataclass(frozen=True, slots=True)
class SideText:
    """The words of a side of a product in C++."""

    side: ProductSide
    plural: str
    """"rows" or "columns"."""
    size: str
    width: str
    """Of a tile."""
    count: str
    """Of panels."""
    first: str
    """The first row or column."""
    mode: str
    lanes: int
    """Rows or columns of a tile."""

    @property
    def is_ragged(self) -> bool:
        """Whether the last panel is not full."""
        return bool(self.side.size % self.lanes)


class PanelText:
    """Writes the functions that pack panels."""

    def __init__(self, product: CpuProduct, config: ProductConfig, kernel: KernelText, machine: CpuTarget) -> None:
        self.product, self.config, self.kernel, self.text = product, config, kernel, kernel.text
        self.machine, self.program = machine, product.program
        self.width = config.vectors * machine.lanes
        self.rows = SideText(product.rows, "rows", "M", "ROWS", "TILES", "m0", config.row_mode, config.rows)
        self.columns = SideText(
            product.columns, "columns", "N", "COLUMNS", "PANELS", "n0", config.column_mode, self.width
        )
        self.extents: dict[str, int] = {i.name: i.extent for i in (*product.batch, *product.depth)}
        self.expressions = Expressions(
            self.program.arrays, self.extents, lambda array, at: element(array, self.program.arrays[array], at)
        )
        self.link = at(product.anchor, *(i.name for i in product.anchor.iterators))
        self.shifts = is_shifted(product.instruction, product.columns.dtype)
        self.units, self.each = depth_units(product)
        self.copies_rows = config.row_mode == PACKED and is_along_depth(product)
        """Whether rows are packed as they lie, one after the other."""

    @property
    def is_blocked(self) -> bool:
        """Whether tiles sum the depth in several blocks."""
        return self.config.depth_block < self.units

    def functions(self) -> None:
        """A function for each factor that is not always multiplied where it lies."""
        for side in (self.rows, self.columns):
            is_packed_at_edge = side is self.columns and side.mode == DIRECT and side.is_ragged
            if side.mode not in (DIRECT, STAGED) or is_packed_at_edge:
                if side is self.rows and self.copies_rows:
                    self._copy_rows()
                else:
                    self._pack(side)
        if self.shifts:
            self._sum_rows()

    @contextmanager
    def _pack_function(self, side: SideText, order: str) -> Iterator[dict[str, Index]]:
        """The function that packs a side, with the values of the loops of the batch inside.  order: of its panel."""
        text, what = self.text, side.plural
        arguments = [*self.kernel.parameters(_arrays(side.side)), *(f"i64 {i.name}" for i in self.product.batch)]
        arguments += [f"i64 {side.first}", "i64 unit", "i64 units", "u32* __restrict__ panel"]
        text.add(f"// Words of the {what} from {side.first} on, of depths from `unit` on: panel{order}.")
        with text.block(f"static LOOM void pack_{what}({', '.join(arguments)})", self.link), text.scope():
            yield {i.name: Index.of(i.name) for i in self.product.batch}
        text.add("")

    def _copy_rows(self) -> None:
        """panel[row][word of the depth]."""
        text, side = self.text, self.rows
        with self._pack_function(side, "[row][word]") as batches:
            text.add("const i64 end = m0 + ROWS < M ? m0 + ROWS : M;", self.link)
            with (
                self.runs(side.side.loops, side.first) as (where, count, offset),
                text.block(f"for (int lane = 0; lane < {count}; ++lane)", self.link),
                self.depth_loops() as (word, deep),
            ):
                value = self._word(side.side, side.side.factor, {**batches, **where, **deep})
                text.add(f"panel[({offset}lane) * ROW_WORDS + {word}] = {value};", self.link)

    def _pack(self, side: SideText) -> None:
        """panel[word of the depth][row or column]; what is beyond the matrix is 0."""
        text, own = self.text, side.side
        with self._pack_function(side, f"[word][{side.plural[:-1]}]") as batches:
            full = f"{side.first} + {side.width}"
            if side.is_ragged:
                text.add(f"if ({full} > {side.size})", self.link)
                text.add(f"    for (i64 at = 0; at < (units - unit) * UNIT_WORDS * {side.width}; ++at) panel[at] = 0;")
                full = f"{full} < {side.size} ? {full} : {side.size}"
            text.add(f"const i64 end = {full};", self.link)
            with self.runs(own.loops, side.first) as (where, count, offset), self.depth_loops() as (word, deep):
                target = f"panel[({word}) * {side.width} + {offset}lane]"
                self._pack_run(own, {**batches, **where, **deep}, count, target)

    def _pack_run(self, side: ProductSide, where: Mapping[str, Index], count: str, target: str) -> None:
        """The words of neighbouring rows or columns: those beyond the edges of an array apart from those inside."""
        text, link = self.text, self.link
        guarded = {access for access in accesses(side.factor) if access.guards}
        inside, parts = None, [("0", count, side.factor)]
        last = self.product.depth[-1]
        if len(guarded) == 1 and self._is_same_in_word(next(iter(guarded)), last.name):
            (access,) = guarded
            guards = [self.expressions.index(g.index, where) for g in access.guards]
            inside = declare_range(text, guards, "lane", count, self.extents, link)
            padding = access.otherwise or Literal(0, self.program.arrays[access.array].dtype)
            outside = map_leaves(side.factor, lambda leaf: padding if leaf == access else leaf)
            plain = map_leaves(side.factor, lambda leaf: replace(access, guards=()) if leaf == access else leaf)
        if inside is not None:
            begin, end = inside.begin, inside.end
            parts = [("0", begin, outside), (begin, end, plain), (f"fn_max({begin}, {end})", count, outside)]
        for first, end, factor in parts:
            text.pragma("omp simd", link)
            with text.block(f"for (int lane = {first}; lane < {end}; ++lane)", link):
                text.add(f"{target} = {self._word(side, factor, where)};", link)

    def _is_same_in_word(self, access: Access, last: str) -> bool:
        """Whether all depths of a word are inside an array, or none."""
        if self.product.instruction.depth == 1:
            return True
        return not any(last in guard.index.iterators() for guard in access.guards)

    @contextmanager
    def runs(self, loops: Sequence[Loop], first: str) -> Iterator[tuple[dict[str, Index], str, str]]:
        """(values of a side's loops, how many neighbours there are, where they begin in the panel) in loops over runs
        of neighbours: values of the last loop at one value of the others."""
        text, last = self.text, loops[-1]
        self.extents["lane"] = last.extent
        if len(loops) == 1:
            self.extents[first] = last.extent
            yield {last.name: Index.of(first) + Index.of("lane")}, f"int(end - {first})", ""
            return
        with text.block(f"for (i64 run = {first}, count; run < end; run += count)", self.link):
            self.extents["run"] = _size(loops)
            indices = delinearize(Index.of("run"), tuple(i.extent for i in loops), self.extents)
            where: dict[str, Index] = {}
            for loop, index in zip(loops, indices, strict=True):
                own = text.name(f"{loop.name}_of_run")
                text.add(f"const i64 {own} = {index_text(index)};", self.link)
                self.extents[own] = loop.extent
                where[loop.name] = Index.of(own)
            left = f"{last.extent} - {index_text(where[last.name])}"
            text.add(f"count = {left} < end - run ? {left} : end - run;", self.link)
            where[last.name] = where[last.name] + Index.of("lane")
            yield where, "int(count)", f"run - {first} + "

    def stage(self, side: SideText) -> None:
        """The copy that all tiles read a side from: a word for each element, those beyond the edges filled up."""
        staging = side.side.staging
        assert staging is not None
        text, link, shape = self.text, self.link, staging.shape
        text.add(f"static Scratch<u32> staged_kept({staging.words} + COLUMNS);  // {' x '.join(map(str, shape))}", link)
        text.add("u32* const staged = staged_kept.data;", link)
        *names, last = [f"axis_{n}" for n in range(len(shape) - 1)] + ["lane"]
        if staging.words > FEW_WORDS:
            text.pragma(f"omp parallel for collapse({max(1, min(2, len(names)))})", link)
        with text.scope(), ExitStack() as inside:
            for name, size in zip(names, shape, strict=False):
                inside.enter_context(text.block(f"for (i64 {name} = 0; {name} < {size}; ++{name})", link))
            extents = dict(zip((*names, last), shape, strict=True))
            variables = [Index.of(name) for name in (*names, last)]
            places = self._staged_places(staging, variables)
            declared = declare_range(text, self._all_inside(staging, places), last, str(shape[-1]), extents, link)
            assert declared is not None
            target, begin, end = f"staged[{index_text(linear(variables, shape))}]", declared.begin, declared.end
            rest = f"fn_max({begin}, {end})"
            for first, stop, is_inside in (("0", begin, False), (begin, end, True), (rest, str(shape[-1]), False)):
                if is_inside and self._is_plain(side, staging):
                    self._stage_line(side, staging, variables, begin, end)
                    continue
                text.pragma("omp simd", link)
                with text.block(f"for (int lane = {first}; lane < {stop}; ++lane)", link):
                    word = self._staged_word(side, staging, places, None if is_inside else extents)
                    text.add(f"{target} = {word};", link)

    def _is_plain(self, side: SideText, staging: StagedSide) -> bool:
        """Whether words are made of elements as they lie in their array: a float, or four codes."""
        kind = self.program.arrays[staging.access.array].dtype
        step, factor = self.product.instruction.depth, side.side.factor
        is_read = factor == staging.access or (isinstance(factor, Apply) and factor.operands == (staging.access,))
        return is_read and kind == side.side.dtype and ((step, kind) == (1, "float32") or (step == 4 and kind in BYTES))

    def _stage_line(
        self, side: SideText, staging: StagedSide, variables: Sequence[Index], begin: str, end: str
    ) -> None:
        """Neighbouring words that are inside the array: whole vectors, the last of which is cut."""
        first = [*variables[:-1], Index.of(begin)]
        array = self.program.arrays[staging.access.array]
        places = list(zip(staging.axes, self._staged_places(staging, first), strict=True))
        codes = [
            f"&{element(array.name, array, [p + n * (a.word + (a.words > 1)) for a, p in places])}"
            for n in range(self.product.instruction.depth)
        ]
        shift = [str(SIGN)] if len(codes) > 1 and side is self.columns and self.shifts else ["0"] * (len(codes) > 1)
        target = f"&staged[{index_text(linear(first, staging.shape))}]"
        step = staging.ordered[-1].step
        with self.text.block(f"if ({begin} < {end})", self.link):
            self.text.add(f"stage<{step}>({', '.join([target, f'{end} - {begin}', *shift, *codes])});", self.link)

    @staticmethod
    def _staged_places(staging: StagedSide, variables: Sequence[Index]) -> list[Index]:
        """The index of each axis of the array at a staged element."""
        count = len(staging.phases)
        phases = iter(variables[:count])
        phase = {id(axis): next(phases) if axis.phases > 1 else Index() for axis in staging.axes}
        own = dict(zip(map(id, staging.ordered), variables[count:], strict=True))
        return [own[id(axis)] * axis.step + phase[id(axis)] + axis.low for axis in staging.axes]

    def _all_inside(self, staging: StagedSide, places: Sequence[Index]) -> list[Index]:
        """What must be >= 0 for all elements of a word to be inside the array."""
        more, found = self.product.instruction.depth - 1, []
        shape = self.program.arrays[staging.access.array].shape
        for axis, place, size in zip(staging.axes, places, shape, strict=True):
            reach = (axis.word + (axis.words > 1)) * more
            found += [place, Index((), size - 1 - reach) + place * -1]
        return found

    def _staged_word(
        self, side: SideText, staging: StagedSide, places: Sequence[Index], extents: dict[str, int] | None
    ) -> str:
        """A word of the staged copy.  extents: of the variables, where some of it may be outside the array."""
        array, step = self.program.arrays[staging.access.array], self.product.instruction.depth
        padding = staging.access.otherwise or Literal(0, array.dtype)
        parts = []
        for n in range(step):
            at = [p + n * (axis.word + (axis.words > 1)) for axis, p in zip(staging.axes, places, strict=True)]
            text = f"{held_type(array.dtype)}({element(array.name, array, at)})"
            if extents is not None:
                ends = [c for p, size in zip(at, array.shape, strict=True) for c in (p, Index((), size - 1) + p * -1)]
                condition = " && ".join(condition_text(c) for c in ends if c.bounds(extents)[0] < 0)
                text = f"({condition} ? {text} : {literal(padding.value, array.dtype)})" if condition else text
            value = scalar_text(map_leaves(side.side.factor, partial(_as_read, staging.access, text)))
            parts.append(f"{value} + {SIGN}" if side is self.columns and self.shifts else value)
        if step == 1:
            return f"word(float({parts[0]}))"
        return f"{'word_bf16' if self.product.instruction.sums == 'float32' else 'word'}({', '.join(parts)})"

    @contextmanager
    def depth_loops(self) -> Iterator[tuple[str, dict[str, Index]]]:
        """(number of the word from `unit` on, values of the depth's loops at its first depth) in loops over the words
        of the units from `unit` to `units`."""
        step, (*outer, last) = self.product.instruction.depth, self.product.depth
        words = -(-last.extent // step)
        with ExitStack() as inside:
            for number, loop in enumerate(outer):
                begin, end = ("unit", "units") if number == 0 else ("0", str(loop.extent))
                head = f"for (i64 {loop.name} = {begin}; {loop.name} < {end}; ++{loop.name})"
                inside.enter_context(self.text.block(head, self.link))
            begin, end, stride = "0", str(last.extent), f"{last.name} += {step}" if step > 1 else f"++{last.name}"
            if not outer:
                begin, end = ("unit", "units") if step == 1 else (f"unit * {step}", f"units * {step}")
            head = f"for (i64 {last.name} = {begin}; {last.name} < {end}; {stride})"
            inside.enter_context(self.text.block(head, self.link))
            number_text = ""
            for loop in outer:
                own = f"({loop.name} - unit)" if loop is outer[0] else loop.name
                number_text = f"({number_text}) * {loop.extent} + {own}" if number_text else own
            place = f"{last.name} / {step}" if step > 1 else last.name
            word = f"({number_text}) * {words} + {place}" if number_text else f"{place} - unit"
            yield word, {i.name: Index.of(i.name) for i in self.product.depth}

    def _word(self, side: ProductSide, factor: Scalar, where: Mapping[str, Index]) -> str:
        """What a word holds: a float, or what neighbouring depths have."""
        step, last = self.product.instruction.depth, self.product.depth[-1]
        is_float = self.product.instruction.sums == "float32"
        parts = []
        for n in range(step):
            value = self.expressions.value(factor, {**where, last.name: where[last.name] + n})
            if side is self.product.columns and self.shifts:
                value = f"{value} + {SIGN}"
            is_always = last.extent % step == 0 or n == 0
            parts.append(value if is_always else f"({last.name} + {n} < {last.extent} ? {value} : 0)")
        if step == 1:
            return f"word(float({parts[0]}))"
        return f"{'word_bf16' if is_float else 'word'}({', '.join(parts)})"

    def _sum_rows(self) -> None:
        """The sum of each row's codes: what the columns' shift adds to its products."""
        text = self.text
        text.add(f"// Adds up the rows of a panel: columns are shifted by {SIGN}, products by as many times these.")
        arguments = "const u32* __restrict__ panel, i64 words, bool is_first, int* __restrict__ sums"
        with (
            text.block(f"static void sum_rows({arguments})"),
            text.block("for (int row = 0; row < ROWS; ++row)"),
        ):
            text.add("int total = is_first ? 0 : sums[row];")
            with text.block("for (i64 word = 0; word < words; ++word)"):
                text.add("const u32 codes = panel[word * ROWS + row];")
                text.add("total += i8(codes) + i8(codes >> 8) + i8(codes >> 16) + i8(codes >> 24);")
            text.add("sums[row] = total;")
        text.add("")

    def call(self, side: SideText, first: str, units: tuple[str, str], panel: str, batch: Sequence[str]) -> str:
        """A call that packs a panel."""
        arguments = [*self.kernel.names_of(_arrays(side.side)), *batch, first, *units, panel]
        return f"pack_{side.plural}({', '.join(arguments)});"

    def number(self, side: SideText, panel: str) -> str:
        """The number of a prepared panel among those of all batches that move its factor."""
        place = ""
        for loop in batches_of(self.product, side.side):
            place = f"({place}) * {loop.extent} + {loop.name}" if place else loop.name
        return f"(({place}) * {side.count} + {panel})" if place else panel

    def prepare(self) -> None:
        """All panels of the factors that the graph fixes."""
        text = self.text
        for side in (self.rows, self.columns):
            if side.mode != "prepared":
                continue
            own = batches_of(self.product, side.side)
            with ExitStack() as inside:
                for loop in own:
                    head = f"for (i64 {loop.name} = 0; {loop.name} < {loop.extent}; ++{loop.name})"
                    inside.enter_context(text.block(head))
                inside.enter_context(text.block(f"for (i64 number = 0; number < {side.count}; ++number)"))
                batch = [i.name if i in own else "0" for i in self.product.batch]
                place = self.number(side, "number")
                panel = f"prepared_{side.plural} + {place} * WORDS * {side.width}"
                text.add(self.call(side, f"number * {side.width}", ("0", "UNITS"), panel, batch))
                if side is self.rows and self.shifts:
                    text.add(f"sum_rows({panel}, WORDS, true, prepared_sums + {place} * ROWS);")


def batches_of(product: CpuProduct, side: ProductSide) -> tuple[Loop, ...]:
    """The batch loops that a factor moves with."""
    used = {name for access in accesses(side.factor) for index in access.indices for name in index.iterators()}
    return tuple(i for i in product.batch if i.name in used)


def _arrays(side: ProductSide) -> set[str]:
    return {access.array for access in accesses(side.factor)}


def _size(loops: Sequence[Loop]) -> int:
    total = 1
    for loop in loops:
        total *= loop.extent
    return total


def _as_read(access: Access, text: str, leaf: Literal | Access | Position) -> Scalar:
    """A leaf, the access itself as the C++ that reads it."""
    return Access(text, ()) if leaf == access else leaf
