"""Kernels of any schedule tree, for threads alone or for blocks whose threads share loops.

    band t = i + j: band i: S[i, j]     ->   for (t ...) for (i_step ...) { j = t - i_step;  if (0 <= j && j < 64) S }

Loops run from the smallest to the largest value of their rows over all instances; a condition at each statement tells
whether it has an instance there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby

from engine.fusion.nodes import FusionGroup
from engine.kernels.general.config import GeneralConfig
from engine.kernels.general.emitter import GeneralEmitter
from engine.kernels.general.instances import Instance, solve_rows
from engine.kernels.general.paths import Dimension, Nest, NestLoop, NestSequence, is_cyclic, paths, whole_rows
from engine.kernels.general.places import ValuePlace, spans_of
from engine.kernels.general.sums import ALONE, Sums, add_in_memory, last_term, whole_block
from engine.kernels.reduction.block_reduce import ReductionThreads
from engine.scheduling.nodes import Leaf
from engine.support.errors import Unsupported
from engine.tensor.index import Index, delinearize
from engine.tensor.nodes import Access, Scalar, Statement
from engine.tile.emit import Staged, Where, at
from engine.tile.nodes import BLOCK, THREAD, Barrier, Buffer, Declare, TileProgram
from engine.tile.scope import LANE_OF_VECTOR
from engine.tile.source import Line


def emit_general(
    group: FusionGroup, nest: Nest, where: Mapping[str, ValuePlace], config: GeneralConfig
) -> TileProgram:
    """The kernel of a config."""
    return _GeneralLowering(group, nest, where, config).emit()


class _GeneralLowering:
    """One kernel in the making."""

    def __init__(self, group: FusionGroup, nest: Nest, where: Mapping[str, ValuePlace], config: GeneralConfig) -> None:
        self.group, self.program, self.nest, self.where, self.config = group, group.program, nest, where, config
        self.around, self.mapping = paths(nest), config.mapping
        program = group.program
        blocks = -(-self.mapping.points // config.per_block)
        self.emitter = GeneralEmitter(program, blocks, config.threads)
        self.emitter.vector = self.emitter.extents[LANE_OF_VECTOR] = config.vector
        self.point: list[Index] = []
        """The place in each dimension of the mapping, from 0."""
        self.values: dict[Dimension, Index] = {}
        """The value of each dimension around what is emitted now."""
        self.copies: list[dict[Dimension, Index]] = [{}]
        """The value of the jammed dimension at each of the neighbours that a thread computes together."""
        self.copy = 0
        """The number of the neighbour that is emitted now."""
        self.first: dict[tuple[str, str], tuple[str, Index]] = {}
        """Statement and iterator -> the variable that stands for it at the first neighbour, and its value."""
        self.held: dict[tuple[str, int], Access] = {}
        """Statement and copy -> the register of its value."""
        self.sums: dict[tuple[str, int], Sums] = {}
        """Statement and copy -> the registers that collect its terms."""
        self.is_together = config.is_cooperative
        """Whether all threads of the block run what is emitted now, with the same values."""
        self.read_back = {s.write.array for s in program.statements if where[s.name].in_memory}
        self.read_back |= {*program.inputs} & {*program.outputs}
        self.emitter.changing = frozenset(self.read_back | {*program.outputs})
        writers = {s.write.array: s for s in program.statements}
        for name in sorted(self.read_back - set(self.emitter.buffers)):
            array = program.arrays[name]
            if config.placed.get(writers[name].name) == "shared":
                spans = spans_of(program, self.around, self.mapping, name)
                shape = tuple(span.size for span in spans)
                self.emitter.buffers[name] = Buffer(name, array.dtype, shape, "shared")
                self.emitter.staged[name] = Staged(name, spans)
            else:
                self.emitter.buffers[name] = Buffer(name, array.dtype, array.shape, "workspace")

    def emit(self) -> TileProgram:
        """The tile program."""
        emitter, mapping, config = self.emitter, self.mapping, self.config
        link = Line((), tuple(d.name for d in mapping.dimensions))
        if config.is_cooperative:
            self._run_points_of_block(link)
        else:
            self._run_points_of_threads(link)
        constants = {"POINTS": mapping.points, "BLOCK_POINTS": config.per_block}
        if config.vector > 1:
            constants["VECTOR"] = config.vector
        if config.jam > 1:
            constants["JAM"] = config.jam
        if emitter.bodies[0] and isinstance(emitter.bodies[0][-1], Barrier):
            emitter.bodies[0].pop()  # nothing follows
        return emitter.finish(
            self.group,
            constants=constants,
            assertions=(("BLOCKS * BLOCK_POINTS >= POINTS", "every point of the outer dimensions is run"),),
            placements={name: self._placement(name) for name in self.where},
        )

    def _run_points_of_threads(self, link: Line) -> None:
        """Each thread at its own points, where they are as many as threads, or the next ones in further steps."""
        emitter, config, points = self.emitter, self.config, self.mapping.points
        with emitter.loop("turn", -(-config.per_block // config.threads), link, False) as turn:
            own = turn * config.threads + Index.of(THREAD)
            point = emitter.bind("point", Index.of(BLOCK) * config.per_block + own, link)
            outside = [Index((), config.per_block - 1) - own, Index((), points - 1) - point]
            with emitter.when(emitter.mask("inside", outside, link), link):
                emitter.extents[str(point)] = points
                self._run_point(point)

    def _run_points_of_block(self, link: Line) -> None:
        """The whole block at one point after the other."""
        emitter, config, points = self.emitter, self.config, self.mapping.points
        with emitter.loop("turn", config.per_block, link, False) as turn:
            point = emitter.bind("point", Index.of(BLOCK) * config.per_block + turn, link)
            with emitter.when_all(Index((), points - 1) - point, link):
                emitter.extents[str(point)] = points
                self._run_point(point)

    def _run_point(self, point: Index) -> None:
        """The schedule at one point of the mapping's dimensions."""
        dimensions = self.mapping.dimensions
        sizes = tuple(d.strips for d in dimensions)
        with ExitStack() as inside:
            for dimension, index in zip(dimensions, delinearize(point, sizes, self.emitter.extents), strict=True):
                name = dimension.name if dimension.strip == 1 else f"{dimension.name}_strip"
                strip = self.emitter.bind(name, index, Line((), (dimension.name,)))
                if dimension.name == self.config.jammed:
                    firsts = [strip * dimension.strip + n + dimension.low for n in range(self.config.jam)]
                    self.copies = [dict.fromkeys(dimension.of.values(), first) for first in firsts]
                    self.values |= self.copies[0]
                    self.point.append(strip * dimension.strip)
                    continue
                last = dimension is dimensions[-1]
                own = self._neighbours(inside, dimension.name, strip, dimension.extent, dimension.strip, last)
                self.point.append(own)
                self.values |= dict.fromkeys(dimension.of.values(), own + dimension.low)
            self._nest(self.nest)

    def _each_copy(self) -> Iterator[int]:
        """What follows, for each of the neighbours that a thread computes together."""
        for number, values in enumerate(self.copies):
            self.copy = number
            self.values |= values
            yield number

    def _neighbours(
        self, inside: ExitStack, name: str, strip: Index, extent: int, size: int, is_last: bool = False
    ) -> Index:
        """The value of a dimension in the loop over one of its strips, which `inside` opens and closes."""
        if size == 1:
            return strip
        emitter, link = self.emitter, Line((), (name,))
        width = self.config.vector if is_last else 1
        step = inside.enter_context(emitter.loop(f"{name}_in_strip", size // width, link))
        first = strip * size + step * width
        if extent % size:
            last = Index((), extent - 1) - first
            if self.is_together:
                inside.enter_context(emitter.when_all(last, link))
            else:
                inside.enter_context(emitter.when(emitter.mask("inside", [last], link), link))
        value = emitter.bind(name, first, link)
        if str(value) in emitter.extents:
            emitter.extents[str(value)] = min(extent, emitter.extents[str(value)])
        return value + Index.of(LANE_OF_VECTOR) if width > 1 else value

    def _nest(self, nest: Nest) -> None:
        """The operations of a subtree."""
        match nest:
            case Leaf(names):
                for name in names:
                    self._statement(self.program.statement(name))
            case NestSequence(parts):
                for part in parts:
                    self._nest(part)
            case NestLoop(dimension, names, body):
                # A loop of one step may still be a thread's: of several statements' at once, of which others have more.
                if dimension.extent == 1 and dimension not in self.values:
                    self.values[dimension] = Index((), dimension.low)
                if dimension in self.values:
                    self._nest(body)
                    return
                begun = [s for s in map(self.program.statement, names) if self._begins(s, dimension)]
                for statement in begun:
                    for copy in self._each_copy():
                        self.sums[statement.name, copy] = Sums.begin(self.emitter, statement, self.config.vector)
                if self.is_together and dimension in self.config.shared:
                    self._shared_loops(nest, begun)
                else:
                    self._loop(nest)
                    for statement in begun:
                        for _ in self._each_copy():
                            self._finish_sum(statement, ALONE)

    def _begins(self, statement: Statement, loop: Dimension) -> bool:
        """Whether a loop and those inside run over the terms of a sum that registers collect."""
        place = self.where[statement.name]
        return place.collects and place.loops[place.ready : place.ready + 1] == (loop,)

    def _loop(self, nest: NestLoop) -> None:
        dimension = nest.dimension
        link = Line(nest.statements, (dimension.name,))
        unroll = self.config.unrolled.get(dimension, False)
        with self.emitter.loop(self._counter(dimension), dimension.extent, link, unroll) as counter:
            self.values[dimension] = counter + dimension.low
            self._nest(nest.body)
            del self.values[dimension]

    def _counter(self, dimension: Dimension) -> str:
        """A name that no variable around has: those of the mapping's dimensions stay visible."""
        taken = {d.name for d in self.mapping.dimensions}
        return f"{dimension.name}_step" if dimension.name in taken else dimension.name

    def _shared_loops(self, nest: NestLoop, begun: Sequence[Statement]) -> None:
        """Nested loops whose iterations the threads of the block share; then all of them meet."""
        emitter, threads = self.emitter, self.config.threads
        dimensions = self.config.shared[nest.dimension]
        names = tuple(d.name for d in dimensions)
        link = Line(nest.statements, names)
        strips = [self.config.strips.get(d, 1) for d in dimensions]
        sizes = tuple(-(-d.extent // strip) for d, strip in zip(dimensions, strips, strict=True))
        total = math.prod(sizes)
        body: Nest = nest
        self.is_together = False
        with emitter.loop("_".join((*names, "turn")), -(-total // threads), link, False) as turn:
            shared = emitter.bind("_".join((*names, "shared")), turn * threads + Index.of(THREAD), link)
            with ExitStack() as inside:
                inside.enter_context(emitter.when(emitter.mask("inside", [Index((), total - 1) - shared], link), link))
                emitter.extents[str(shared)] = min(total, emitter.extents.get(str(shared), total))
                found = delinearize(shared, sizes, emitter.extents)
                for dimension, index, strip in zip(dimensions, found, strips, strict=True):
                    name = self._counter(dimension)
                    own = emitter.bind(name if strip == 1 else f"{name}_strip", index, Line((), (dimension.name,)))
                    own = self._neighbours(inside, name, own, dimension.extent, strip)
                    self.values[dimension] = own + dimension.low
                    while isinstance(body, NestLoop) and body.dimension in self.values:
                        body = body.body
                self._nest(body)
                for dimension in dimensions:
                    del self.values[dimension]
            emitter.extents[THREAD] = threads  # `shared` is the thread itself where there is one turn
        self.is_together = True
        sharers = whole_block(threads)
        for statement in begun:
            if emitter.branches or len(emitter.bodies) > 1:
                self._meet(link)  # the loop around may still read the parts of the last sum
            self._finish_sum(statement, sharers)
        if self._touches_memory(nest.statements):
            self._meet(link)

    def _meet(self, link: Line) -> None:
        """All threads of the block wait for each other, unless they just did."""
        if not (self.emitter.bodies[-1] and isinstance(self.emitter.bodies[-1][-1], Barrier)):
            self.emitter.add(Barrier(link))

    def _touches_memory(self, statements: Sequence[str]) -> bool:
        """Whether some statements read or write what passes between threads through memory."""
        found = map(self.program.statement, statements)
        return any(s.write.array in self.read_back or not self.read_back.isdisjoint(s.sources) for s in found)

    def _instance(self, statement: Statement, dimensions: Sequence[Dimension]) -> Instance:
        extents = self.emitter.extents
        rows, conditions = whole_rows(statement, ((d, self.values[d]) for d in dimensions))
        found = solve_rows(rows, statement.iterators, extents)
        inside = (c for c in conditions if c.bounds(extents)[0] < 0)
        return replace(found, conditions=(*found.conditions, *inside))

    def _statement(self, statement: Statement) -> None:
        """One statement at the point that the loops around it have come to, for all neighbours of a jam."""
        link = at(statement, *(d.name for d in self.around[statement.name]))
        found = [self._instance(statement, self.around[statement.name]) for _ in self._each_copy()]
        masks = [self.emitter.mask("instance", instance.conditions, link) for instance in found]
        if statement.reduction is None:
            for copy in self._each_copy():
                self._value(statement, found[copy], masks[copy], link)
            return
        place = self.where[statement.name]
        whole = place.collects and place.ready == len(place.loops)
        if whole:
            for copy in self._each_copy():
                self.sums[statement.name, copy] = Sums.begin(self.emitter, statement, self.config.vector)
        for mask, copies in groupby(self._each_copy(), masks.__getitem__):
            with self.emitter.when(mask, link):  # neighbours in one branch share loads
                for copy in copies:
                    self._add_term(statement, found[copy], link)
        if whole:
            for _ in self._each_copy():
                self._finish_sum(statement, ALONE)
        elif not place.collects and self.is_together and self._touches_memory((statement.name,)):
            self._meet(link)

    def _add_term(self, statement: Statement, instance: Instance, link: Line) -> None:
        where = self._where(statement, instance, link)
        guards = [guard.index.substitute(where, self.emitter.extents) for guard in statement.guards]
        with self.emitter.when(self.emitter.mask("counted", guards, link), link):
            if self.where[statement.name].collects:
                self.sums[statement.name, self.copy].add(self._expression(statement, where, link), link)
            else:
                self._add_in_memory(statement, where, link)

    def _add_in_memory(self, statement: Statement, where: Where, link: Line) -> None:
        """One term of a sum that memory collects, by one thread."""
        emitter = self.emitter
        rows = [d.row(statement) for d in self.around[statement.name]]
        if is_cyclic(self.around[statement.name], statement):
            reason = f"memory collects {statement.name}, the last term of which is not met last"
            hint = "put tiles of the loops over its terms outside the places in them"
            raise Unsupported("codegen", f"schedule of {self.program.name}", reason, hint)
        alone = emitter.mask("first_thread", [Index.of(THREAD) * -1], link) if self.is_together else None
        with emitter.when(alone, link):
            sums = add_in_memory(emitter, statement, rows, where, self._expression(statement, where, link), link)
            with emitter.when(last_term(emitter, statement, rows, where, link), link):
                self._store(statement, where, sums.finish(ALONE, link))

    def _value(self, statement: Statement, instance: Instance, mask: str | None, link: Line) -> None:
        """The value of an element-wise statement, in a register, and in memory where somebody reads it there."""
        emitter, array = self.emitter, statement.write.array
        width, dtype = self.config.vector, self.program.arrays[array].dtype
        name = emitter.register(array, dtype, (width,) if width > 1 else (), emitter.is_raw)
        self.held[statement.name, self.copy] = held = Access(name, (Index.of(LANE_OF_VECTOR),) if width > 1 else ())
        if mask or width > 1:
            emitter.add(Declare(name, None, link))
        with emitter.when(mask, link):
            where = self._where(statement, instance, link)
            value = self._expression(statement, where, link)
            if mask or width > 1:
                emitter.assign_lanes(held, value, link)
            else:
                emitter.add(Declare(name, value, link))
            self._store(statement, where, held)
        if self.is_together and self._touches_memory((statement.name,)):
            self._meet(link)

    def _finish_sum(self, statement: Statement, threads: ReductionThreads) -> None:
        """The sum is complete: round it and store it where somebody reads it."""
        emitter, place = self.emitter, self.where[statement.name]
        around = [d for d in self.around[statement.name] if d not in place.loops[place.ready :]]
        link = at(statement, *(d.name for d in around))
        self.held[statement.name, self.copy] = held = self.sums.pop((statement.name, self.copy)).finish(threads, link)
        instance = self._instance(statement, around)
        with emitter.when(emitter.mask("instance", instance.conditions, link), link):
            self._store(statement, self._where(statement, instance, link), held)
        if self.is_together and self._touches_memory((statement.name,)):
            self._meet(link)

    def _where(self, statement: Statement, instance: Instance, link: Line) -> dict[str, Index]:
        """Iterator -> a variable with its value."""
        found: dict[str, Index] = {}
        for iterator in statement.iterators:
            value = instance.values.get(iterator.name)
            if value is None:
                continue  # the terms of a sum that is complete
            if LANE_OF_VECTOR in value.iterators():
                found[iterator.name] = value
                continue  # no one variable stands for all lanes
            name = iterator.name if iterator.name not in self.emitter.depth else f"{statement.name}_{iterator.name}"
            if self.copy == 0:
                self.first[statement.name, iterator.name] = name, value
            else:
                name, same = self.first[statement.name, iterator.name]
                name = name if value == same else f"{name}_{self.copy}"
            found[iterator.name] = self.emitter.bind(name, value, link)
            if found[iterator.name] != value:
                self.emitter.extents[str(found[iterator.name])] = iterator.extent
        return found

    def _expression(self, statement: Statement, where: Where, link: Line) -> Scalar:
        held = {
            other.write.array: self.held[other.name, self.copy]
            for other in self.program.statements
            if statement.name in self.where[other.name].readers
        }
        return self.emitter.expression(statement.expression, held, where, link)

    def _store(self, statement: Statement, where: Where, value: Access) -> None:
        """Store a value that is read from memory; where several threads have it, the first of them does."""
        if statement.write.array not in self.emitter.changing:
            return
        link = at(statement)
        places = zip(self.mapping.dimensions, self.point, strict=True)
        first = [place * -1 for dimension, place in places if statement.name not in dimension.of]
        if self.is_together:
            first.append(Index.of(THREAD) * -1)
        self.emitter.store(statement, where, value, self.emitter.mask("stores", first, link), link)

    def _placement(self, name: str) -> str:
        """Where a statement's value lives, and why."""
        place = self.where[name]
        is_staged = self.program.statement(name).write.array in self.emitter.staged
        memory = "shared memory" if is_staged else "memory"
        if not place.collects:
            return f"{memory}: the loops over its terms go around several of its sums"
        if place.in_memory:
            return f"{memory}: a later loop reads it"
        return "register: made and used by the same thread"
