"""A thread makes a strip of results: each element of the image that they share is loaded once, into registers.

    strip of 4, 3 taps     x x x x x x      6 loads in place of 12
                           y y y y

Rows of the image are taken one after the other; each is used for all rows of results that have a tap there.  Where the
window slides along the contiguous axis, loads are vectors along it as far as they are aligned; else a thread owns a
vector of neighbours that lie across the slides, such as channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from engine.fusion.nodes import FusionGroup
from engine.graph.nodes import DTYPES
from engine.kernels.statement_block import BlockOptions, evaluate_block, result_statement
from engine.kernels.window.match import Windows
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.access import vector_limit
from engine.tensor.index import Index, delinearize
from engine.tensor.nodes import Access, Apply, Iterator, Literal, Statement, TensorProgram
from engine.tile.emit import LANE_OF_VECTOR, Emitter, at
from engine.tile.nodes import BLOCK, THREAD, Comment, KernelConfig, Load, Slot, TileProgram


@dataclass(frozen=True, slots=True)
class WindowConfig(KernelConfig):
    """What a thread makes."""

    threads: int
    """Of a block."""
    rows: int
    """Of results, down the first slide."""
    strip: int
    """Neighbouring results along the last slide."""
    vector: int
    """Neighbours across the slides; 1 where strips run along the contiguous axis."""

    def steps(self, windows: Windows) -> dict[str, int]:
        """Iterator -> results of a thread along it."""
        down = {windows.down.kept.name: self.rows} if windows.down else {}
        across = {windows.lane.name: self.vector} if windows.lane else {}
        return {windows.along.kept.name: self.strip, **down, **across}

    def values(self, windows: Windows) -> int:
        """Values that a thread keeps: sums, a row of the image, a row of what it is multiplied by."""
        row = windows.along.reach(self.strip) + windows.along.tap.extent
        return (self.rows * self.strip + row) * self.vector


def lower_windows(group: FusionGroup, windows: Windows, config: WindowConfig) -> TileProgram:
    """The kernel of a configuration whose steps divide the results."""
    return _WindowLowering(group, windows, config).tile()


def widest_lanes(program: TensorProgram, windows: Windows) -> int:
    """Neighbours across the slides that are one access; 1 where there are none."""
    if windows.lane is None:
        return 1
    return vector_limit(program.statements, program, _runs(windows, program.statements))


def _runs(windows: Windows, statements: Iterable[Statement]) -> dict[str, tuple[str]]:
    """Statement -> its iterator along the image's memory."""
    return {s.name: (s.parallel[windows.neighbours].name,) for s in statements}


class _WindowLowering:
    def __init__(self, group: FusionGroup, windows: Windows, config: WindowConfig) -> None:
        self.group, self.program, self.windows, self.config = group, group.program, windows, config
        statement = windows.statement
        assert statement.reduction is not None
        self.statement, self.reduction = statement, statement.reduction
        self.link = at(statement, *(i.name for i in statement.iterators))
        self.steps = config.steps(windows)
        along = statement.parallel[windows.neighbours]
        self.kept = (*(i for i in statement.parallel if i != along), along)
        """The loops of the results, neighbours in memory innermost."""
        self.units = tuple(i.extent // self.steps.get(i.name, 1) for i in self.kept)
        self.total = math.prod(self.units)
        self.emitter = Emitter(self.program, -(-self.total // config.threads), config.threads)
        self.emitter.vector = self.emitter.extents[LANE_OF_VECTOR] = config.vector
        self.first: dict[str, Index] = {}
        """Iterator -> the first of this thread's results along it."""
        self.lanes = (Index.of(LANE_OF_VECTOR),) if config.vector > 1 else ()

    def tile(self) -> TileProgram:
        """The tile program."""
        emitter, config = self.emitter, self.config
        place = emitter.bind("place", Index.of(BLOCK) * config.threads + Index.of(THREAD), self.link)
        exists = emitter.mask("exists", [Index((), self.total - 1) - place], self.link)
        with emitter.when(exists, self.link):
            if exists:
                emitter.extents["place"] = self.total
            for iterator, unit in zip(self.kept, delinearize(place, self.units, emitter.extents), strict=True):
                self.first[iterator.name] = emitter.bind(iterator.name, unit * self._step(iterator), self.link)
            self._reduce()
            self._finish_results()
        return replace(self._program(), config=config)

    def _step(self, iterator: Iterator) -> int:
        return self.steps.get(iterator.name, 1)

    # Sums

    def _reduce(self) -> None:
        emitter, config, windows = self.emitter, self.config, self.windows
        lanes = (config.vector,) if self.lanes else ()
        self.sums = emitter.register(f"{self.statement.write.array}_acc", self.reduction.accumulate,
                                     (config.rows, config.strip, *lanes))  # fmt: skip
        emitter.declare(self.sums, Literal(self.reduction.identity, self.reduction.accumulate))
        dtype = self.program.arrays[windows.image.array].dtype
        self.row = emitter.register(f"{windows.image.array}_row", dtype, (windows.along.reach(config.strip), *lanes))
        emitter.declare(self.row)
        emitter.read_from.add(windows.image.array)
        down = windows.down
        for place in range(down.reach(config.rows) if down else 1):
            pairs = self._pairs(place)
            if not pairs:
                continue
            used = f", for {len(pairs)} rows of results" if len(pairs) > 1 else ""
            emitter.add(Comment(f"row {place} of the image{used}", self.link))
            self._load_row(*pairs[0])
            for result, tap in pairs:
                self._add_taps(result, tap)

    def _pairs(self, place: int) -> list[tuple[int, int]]:
        """(row of results, tap) that meet at a row of the image."""
        down = self.windows.down
        if down is None:
            return [(0, 0)]
        found = ((result, place - result * down.step) for result in range(self.config.rows))
        return [(r, rest // down.apart) for r, rest in found
                if rest % down.apart == 0 and 0 <= rest // down.apart < down.tap.extent]  # fmt: skip

    def _where(self, row: int, tap: int) -> dict[str, Index]:
        """The iterators at a row of results and a tap of it, at the first result of the strip."""
        found, down = dict(self.first), self.windows.down
        if down is not None:
            found[down.kept.name] = found[down.kept.name] + row
            found[down.tap.name] = Index((), tap)
        if self.lanes:
            assert self.windows.lane is not None
            found[self.windows.lane.name] = found[self.windows.lane.name] + self.lanes[0]
        return found

    def _load_row(self, row: int, tap: int) -> None:
        """The places of the image that the strip's windows meet on a row, as wide as they are aligned."""
        along, reach = self.windows.along, self.windows.along.reach(self.config.strip)
        places: dict[int, tuple[Index, tuple[Index, ...]]] = {}
        for place in range(reach):
            pair = along.pair(place, self.config.strip)
            if pair is not None:
                where = self._where(row, tap)
                where[along.kept.name] = where[along.kept.name] + pair[0]
                where[along.tap.name] = Index((), pair[1])
                places[place] = self._source(where)
        place = 0
        while place < reach:
            width = 1 if self.lanes or place not in places else self._width(place, places)
            if place in places:
                self._load(place, width, *places[place])
            place += width

    def _source(self, where: Mapping[str, Index]) -> tuple[Index, tuple[Index, ...]]:
        """Position in the image, at the first lane, and the conditions that do not always hold there."""
        emitter, image = self.emitter, self.windows.image
        conditions = (guard.index.substitute(where, emitter.extents) for guard in image.guards)
        position = emitter.position(image, where, self.link).substitute({LANE_OF_VECTOR: Index()}, emitter.extents)
        return position, tuple(c for c in conditions if c.bounds(emitter.extents)[0] < 0)

    def _width(self, place: int, places: Mapping[int, tuple[Index, tuple[Index, ...]]]) -> int:
        """Neighbours from a place on that are one aligned vector under the same conditions."""
        position, conditions = places[place]
        expanded = self.emitter.expand(position)
        widest = VECTOR_BYTES // DTYPES[self.program.arrays[self.windows.image.array].dtype]
        for width in (widest >> n for n in range(widest.bit_length())):
            is_aligned = expanded.constant % width == 0 and all(c % width == 0 for _, c in expanded.terms)
            neighbours = [places.get(place + n) for n in range(width)]
            if is_aligned and all(one == (position + n, conditions) for n, one in enumerate(neighbours)):
                return width
        return 1

    def _load(self, place: int, width: int, position: Index, conditions: tuple[Index, ...]) -> None:
        emitter, image, link = self.emitter, self.windows.image, self.link
        dtype = self.program.arrays[image.array].dtype
        mask = emitter.mask(f"{image.array}_inside", conditions, link)
        otherwise = image.otherwise or Literal(0, dtype)
        wide = width * self.config.vector
        if wide == 1:
            emitter.add(Load(Slot(self.row, (Index((), place),)), image.array, position, 1, mask, otherwise, link))
            return
        part = emitter.register(f"{image.array}_part", dtype, (wide,))
        emitter.declare(part)
        emitter.add(Load(Slot(part), image.array, position, wide, mask, otherwise, link))
        with emitter.loop("q", wide, link) as q:
            into = (Index((), place), q) if self.lanes else (q + place,)
            emitter.assign(Slot(self.row, into), Access(part, (q,)), link)

    def _add_taps(self, row: int, tap: int) -> None:
        """A row of the image, which is in registers, added to a row of results."""
        emitter, along, link = self.emitter, self.windows.along, self.link
        where = self._where(row, tap)
        with emitter.loop(along.tap.name, along.tap.extent, link) as q, emitter.loop(
            "s", self.config.strip, link
        ) as s:
            where |= {along.tap.name: q, along.kept.name: self.first[along.kept.name] + s}
            element = Access(self.row, (s * along.step + q * along.apart, *self.lanes))
            term = emitter.expression(self.statement.expression, {self.windows.image.array: element}, where, link)
            with emitter.loop(LANE_OF_VECTOR, self.config.vector, link):
                into = Slot(self.sums, (Index((), row), s, *self.lanes))
                emitter.assign(into, term, link, self.reduction.operation)

    # Results

    def _finish_results(self) -> None:
        """Round the sums, run the statements after them, store: vectors of neighbours in memory."""
        emitter, config, windows = self.emitter, self.config, self.windows
        is_across = windows.lane is not None
        width = config.vector if is_across else self._stored_together()
        emitter.vector = emitter.extents[LANE_OF_VECTOR] = width
        lane = Index.of(LANE_OF_VECTOR) if width > 1 else Index()
        steps = 1 if is_across else width
        with emitter.loop("r", config.rows, self.link) as r, emitter.loop(
            "s", config.strip // steps, self.link
        ) as s:
            where = dict(self.first)
            where[windows.along.kept.name] = where[windows.along.kept.name] + s * steps
            if windows.down is not None:
                where[windows.down.kept.name] = where[windows.down.kept.name] + r
            last = self.statement.parallel[windows.neighbours].name
            where[last] = where[last] + lane
            total = Access(self.sums, (r, s, lane) if self.lanes else (r, s * steps + lane))
            array = self.program.arrays[self.statement.write.array]
            value = total if array.dtype == self.reduction.accumulate else Apply("cast", (total,), array.dtype)
            evaluate_block(
                emitter,
                [result_statement(self.statement, value), *windows.followers],
                lambda st: self._place(st, where),
                {total.array: total},
                BlockOptions(stored=frozenset(self.program.outputs)),
            )

    def _place(self, statement: Statement, where: Mapping[str, Index]) -> dict[str, Index]:
        """The iterators of a statement, which has the same points as the first."""
        pairs = zip(statement.parallel, self.statement.parallel, strict=True)
        return {own.name: where[first.name] for own, first in pairs}

    def _stored_together(self) -> int:
        """Results of a strip that are one access."""
        results = [result_statement(self.statement, Literal(0.0, "float32")), *self.windows.followers]
        limit = vector_limit(results, self.program, _runs(self.windows, results))
        return math.gcd(limit, self.config.strip)

    def _program(self) -> TileProgram:
        config = self.config
        constants = {
            "RESULTS": math.prod(i.extent for i in self.statement.parallel), "ROWS": config.rows, "STRIP": config.strip,
            "VECTOR": config.vector,
        }  # fmt: skip
        own = f"registers of a thread: {config.rows} x {config.strip * config.vector} results"
        return self.emitter.finish(
            self.group,
            constants=constants,
            assertions=(("BLOCKS * THREADS * ROWS * STRIP * VECTOR >= RESULTS", "every result has a thread"),),
            placements={s.name: own for s in self.program.statements},
        )
