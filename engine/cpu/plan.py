"""How the threads and vectors of a CPU run a part of a schedule: which dimensions are points that threads share, and
which one the lanes of a vector walk.

    rows      band i, band k: sum(k) x[i, k]      threads share i; lanes walk k and join their sums
    columns   band j, band i: sum(i) x[i, j]      threads share strips of j; lanes walk a strip, each with its sum
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.graph.nodes import DTYPES
from engine.kernels.general.mapping import ThreadDimension, ThreadMapping, map_threads
from engine.kernels.general.paths import Dimension, Nest, Paths, is_kept, moves, paths
from engine.kernels.general.places import ValuePlace, places, spans_of
from engine.poly.nodes import Dependence
from engine.target.cpu import CpuTarget
from engine.tensor.index import Index, linear
from engine.tensor.nodes import Access, Statement, TensorProgram
from engine.tile.emit import Span

STRIP_VECTORS = 4
"""Vectors of a strip of columns: as many sums are under way as an addition takes clocks."""
CHUNK = 16 * 1024
"""Elements of the last dimension that a thread takes at once where there are no outer points to share."""
STACK_BYTES = 128 * 1024
"""Of a thread's own part of an intermediate; what is larger is kept in memory of the thread's own."""


@dataclass(frozen=True, slots=True)
class Local:
    """A thread's own part of an intermediate: the axes that its point does not settle, and the lanes of a strip."""

    spans: tuple[Span, ...]
    lanes: int
    """Side by side at each place, as each lane has a point of its own; 1 where no lanes walk the points."""
    bytes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a lane's part."""
        return tuple(span.size for span in self.spans)


@dataclass(frozen=True, slots=True)
class RegionPlan:
    """One parallel region."""

    program: TensorProgram
    nest: Nest
    around: Paths
    points: ThreadMapping
    """What threads share; the last dimension in strips of `strip` where lanes or chunks walk it."""
    lane: ThreadDimension | None
    """The dimension whose strips are walked by lanes, each statement for itself."""
    strip: int
    """Values of the last dimension of `points` that one thread takes; 1 where it is not divided."""
    where: Mapping[str, ValuePlace]
    locals: Mapping[str, Local]
    dependences: tuple[Dependence, ...]

    @property
    def tasks(self) -> int:
        """Points that threads share."""
        last = self.points.dimensions[-1].extent if self.points.dimensions and self.strip > 1 else 1
        return self.points.points // last * -(-last // self.strip)


def plan_region(
    program: TensorProgram, nest: Nest, dependences: tuple[Dependence, ...], machine: CpuTarget, strip: int = 0
) -> RegionPlan:
    """The plan of one region.  strip: elements of a strip of columns or of a chunk; 0 for the plan's own choice."""
    around = paths(nest)
    mapping = map_threads(program, around, dependences)
    where = places(program, around, mapping, dependences)
    private = [d for d in mapping.dimensions if all(_is_private(where[s]) for s in where if s not in d.of)]
    outer, lane, width = list(private), None, 1
    if private:
        mapped = {d for own in private for d in own.of.values()}
        inner = [d for path in around.values() for d in path if d.extent > 1 and d not in mapped]
        last = private[-1]
        if not inner:
            outer = outer[:-1]
            if math.prod(d.extent for d in outer) < machine.cores.value * 4 and last.extent > CHUNK:
                outer, width = private, strip or CHUNK
        elif len(last.of) == len(around) and (
            _contiguous(program, last) > _contiguous_in(program, around, inner)
            or (max(d.extent for d in inner) < machine.lanes <= last.extent)
        ):
            lane, width = last, min(last.extent, strip or STRIP_VECTORS * machine.lanes)
    points = ThreadMapping(tuple(outer))
    where = places(program, around, points, dependences)
    locals_ = dict(_locals(program, around, points, where, width if lane else 1))
    return RegionPlan(program, nest, around, points, lane, width, where, locals_, dependences)


def _is_private(place: ValuePlace) -> bool:
    return place.collects and not place.in_memory


def _locals(
    program: TensorProgram, around: Paths, points: ThreadMapping, where: Mapping[str, ValuePlace], lanes: int
) -> Iterator[tuple[str, Local]]:
    """What is made and read at one point of the threads' dimensions alone."""
    for statement in program.statements:
        array = statement.write.array
        writers = [s for s in program.statements if s.write.array == array]
        if array in program.outputs or array in program.inputs or len(writers) > 1:
            continue
        if where[statement.name].in_memory and where[statement.name].collects:
            spans = spans_of(program, around, points, array)
            elements = math.prod(span.size for span in spans) * lanes
            yield array, Local(spans, lanes, elements * DTYPES[program.arrays[array].dtype])


def _contiguous(program: TensorProgram, dimension: ThreadDimension) -> int:
    """Accesses at neighbouring elements for neighbouring values of a dimension of all statements, by their points."""
    return sum(
        s.points for s in program.statements for access in (*s.reads(), s.write)
        if s.name in dimension.of and _steps_by_one(program, access, dimension.of[s.name], s)
    )  # fmt: skip


def _contiguous_in(program: TensorProgram, around: Paths, inner: Sequence[Dimension]) -> int:
    """The same for the innermost loop of each statement."""
    total = 0
    for statement in program.statements:
        own = [d for d in around[statement.name] if d in inner]
        if own:
            reads = (*statement.reads(), statement.write)
            total += sum(statement.points for a in reads if _steps_by_one(program, a, own[-1], statement))
    return total


def _steps_by_one(program: TensorProgram, access: Access, dimension: Dimension, statement: Statement) -> bool:
    row = dimension.row(statement)
    if len(row.terms) != 1 or not isinstance(row.terms[0][0], str):
        return False
    position: Index = linear(access.indices, program.arrays[access.array].shape)
    return abs(position.coefficient(row.terms[0][0])) == 1


def is_vector_loop(plan: RegionPlan, dimension: Dimension, names: Sequence[str]) -> bool:
    """Whether lanes may walk a loop: nothing passes between its iterations but terms of sums that variables collect."""
    rows = {}
    for name in names:
        statement, place = plan.program.statement(name), plan.where[name]
        rows[name] = row = dimension.row(statement)
        if not row.terms:
            return False
        is_own = place.collects and dimension in place.loops[place.ready :]
        reduction = statement.reduction
        if reduction and moves(row, reduction.iterators) and not (is_own and reduction.associative):
            return False
    inside = (d for d in plan.dependences if d.source in rows and d.sink in rows)
    return all(
        is_kept(d, plan.program, rows[d.source], rows[d.sink])
        for d in inside if d.source != d.sink or plan.program.statement(d.source).reduction is None
    )  # fmt: skip
