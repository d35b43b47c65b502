"""C++ of any legal schedule: loops in its order, threads over points that need nothing from one another, vectors along
the loop that reads neighbours.

    band i: sequence [band k: S0] [band k: S1]   ->   #pragma omp parallel for
                                                      for (i ...) { #pragma omp simd
                                                                    for (k ...) S0;   for (k ...) S1; }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from engine.cpu.plan import STACK_BYTES, RegionPlan, is_vector_loop
from engine.cpu.ranges import declare_range
from engine.cpu.sums import Sum, distance_from_first, distance_from_last, sums_of_exponentials
from engine.cpu.text import Expressions, Text, Where, element, held_type, literal, round_text, stored_type
from engine.kernels.general.instances import Instance, solve_rows
from engine.kernels.general.paths import Dimension, Nest, NestLoop, NestSequence, is_cyclic, whole_rows
from engine.scheduling.nodes import Leaf
from engine.support.errors import Unsupported
from engine.tensor.index import Index, linear
from engine.tensor.nodes import Access, Apply, Statement
from engine.tile.emit import at
from engine.tile.nodes.expressions import index_text
from engine.tile.source import Line

LANE = "lane"
FEW_POINTS = 4096
"""Points of all statements below which threads are not woken."""


class RegionWriter:
    """Adds the C++ of one region to a text."""

    def __init__(self, plan: RegionPlan, text: Text, threads: int) -> None:
        self.plan, self.text, self.program, self.threads = plan, text, plan.program, threads
        self.extents: dict[str, int] = {}
        """Of the variables around."""
        self.values: dict[Dimension, Index] = {}
        self.point: list[tuple[frozenset[str], Index]] = []
        """(statements that move with a dimension of points, its value from 0)."""
        self.known: dict[str, str] = {}
        """Statement -> the variable that holds its value."""
        self.sums: dict[str, Sum] = {}
        self.lanes = plan.strip if plan.lane else 0
        self.width = ""
        """How many lanes the strip has, in C++."""
        self.in_lanes = False
        self._weights = sums_of_exponentials(self.program)
        self.expressions = Expressions(self.program.arrays, self.extents, self._element)

    def write(self) -> None:
        """The whole region."""
        plan, text = self.plan, self.text
        link = Line((), tuple(d.name for d in plan.points.dimensions))
        for name in plan.locals:
            assert text.name(name) == name, f"{name} is declared before all variables"
        points, loops = sum(s.points for s in self.program.statements), len(plan.points.dimensions)
        if plan.tasks > 1 and points > FEW_POINTS:
            collapse = f" collapse({loops})" if loops > 1 else ""
            text.pragma(f"omp parallel for{collapse} schedule(static)", link)
        with ExitStack() as inside:
            for number, dimension in enumerate(plan.points.dimensions):
                is_divided = plan.strip > 1 and number == loops - 1
                name = text.name(f"{dimension.name}_strip" if is_divided else dimension.name)
                step = plan.strip if is_divided else 1
                bound = f"{name} += {step}" if step > 1 else f"++{name}"
                head = f"for (i64 {name} = 0; {name} < {dimension.extent}; {bound})"
                inside.enter_context(text.block(head, Line((), (dimension.name,))))
                self.extents[name] = dimension.extent
                own = Index.of(name)
                if is_divided:
                    own = self._strip(inside, name, dimension.name, dimension.extent)
                self.point.append((frozenset(dimension.of), own))
                self.values |= dict.fromkeys(dimension.of.values(), own + dimension.low)
            self._locals(link)
            self._nest(plan.nest)

    def _strip(self, inside: ExitStack, strip: str, name: str, extent: int) -> Index:
        """The value of the dimension that is divided into strips, which lanes or a vector loop walk."""
        size, text = self.plan.strip, self.text
        if self.lanes:
            if extent % size:
                text.add(f"const int width = {extent} - {strip} < {size} ? int({extent} - {strip}) : {size};")
            self.width = "width" if extent % size else str(size)
            self.extents[LANE] = size
            # They are only met in their sum, which never leaves the dimension: the last strip has fewer lanes.
            self.extents[strip] = extent - size + 1
            return Index.of(strip) + Index.of(LANE)
        end = text.name("end")
        text.add(f"const i64 {end} = {strip} + {size} < {extent} ? {strip} + {size} : {extent};")
        own = text.name(name)
        text.pragma("omp simd")
        inside.enter_context(text.block(f"for (i64 {own} = {strip}; {own} < {end}; ++{own})", Line((), (name,))))
        self.extents[own] = extent
        return Index.of(own)

    def _locals(self, link: Line) -> None:
        """The thread's own parts of intermediates."""
        for name, local in self.plan.locals.items():
            dtype = stored_type(self.program.arrays[name].dtype)
            if local.bytes > STACK_BYTES:  # each thread comes by and makes its own
                elements = local.bytes // _size(dtype)
                self.text.add(f"static thread_local Scratch<{dtype}> {name}_kept({elements});", link)
                self.text.add(f"{dtype}* const {name} = {name}_kept.data;", link)
            else:
                self.text.add(f"alignas(64) {dtype} {name}[{max(1, local.bytes // _size(dtype))}];", link)

    def _element(self, array: str, indices: Sequence[Index]) -> str:
        """An element of an array, in the thread's own part of it where there is one."""
        local = self.plan.locals.get(array)
        declared = self.program.arrays[array]
        if local is None:
            return element(array, declared, indices)
        position = linear([indices[span.axis] for span in local.spans], local.shape)
        if local.lanes > 1:
            position = position * local.lanes + Index.of(LANE)
        return f"{array}[{index_text(position)}]"

    def _nest(self, nest: Nest) -> None:
        match nest:
            case Leaf(names):
                for name in names:
                    self._statement(self.program.statement(name))
            case NestSequence(parts):
                for part in parts:
                    self._nest(part)
            case NestLoop(dimension, names, body):
                if dimension.extent == 1:
                    self.values[dimension] = Index((), dimension.low)
                if dimension in self.values:
                    self._nest(body)
                    return
                begun = [s for s in map(self.program.statement, names) if self._begins(s, dimension)]
                for statement in begun:
                    self.sums[statement.name] = Sum.begin(self.text, statement, self.lanes, at(statement))
                self._loop(nest)
                for statement in begun:
                    self._finish(statement)

    def _begins(self, statement: Statement, loop: Dimension) -> bool:
        """Whether a loop and those inside run over the terms of a sum that a variable collects."""
        place = self.plan.where[statement.name]
        return place.collects and place.loops[place.ready : place.ready + 1] == (loop,)

    def _loop(self, nest: NestLoop) -> None:
        dimension, text = nest.dimension, self.text
        link = Line(nest.statements, (dimension.name,))
        with text.scope():
            self._loop_of(nest, text.name(dimension.name), link)

    def _loop_of(self, nest: NestLoop, name: str, link: Line) -> None:
        dimension, text = nest.dimension, self.text
        if not self.lanes and self._is_innermost(nest.body) and is_vector_loop(self.plan, dimension, nest.statements):
            text.pragma(" ".join(["omp simd", *self._clauses(nest.statements)]), link)
        with text.block(f"for (i64 {name} = 0; {name} < {dimension.extent}; ++{name})", link):
            self.extents[name] = dimension.extent
            self.values[dimension] = Index.of(name) + dimension.low
            before = dict(self.known)
            self._nest(nest.body)
            self.known = {**before, **{n: v for n, v in self.known.items() if n in before}}
            del self.values[dimension]

    def _is_innermost(self, body: Nest) -> bool:
        while isinstance(body, NestLoop) and (body.dimension.extent == 1 or body.dimension in self.values):
            body = body.body
        return isinstance(body, Leaf)

    def _clauses(self, names: Sequence[str]) -> list[str]:
        """What lanes collect in a vector loop."""
        return [self.sums[name].clause for name in names if name in self.sums]

    @contextmanager
    def _each_lane(self, link: Line) -> Iterator[None]:
        """What is added inside runs for each lane of a strip."""
        if not self.lanes or self.in_lanes:
            yield
            return
        self.text.pragma("omp simd", link)
        with self.text.block(f"for (int {LANE} = 0; {LANE} < {self.width}; ++{LANE})", link):
            self.in_lanes = True
            yield
            self.in_lanes = False

    def _instance(self, statement: Statement, dimensions: Sequence[Dimension]) -> Instance:
        rows, conditions = whole_rows(statement, ((d, self.values[d]) for d in dimensions))
        found = solve_rows(rows, statement.iterators, self.extents)
        return Instance(found.values, (*found.conditions, *conditions))

    def _statement(self, statement: Statement) -> None:
        """One statement at the point that the loops around it have come to."""
        self._know(statement)
        place = self.plan.where[statement.name]
        link = at(statement, *(d.name for d in self.plan.around[statement.name]))
        instance = self._instance(statement, self.plan.around[statement.name])
        alone = statement.reduction is not None and place.collects and place.ready == len(place.loops)
        if alone:
            self.sums[statement.name] = Sum.begin(self.text, statement, self.lanes, link)
        if statement.reduction is None:
            self._value(statement, instance, link)
        elif not self._pool(statement, instance, link):
            with self._each_lane(link):
                guards = [self.expressions.index(g.index, instance.values) for g in statement.guards]
                condition = self.expressions.conditions([*instance.conditions, *guards])
                with self.text.block(f"if ({condition})" if condition else "", link):
                    if place.collects:
                        self.sums[statement.name].add(self._expression(statement, instance.values), self._lane, link)
                    else:
                        self._add_in_memory(statement, instance.values, link)
        if alone:
            self._finish(statement)

    def _pool(self, statement: Statement, instance: Instance, link: Line) -> bool:
        """One term of the sums of all lanes where it is an element of a window: beyond the edges it adds nothing, and
        the lanes inside need no condition.  Whether it is one."""
        reduction, access = statement.reduction, statement.expression
        assert reduction is not None
        is_open = isinstance(access, Access) and access.guards and access.otherwise
        if not self.lanes or not is_open or statement.guards or not self.plan.where[statement.name].collects:
            return False
        assert isinstance(access, Access)
        if access.otherwise is None or access.otherwise.value != reduction.identity:
            return False
        guards = [self.expressions.index(g.index, instance.values) for g in access.guards]
        conditions = [*instance.conditions, *guards]
        with self.text.block("", link), self.text.scope():
            self.text.add("{", link)
            inside = declare_range(self.text, conditions, LANE, self.width, self.extents, link)
            if inside is not None:
                term = self.expressions.value(replace(access, guards=()), instance.values)
                self.text.pragma("omp simd", link)
                head = f"for (int {LANE} = {inside.begin}; {LANE} < {inside.end}; ++{LANE})"
                with self.text.block(head, link):
                    self.sums[statement.name].add(term, self._lane, link)
            self.text.add("}", link)
        return inside is not None

    @property
    def _lane(self) -> str:
        return f"[{LANE}]" if self.lanes else ""

    def _value(self, statement: Statement, instance: Instance, link: Line) -> None:
        """The value of an element-wise statement, in a variable where later ones read it, and in memory."""
        array = self.program.arrays[statement.write.array]
        readers = self.plan.where[statement.name].readers
        guards = [self.expressions.index(g.index, instance.values) for g in statement.guards]
        condition = self.expressions.conditions([*instance.conditions, *guards])
        name = self.text.name(array.name) if readers else ""
        if readers and self.lanes:
            self.text.add(f"{held_type(array.dtype)} {name}[{self.lanes}];", link)
        with self._each_lane(link):
            value = self._expression(statement, instance.values)
            if readers and not self.lanes:
                made = f"({condition}) ? {value} : {held_type(array.dtype)}(0)" if condition else value
                self.text.add(f"const {held_type(array.dtype)} {name} = {made};", link)
                value = name
            with self.text.block(f"if ({condition})" if condition else "", link):
                if readers and self.lanes:
                    self.text.add(f"{name}[{LANE}] = {value};", link)
                    value = f"{name}[{LANE}]"
                self._store(statement, instance.values, value, link)
        if readers:
            self.known[statement.name] = name + self._lane

    def _finish(self, statement: Statement) -> None:
        """A sum is complete: its result for later statements, and in memory."""
        place = self.plan.where[statement.name]
        around = [d for d in self.plan.around[statement.name] if d not in place.loops[place.ready :]]
        link = at(statement, *(d.name for d in around))
        instance = self._instance(statement, around)
        total = self.sums.pop(statement.name)
        array = self.program.arrays[statement.write.array]
        if total.result(array.dtype, self._lane) == f"{total.names[0]}{self._lane}":
            self.known[statement.name] = f"{total.names[0]}{self._lane}"
            name = ""
        else:
            name = self.text.name(array.name) if place.readers else ""
        if name and self.lanes:
            self.text.add(f"{held_type(array.dtype)} {name}[{self.lanes}];", link)
        is_stored = array.name in self.program.outputs or place.in_memory
        if not name and not is_stored:
            return
        with self._each_lane(link):
            value = total.result(array.dtype, self._lane)
            if name:
                kind = "" if self.lanes else f"const {held_type(array.dtype)} "
                self.text.add(f"{kind}{name}{self._lane} = {value};", link)
                value = f"{name}{self._lane}"
            condition = self.expressions.conditions(instance.conditions)
            with self.text.block(f"if ({condition})" if condition else "", link):
                self._store(statement, instance.values, value, link)
        if name:
            self.known[statement.name] = f"{name}{self._lane}"

    def _know(self, statement: Statement) -> None:
        """Before a statement's indices and expression: the variables that hold what it reads."""
        self.expressions.known = {
            other.write.array: self.known[other.name]
            for other in self.program.statements
            if statement.name in self.plan.where[other.name].readers and other.name in self.known
        }

    def _expression(self, statement: Statement, where: Where) -> str:
        self._know(statement)
        value = statement.expression
        match value:
            # The inverse is found once for all elements that are divided by it: a unit in the last place off.
            case Apply("div", (dividend, Access(array) as divisor)) if array in self._weights and not self.lanes:
                value = Apply("mul", (dividend, Apply("reciprocal", (divisor,), value.dtype)), value.dtype)
        return self.expressions.value(value, where, self.expressions.known)

    def _store(self, statement: Statement, where: Where, value: str, link: Line) -> None:
        """Store a value that is read from memory; what every point makes for itself is stored by the first."""
        array = self.program.arrays[statement.write.array]
        is_kept = array.name in self.program.outputs or self.plan.where[statement.name].in_memory
        if not is_kept:
            return
        target = self._element(array.name, [self.expressions.index(i, where) for i in statement.write.indices])
        is_own = array.name in self.plan.locals
        first = [own * -1 for names, own in self.point if statement.name not in names and not is_own]
        condition = self.expressions.conditions(first)
        with self.text.block(f"if ({condition})" if condition else "", link):
            self.text.add(f"{target} = {round_text(value, array.dtype)};", link)

    def _add_in_memory(self, statement: Statement, where: Where, link: Line) -> None:
        """One term of a sum that memory collects, as loops over its terms go around several sums."""
        assert statement.reduction is not None
        if is_cyclic(self.plan.around[statement.name], statement):
            reason = f"memory collects {statement.name}, the last term of which is not met last"
            hint = "put tiles of the loops over its terms outside the places in them"
            raise Unsupported("codegen", f"schedule of {self.program.name}", reason, hint)
        rows = [d.row(statement) for d in self.plan.around[statement.name]]
        array = self.program.arrays[statement.write.array]
        sums = f"{array.name}_sums"
        place = element(sums, array, [self.expressions.index(i, where) for i in statement.write.indices])
        identity = literal(statement.reduction.identity, statement.reduction.accumulate)
        again = self.expressions.conditions([distance_from_first(statement, rows, where) - 1])
        total = self.text.name(f"{array.name}_sum")
        kept = f"{again} ? {place} : {identity}" if again else f"{place}"
        self.text.add(f"{held_type(statement.reduction.accumulate)} {total} = {kept};", link)
        Sum(self.text, statement, (total,)).add(self._expression(statement, where), "", link)
        self.text.add(f"{place} = {total};", link)
        last = self.expressions.conditions([distance_from_last(statement, rows, where) * -1])
        with self.text.block(f"if ({last})" if last else "", link):
            self._store(statement, where, Sum(self.text, statement, (total,)).result(array.dtype, ""), link)


def _size(dtype: str) -> int:
    return {"float": 4, "int": 4, "u32": 4, "i64": 8, "u64": 8}.get(dtype, 1 if dtype in ("i8", "u8", "bool8") else 2)
