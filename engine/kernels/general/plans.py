"""Ways to run a schedule tree on a grid: which dimensions are threads, blocks, or shared by the threads of a block."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.fusion.stitching.shared_memory import stitched_limit
from engine.graph.nodes import DTYPES
from engine.kernels.general.config import GeneralConfig
from engine.kernels.general.mapping import ThreadDimension, ThreadMapping, map_threads
from engine.kernels.general.mark_requests import MarkRequests
from engine.kernels.general.paths import Dimension, Nest, NestLoop, NestSequence, Paths, is_kept, moves, paths
from engine.kernels.general.places import ValuePlace, places, spans_of
from engine.poly.nodes import Dependence
from engine.target import Target
from engine.target.hardware import VECTOR_BYTES, WARP
from engine.tensor.nodes import Statement, TensorProgram

THREADS_ALONE = 128
"""Threads of a block whose threads share nothing."""
THREADS_TOGETHER = 256
"""Threads of a block that share loops."""

TERMS_TOGETHER = 8
"""Terms of a sum that a thread's innermost loop writes out together."""
JAMS = (8, 4)
"""Neighbours along an outer dimension that a thread may compute together, each of them a vector."""

Plan = tuple[GeneralConfig, Mapping[str, ValuePlace]]
"""A configuration, and where its values live."""


@dataclass(frozen=True, slots=True)
class GridPlanner:
    """The configurations of one nest that follow what marks ask for, as far as each can."""

    program: TensorProgram
    nest: Nest
    dependences: Sequence[Dependence]
    requests: MarkRequests
    machine: Target

    def plans(self) -> Iterator[Plan]:
        """All of them."""
        around = paths(self.nest)
        mapping = map_threads(self.program, around, self.dependences)
        where = self._places(around, mapping)
        private = tuple(d for d in mapping.dimensions if all(_is_private(where[s]) for s in where if s not in d.of))
        if private != mapping.dimensions:  # memory holds one copy of a value, not one for each thread that makes it
            mapping = ThreadMapping(private)
            where = self._places(around, mapping)
        yield from self._of_threads(around, mapping, where)
        for count in reversed(range(len(private) + 1)):
            outer = ThreadMapping(private[:count])
            where = self._places(around, outer)
            taken = {d for dimension in outer.dimensions for d in dimension.of.values()}
            shared = dict(_find_shared(self.program, self.nest, taken, where, self.dependences, around))
            if shared:
                yield self._of_blocks(around, outer, where, shared)

    def _places(self, around: Paths, mapping: ThreadMapping) -> dict[str, ValuePlace]:
        """Where values live, in memory where a mark asks for that."""
        found = dict(places(self.program, around, mapping, self.dependences))
        for name, mark in self.requests.scopes.items():
            if mark.value != "register" and not found[name].in_memory:
                found[name] = replace(found[name], readers=frozenset(), in_memory=True)
        return found

    def _of_threads(self, around: Paths, mapping: ThreadMapping, where: Mapping[str, ValuePlace]) -> Iterator[Plan]:
        """Each point is a thread's, one element or vectors."""
        requests = self.requests
        for vector in self._vectors(mapping, where):
            for jammed, jam in self._jams(mapping, vector):
                strips = self._in_strips(mapping, vector, jammed, jam)
                most = THREADS_ALONE if requests.points is None else THREADS_TOGETHER
                threads = requests.threads or min(most, _whole_warps(requests.points or strips.points))
                mapped = {d for own in strips.dimensions for d in own.of.values()}
                unrolled = self._unroll_factors(around, mapped, where)
                placed = {name: "global" for name in where if where[name].in_memory}
                yield (
                    GeneralConfig(
                        strips, threads, self._points(strips), unrolled=unrolled, vector=vector, jam=jam,
                        jammed=jammed, placed=placed,
                    ),
                    where,
                )  # fmt: skip

    def _of_blocks(
        self, around: Paths, mapping: ThreadMapping, where: Mapping[str, ValuePlace],
        shared: Mapping[Dimension, tuple[Dimension, ...]],
    ) -> Plan:  # fmt: skip
        """Each point is a block's, whose threads share loops."""
        requests = self.requests
        mapping = self._in_strips(mapping, 1)
        inside = [d for loops in shared.values() for d in loops]
        strips = {d: min(n, d.extent) for d in inside if (n := requests.neighbours(d)) > 1}
        most = max(math.prod(-(-d.extent // strips.get(d, 1)) for d in loops) for loops in shared.values())
        threads = requests.threads or min(THREADS_TOGETHER, max(WARP, 1 << (most - 1).bit_length()))
        mapped = {d for own in mapping.dimensions for d in own.of.values()}
        unrolled = self._unroll_factors(around, {*mapped, *inside}, where)
        placed = self._place_values(around, mapping, where, inside)
        return (
            GeneralConfig(mapping, threads, self._points(mapping), shared, strips, unrolled, placed=placed), where
        )  # fmt: skip

    def _points(self, mapping: ThreadMapping) -> int:
        return min(self.requests.points or 0, mapping.points)

    def _in_strips(self, mapping: ThreadMapping, vector: int, jammed: str = "", jam: int = 1) -> ThreadMapping:
        """The mapping in strips of as many neighbours as marks ask for, at least vectors along the last dimension."""
        found = []
        for dimension in mapping.dimensions:
            strip = max(map(self.requests.neighbours, dimension.of.values()))
            if dimension.name == jammed:
                strip = jam
            if dimension is mapping.dimensions[-1] and strip == 1:
                strip = vector
            found.append(replace(dimension, strip=min(strip, dimension.extent)))
        return ThreadMapping(tuple(found))

    def _vectors(self, mapping: ThreadMapping, where: Mapping[str, ValuePlace]) -> Iterator[int]:
        """Widths of vectors along the last dimension of a mapping, 1 the last."""
        statements = self.program.statements
        if mapping.dimensions and not any(p.in_memory or not p.collects for p in where.values()):
            last = mapping.dimensions[-1]
            asked = max(self.requests.vectors.get(d, 0) for d in last.of.values())
            sizes = [DTYPES[self.program.arrays[a].dtype] for s in statements for a in (s.write.array, *s.sources)]
            width = math.gcd(last.extent, asked or VECTOR_BYTES // max(sizes), VECTOR_BYTES // min(sizes))
            is_indirect = any(i.is_indirect for s in statements for a in s.reads() for i in a.indices)
            others = asked or any(self.requests.neighbours(d) > 1 for d in last.of.values())
            if width > 1 and not is_indirect and (asked or not others):
                yield width
        yield 1

    def _jams(self, mapping: ThreadMapping, vector: int) -> Iterator[tuple[str, int]]:
        """(name, neighbours) of an outer dimension that a thread may compute together; none the last.

        That of which most terms are the same at all its values: vectors of them are loaded once for all neighbours.
        """
        names = [d.name for d in mapping.dimensions]
        if vector > 1:
            outer = [d for d in mapping.dimensions[:-1] if len(d.of) == len(self.program.statements)]
            free = [d for d in outer if names.count(d.name) == 1 and not any(map(self._is_asked, d.of.values()))]
            jammed = max(free, key=lambda d: (self._shared_loads(d), names.index(d.name)), default=None)
            if jammed is not None and self._shared_loads(jammed):
                yield from ((jammed.name, jam) for jam in JAMS if jammed.extent % jam == 0)
        yield "", 1

    def _is_asked(self, dimension: Dimension) -> bool:
        return self.requests.neighbours(dimension) > 1 or dimension in self.requests.beside

    def _shared_loads(self, dimension: ThreadDimension) -> int:
        """Accesses to terms of sums that are the same at all values of a dimension."""
        sums = [s for s in self.program.statements if s.reduction is not None]
        return sum(
            not any(moves(index, dimension.of[s.name].row(s).iterators()) for index in access.indices)
            for s in sums for access in s.reads()
        )  # fmt: skip

    def _unroll_factors(
        self, around: Paths, mapped: set[Dimension], where: Mapping[str, ValuePlace]
    ) -> dict[Dimension, int]:
        """Iterations that are written out of the loops that threads walk by themselves.

        Where nothing is asked for, some of the innermost loop over terms: their loads are under way together.
        """
        loops = dict.fromkeys(d for path in around.values() for d in path if d not in mapped and d.extent > 1)
        asked = {*self.requests.vectors, *self.requests.unrolled}
        found = {d: min(TERMS_TOGETHER, d.extent) for d in loops if self._is_inside(d, around, where)}
        return {d: self.requests.neighbours(d) if d in asked else found[d] for d in loops if d in asked or d in found}

    def _is_inside(self, dimension: Dimension, around: Paths, where: Mapping[str, ValuePlace]) -> bool:
        """Whether a loop is the innermost of every statement in it, and goes over terms that a register collects."""
        among = [self.program.statement(name) for name, path in around.items() if dimension in path]
        return all(
            s.reduction is not None and where[s.name].collects and where[s.name].loops[-1:] == (dimension,)
            and moves(dimension.row(s), s.reduction.iterators)
            for s in among
        )  # fmt: skip

    def _place_values(
        self, around: Paths, mapping: ThreadMapping, where: Mapping[str, ValuePlace], inside: Collection[Dimension]
    ) -> dict[str, str]:
        """Which of the values in memory a block has room for, those asked for first, then the smallest."""
        room = stitched_limit(self.machine)
        program, scopes = self.program, {name: mark.value for name, mark in self.requests.scopes.items()}
        writers = [s.write.array for s in program.statements]
        sizes: dict[str, int] = {}
        for statement in program.statements:
            array = statement.write.array
            is_own = array not in program.outputs and array not in program.inputs and writers.count(array) == 1
            near = where[statement.name].readers
            readers = [s for s in program.statements if array in s.sources and s.name not in near]
            has_meetings = all(_meet_between(statement, reader, where, inside) for reader in readers)
            wanted = is_own and has_meetings and scopes.get(statement.name) != "global"
            if where[statement.name].in_memory and wanted:
                spans = spans_of(program, around, mapping, array)
                sizes[statement.name] = math.prod(s.size for s in spans) * DTYPES[program.arrays[array].dtype]
        found = {name: "global" for name in where if where[name].in_memory}
        for name in sorted(sizes, key=lambda s: (scopes.get(s) != "shared", sizes[s])):
            size = -(-sizes[name] // VECTOR_BYTES) * VECTOR_BYTES
            if size <= room:
                room -= size
                found[name] = "shared"
        return found


def _meet_between(
    writer: Statement, reader: Statement, where: Mapping[str, ValuePlace], shared: Collection[Dimension]
) -> bool:
    """Whether the threads of the block meet between a store and a load of its element, and before it is overwritten."""
    common = set(where[writer.name].loops) & set(where[reader.name].loops)
    meets_again = reader.reduction is None or not set(where[reader.name].loops).isdisjoint(shared)
    return writer is not reader and common.isdisjoint(shared) and (not common or meets_again)


def _whole_warps(threads: int) -> int:
    return -(-threads // WARP) * WARP


def _is_private(place: ValuePlace) -> bool:
    return place.collects and not place.in_memory


def _find_shared(
    program: TensorProgram,
    nest: Nest,
    taken: set[Dimension],
    where: Mapping[str, ValuePlace],
    dependences: Sequence[Dependence],
    around: Paths,
) -> Iterator[tuple[Dimension, tuple[Dimension, ...]]]:
    """The outermost loops, not `taken`, whose iterations threads may run in any order, each with those just inside."""
    match nest:
        case NestSequence(parts):
            for part in parts:
                yield from _find_shared(program, part, taken, where, dependences, around)
        case NestLoop(dimension, _, body):
            if dimension in taken or dimension.extent == 1 or not _is_free(program, nest, nest, where, dependences):
                yield from _find_shared(program, body, taken, where, dependences, around)
                return
            loops = [dimension]
            inner = body
            while isinstance(inner, NestLoop):
                if inner.dimension not in taken and inner.dimension.extent > 1:
                    if not _is_free(program, inner, nest, where, dependences):
                        break
                    loops.append(inner.dimension)
                inner = inner.body
            yield dimension, tuple(loops)


def _is_free(
    program: TensorProgram,
    loop: NestLoop,
    first: NestLoop,
    where: Mapping[str, ValuePlace],
    dependences: Sequence[Dependence],
) -> bool:
    """Whether the iterations of a loop need nothing from one another but the sums that `first` begins."""
    among = set(loop.statements)
    for name in among:
        statement, place = program.statement(name), where[name]
        row = loop.dimension.row(statement)
        if not row.terms:
            return False
        if statement.reduction and moves(row, statement.reduction.iterators):
            begins = place.collects and place.loops[place.ready : place.ready + 1] == (first.dimension,)
            if not begins or not statement.reduction.associative:
                return False
    rows = {name: loop.dimension.row(program.statement(name)) for name in among}
    inside = (d for d in dependences if d.source in among and d.sink in among)
    return all(is_kept(d, program, rows[d.source], rows[d.sink]) for d in inside)
