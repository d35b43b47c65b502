"""Scatters in two launches: updates take places in bins of their destinations; each destination joins its bin.

    launch 1   bins[k, count[k]++] = u                     for each update u and the k that its index names
    launch 2   for each k: the numbers of its bin in ascending order;  y[k, d] = f(sum of update[u, d] in that order)

Threads take places in any order, so a bin is sorted before floats are added: results do not differ between runs.
Operations whose result no order changes take the bin as it is.  A destination with more updates than a bin holds
searches all of them, in order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator as Generator
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from engine.fusion.nodes import FusionGroup
from engine.graph.nodes import DTYPES
from engine.kernels.reduction.block_reduce import Accumulator, accumulate, accumulator, round_result
from engine.kernels.scatter.config import TOGETHER, ScatterConfig, expected_updates
from engine.kernels.statement_block import BlockOptions, evaluate_block
from engine.tensor.index import Index, delinearize, linear
from engine.tensor.nodes import Access, Apply, Iterator, Literal, Position, Scalar, Statement, accesses
from engine.tensor.scatter import Scatter
from engine.tensor.traffic import compulsory_bytes
from engine.tile.emit import LANE_OF_VECTOR, Emitter, at
from engine.tile.nodes import (
    BLOCK,
    THREAD,
    Buffer,
    LeaveUnless,
    Load,
    Needs,
    Slot,
    Store,
    TakeNumber,
    TileProgram,
    WarpSync,
)

COUNTS, BINS, HELD, ORDERED = "counts", "bins", "bin_of_team", "ordered"
"""Buffers: updates of each destination, their numbers, those of one bin as they came, and in ascending order."""
TAKING_THREADS = 256
"""Of a block in which updates take places."""
UPDATE = "update"
"""The register that holds an update's number."""


def lower_scatter(group: FusionGroup, scatter: Scatter, config: ScatterConfig) -> TileProgram:
    """Both launches."""
    name, names = group.program.name, tuple(s.name for s in group.program.statements)
    first = replace(_TakePlaces(group, scatter, config).tile(), name=f"{name}_1", statements=names[:1])
    second = replace(_JoinUpdates(group, scatter, config).tile(), name=f"{name}_2", statements=names)
    return replace(first, later=(second,), placements=second.placements)


class _ScatterLaunch:
    """What both launches are made from."""

    def __init__(self, group: FusionGroup, scatter: Scatter, config: ScatterConfig, grid: int, threads: int) -> None:
        self.group, self.program, self.scatter, self.config = group, group.program, scatter, config
        reduction = scatter.statement.reduction
        assert reduction is not None
        # Elements without updates are joined with nothing else: sums begin with what stands for that.
        begun = replace(reduction, identity=scatter.neutral.value)
        self.statement = replace(scatter.statement, reduction=begun)
        self.link = at(self.statement, *(i.name for i in self.statement.iterators))
        self.emitter = Emitter(self.program, grid, threads)
        self.sizes = tuple(i.extent for i in scatter.destinations)
        self.count = math.prod(self.sizes)
        self.emitter.buffers[COUNTS] = Buffer(COUNTS, "int32", (self.count,), "workspace")
        self.emitter.buffers[BINS] = Buffer(BINS, "int32", (self.count, config.capacity), "workspace")
        self.emitter.masked = frozenset(i.name for s in self.program.statements for i in s.iterators)

    def number_of(self, update: Sequence[Index]) -> Index:
        """The number of an update among those of its column."""
        return linear(update, tuple(i.extent for i in self.statement.reduced))

    def finish(self, constants: Mapping[str, int], needs: Needs) -> TileProgram:
        """The launch of all that was added."""
        kept = "register: each destination joins its updates in ascending order"
        placements = {s.name: kept for s in self.program.statements}
        sizes = {"DESTINATIONS": self.count, "CAPACITY": self.config.capacity, **constants}
        tile = self.emitter.finish(self.group, constants=sizes, placements=placements)
        return replace(tile, needs=needs, config=self.config)

    @property
    def bytes_of_numbers(self) -> int:
        """Of the numbers of all updates in bins, and of the counts."""
        columns = math.prod(i.extent for i in self.scatter.columns)
        return 4 * (self.scatter.updates * columns + self.count)


class _TakePlaces(_ScatterLaunch):
    """Each thread puts the number of one update into the bin of its destination."""

    def __init__(self, group: FusionGroup, scatter: Scatter, config: ScatterConfig) -> None:
        self.points = (*scatter.columns, *scatter.statement.reduced)
        self.total = math.prod(i.extent for i in self.points)
        super().__init__(group, scatter, config, -(-self.total // TAKING_THREADS), TAKING_THREADS)

    def tile(self) -> TileProgram:
        emitter, link, capacity = self.emitter, self.link, self.config.capacity
        point = emitter.bind("point", Index.of(BLOCK) * TAKING_THREADS + Index.of(THREAD), link)
        inside = emitter.mask("inside", [Index((), self.total - 1) - point], link)
        emitter.extents["point"] = self.total
        where = self._where(point)
        named = {name: self._place(name, value, where, inside) for name, value in self.scatter.places}
        mask = emitter.mask(
            "named", [Index((), i.extent - 1) - named[i.name] for i in self.scatter.keys], link, (inside,)
        )
        for key in self.scatter.keys:
            emitter.extents[str(named[key.name])] = key.extent
        values = where | named
        bin_ = emitter.bind("bin", linear([values[i.name] for i in self.scatter.destinations], self.sizes), link)
        number = emitter.register("number", "int32")
        emitter.extents[number] = self.total + 1
        emitter.add(TakeNumber(Slot(number), COUNTS, bin_, capacity, mask, link))
        fits = emitter.mask("fits", [Index((), capacity - 1) - Index.of(number)], link, (mask,))
        emitter.extents[number] = capacity
        own = emitter.register(UPDATE, "int32")
        update = self.number_of([where[i.name] for i in self.statement.reduced])
        emitter.declare(own, Position(update, "int32"))
        emitter.add(Store(BINS, bin_ * capacity + Index.of(number), Slot(own), 1, fits, link))
        sources = {self.program.arrays[a.array] for a in self._index_reads()}
        read = sum(array.elements * DTYPES[array.dtype] for array in sources)
        return self.finish({"UPDATES": self.total}, Needs(self.total, read, self.bytes_of_numbers))

    def _index_reads(self) -> list[Access]:
        """What the indices are read from."""
        return [access for _, value in self.scatter.places for access in accesses(value)]

    def _where(self, point: Index) -> dict[str, Index]:
        """The iterators of a point; those along which the indices lie side by side are the last."""
        emitter = self.emitter
        places = delinearize(point, tuple(i.extent for i in self._by_axes()), emitter.extents)
        return {i.name: emitter.bind(i.name, p, self.link) for i, p in zip(self._by_axes(), places, strict=True)}

    def _by_axes(self) -> tuple[Iterator, ...]:
        """The iterators of the updates in the order of the indices' axes."""
        order = [n for access in self._index_reads() for index in access.indices for n in index.iterators()]
        return tuple(sorted(self.points, key=lambda i: order.index(i.name) if i.name in order else -1))

    def _place(self, name: str, value: Scalar, where: Mapping[str, Index], inside: str | None) -> Index:
        """The value that an index names, past the last one where it names none."""
        emitter = self.emitter
        extent = next(i.extent for i in self.scatter.keys if i.name == name)
        found = emitter.register(f"named_{name}", "int64")
        emitter.declare(found, emitter.expression(value, {}, where, self.link, inside))
        own = Access(found, ())
        none, past = Literal(0, "int64"), Literal(extent, "int64")
        tests = Apply("greater_equal", (own, none), "bool"), Apply("less", (own, past), "bool")
        chosen = Apply("select", (Apply("and", tests, "bool"), own, past), "int64")
        place = emitter.register(f"place_{name}", "int32")
        emitter.declare(place, Apply("cast", (chosen,), "int32"))
        emitter.extents[place] = extent + 1
        return Index.of(place)


class _JoinUpdates(_ScatterLaunch):
    """Some lanes of a warp join the updates of one destination, each for its part of the features."""

    def __init__(self, group: FusionGroup, scatter: Scatter, config: ScatterConfig) -> None:
        count = math.prod(i.extent for i in scatter.destinations)
        super().__init__(group, scatter, config, -(-count // config.teams), config.threads)
        self.emitter.vector = self.emitter.extents[LANE_OF_VECTOR] = config.vector
        self.expected = min(max(1, expected_updates(scatter)), config.capacity)

    def tile(self) -> TileProgram:
        emitter, link, config = self.emitter, self.link, self.config
        thread = Index.of(THREAD)
        self.team = emitter.bind("team", thread.floordiv(config.lanes, emitter.extents), link)
        self.lane = emitter.bind("lane", thread.mod(config.lanes, emitter.extents), link)
        bin_ = emitter.bind("bin", Index.of(BLOCK) * config.teams + self.team, link)
        inside = emitter.mask("inside", [Index((), self.count - 1) - bin_], link)
        emitter.extents[str(bin_)] = self.count
        self._count(bin_, inside)
        if self.scatter.in_order:
            for name in (HELD, ORDERED):
                emitter.buffers[name] = Buffer(name, "int32", (config.teams * config.apart,), "shared")
            self._sort(bin_)
            emitter.add(WarpSync(link))
        places = delinearize(bin_, self.sizes, emitter.extents)
        bound = [emitter.bind(i.name, p, link) for i, p in zip(self.scatter.destinations, places, strict=True)]
        self.where = dict(zip((i.name for i in self.scatter.destinations), bound, strict=True))
        self._join(bin_, inside)
        read, written = compulsory_bytes(self.program)
        elements = math.prod(i.extent for i in (*self.scatter.columns, *self.scatter.features)) * self.scatter.updates
        flops = elements + self.count * math.prod(i.extent for i in self.scatter.features) * len(self.scatter.followers)
        constants = {"LANES": config.lanes, "VECTOR": config.vector}
        return self.finish(constants, Needs(flops, read + self.bytes_of_numbers, written))

    def _count(self, bin_: Index, inside: str | None) -> None:
        """How many updates the bin has, and how many of them are joined from it; the counter is zero again."""
        emitter, link, config = self.emitter, self.link, self.config
        self.came = emitter.register("came", "int32")
        emitter.add(Load(Slot(self.came), COUNTS, bin_, 1, inside, Literal(0, "int32"), link))
        emitter.add(WarpSync(link))
        zero = emitter.register("zero", "int32")
        emitter.declare(zero, Literal(0, "int32"))
        first = emitter.mask("first", [self.lane * -1], link, (inside,))
        emitter.add(Store(COUNTS, bin_, Slot(zero), 1, first, link))
        emitter.extents[self.came] = self.scatter.updates + 1
        most = Literal(config.capacity, "int32")
        fits = Apply("less_equal", (Access(self.came, ()), most), "bool")
        held = Apply("select", (fits, Access(self.came, ()), Literal(0, "int32")), "int32")
        self.held = emitter.register("held", "int32")
        emitter.declare(self.held, held)
        emitter.extents[self.held] = config.capacity + 1

    def _sort(self, bin_: Index) -> None:
        """Each number goes to the place that its rank in the bin says."""
        emitter, link, config = self.emitter, self.link, self.config
        start = self.team * config.apart
        with self._own_places("turn") as (own, has):
            came = emitter.register("number", "int32")
            emitter.add(Load(Slot(came), BINS, bin_ * config.capacity + own, 1, has, None, link))
            emitter.add(Store(HELD, start + own, Slot(came), 1, has, link))
        emitter.add(WarpSync(link))
        with self._own_places("again") as (own, has):
            mine, rank = emitter.register("mine", "int32"), emitter.register("rank", "int32")
            emitter.add(Load(Slot(mine), HELD, start + own, 1, has, None, link))
            emitter.declare(rank, Literal(0, "int32"))
            with emitter.loop("other", config.capacity, link, unroll=False) as other:
                self._below(other, "is_other", self.expected, config.capacity)
                theirs = emitter.register("theirs", "int32")
                emitter.add(Load(Slot(theirs), HELD, start + other, 1, None, None, link))
                is_before = Apply("less", (Access(theirs, ()), Access(mine, ())), "bool")
                one = Apply("select", (is_before, Literal(1, "int32"), Literal(0, "int32")), "int32")
                emitter.assign(Slot(rank), one, link, "sum")
            emitter.extents[rank] = config.capacity
            emitter.add(Store(ORDERED, start + Index.of(rank), Slot(mine), 1, has, link))

    @contextmanager
    def _own_places(self, name: str) -> Generator[tuple[Index, str | None]]:
        """Every place of the bin that is this lane's, and the mask that says whether the bin fills it."""
        emitter, lanes = self.emitter, self.config.lanes
        turns = self.config.capacity // lanes
        with emitter.loop(name, turns, self.link, unroll=False) as turn:
            own = emitter.bind("own", turn * lanes + self.lane, self.link)
            yield own, self._below(own, "is_held", -(-self.expected // lanes), turns)

    def _below(self, place: Index, name: str, expected: int, of: int) -> str | None:
        """The mask of a place that the bin fills; the loop around, of `of` iterations, is left where it does not."""
        mask = self.emitter.mask(name, [Index.of(self.held) - 1 - place], self.link)
        self._leave_unless(mask, (min(expected, of), of))
        return mask

    def _leave_unless(self, mask: str | None, expected: tuple[int, int]) -> None:
        """Leave the loop around where a mask fails; one iteration is no loop."""
        if mask is not None and expected[1] > 1:
            self.emitter.add(LeaveUnless(mask, expected, self.link))

    def _join(self, bin_: Index, inside: str | None) -> None:
        """The result for each part of the features, and what follows from it."""
        emitter, link, config, features = self.emitter, self.link, self.config, self.scatter.features
        width = math.prod(i.extent for i in features)
        portion = config.lanes * config.vector
        with emitter.loop("part", -(-width // portion), link, unroll=False) as part:
            feature = emitter.bind("feature", part * portion + self.lane * config.vector, link)
            mask = emitter.mask("present", [Index((), width - 1) - feature], link, (inside,))
            if feature.terms and width > 1:
                emitter.extents[str(feature)] = width
            where = self.where | self._features(feature)
            total = accumulator(emitter, self.statement, config.vector)
            self._join_bin(bin_, where, mask, total)
            self._search(where, mask, total)
            self._store(where, total.total, mask)

    def _features(self, feature: Index) -> dict[str, Index]:
        """The iterators of a thread's features, the lane of a vector added to the last."""
        emitter, features = self.emitter, self.scatter.features
        places = list(delinearize(feature, tuple(i.extent for i in features), emitter.extents))
        found = {i.name: emitter.bind(i.name, p, self.link) for i, p in zip(features, places, strict=True)}
        if self.config.vector > 1:
            found[features[-1].name] += Index.of(LANE_OF_VECTOR)
        return found

    def _join_bin(self, bin_: Index, where: dict[str, Index], mask: str | None, total: Accumulator) -> None:
        """Some updates of the bin at a time: their elements are asked for, then joined one after the other."""
        emitter, link, config = self.emitter, self.link, self.config
        groups, source = config.capacity // TOGETHER, ORDERED if self.scatter.in_order else BINS
        start = self.team * config.apart if self.scatter.in_order else bin_ * config.capacity
        with emitter.loop("group", groups, link, unroll=False) as group:
            self._below(group * TOGETHER, "is_begun", -(-self.expected // TOGETHER), groups)
            with emitter.loop("entry", TOGETHER, link) as entry:
                place = emitter.bind("place", group * TOGETHER + entry, link)
                has = emitter.mask("has", [Index.of(self.held) - 1 - place], link, (mask,))
                number = emitter.register(UPDATE, "int32")
                emitter.add(Load(Slot(number), source, start + place, 1, has, Literal(0, "int32"), link))
                emitter.extents[number] = self.scatter.updates
                self._accumulate(self.scatter.update, where | self._update(Index.of(number)), has, total)

    def _search(self, where: dict[str, Index], mask: str | None, total: Accumulator) -> None:
        """Of a destination whose bin cannot hold its updates: all updates in order, those of others left out."""
        emitter, link = self.emitter, self.link
        crowded = [Index.of(self.came) - (self.config.capacity + 1)]
        emitter.extents[self.came] = max(self.scatter.updates, self.config.capacity + 1) + 1
        is_crowded = emitter.mask("is_crowded", crowded, link, (mask,))
        # Seldom run: written out, it would take registers from what every destination does.
        with emitter.loop("searched", self.scatter.updates, link, unroll=1) as searched:
            self._leave_unless(is_crowded, (0, self.scatter.updates))
            self._accumulate(self.statement.expression, where | self._update(searched), is_crowded, total)

    def _update(self, number: Index) -> dict[str, Index]:
        """The iterators of an update."""
        reduced = self.statement.reduced
        places = delinearize(number, tuple(i.extent for i in reduced), self.emitter.extents)
        return {i.name: self.emitter.bind(i.name, p, self.link) for i, p in zip(reduced, places, strict=True)}

    def _accumulate(self, value: Scalar, where: Mapping[str, Index], mask: str | None, total: Accumulator) -> None:
        emitter = self.emitter
        term = emitter.expression(value, {}, where, self.link, mask)
        with emitter.loop(LANE_OF_VECTOR, self.config.vector, self.link):
            accumulate(emitter, self.statement, total, term, mask, self.link)

    def _store(self, where: Mapping[str, Index], total: Access, mask: str | None) -> None:
        """The result as its array holds it, and what follows."""
        emitter, statement, outputs = self.emitter, self.statement, frozenset(self.program.outputs)
        result = round_result(emitter, statement, total, self.link)
        if statement.write.array in outputs:
            emitter.store(statement, where, result, mask, self.link)
        point = [where[i.name] for i in statement.parallel]

        def place(follower: Statement) -> dict[str, Index]:
            return dict(zip((i.name for i in follower.parallel), point, strict=True))

        options = BlockOptions(mask, mask, outputs, lanes=True)
        evaluate_block(emitter, self.scatter.followers, place, {statement.write.array: result}, options)
