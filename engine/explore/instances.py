"""Statement instances: their time stamps, the elements that they access, and the dependences between them."""

from __future__ import annotations

from collections.abc import Iterator as Iterates
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from engine.poly.dependences import FIRST, LAST, End, ends
from engine.poly.nodes import Dependence
from engine.scheduling.timeline import TimeComponent, Timeline
from engine.tensor.index import Index
from engine.tensor.nodes import Guard, Iterator, Statement, TensorProgram


@dataclass(frozen=True, slots=True)
class StatementInstance:
    """One statement instance of a picture."""

    statement: Statement
    values: tuple[int, ...]
    """Of its iterators."""
    position: tuple[int, ...]
    """Along the axes of the picture."""

    def __str__(self) -> str:
        named = (f"{i.name}={value}" for i, value in zip(self.statement.iterators, self.values, strict=True))
        return f"{self.statement.name}({', '.join(named)})"


def instances(statement: Statement, rows: Sequence[Index | None], shown: Sequence[int]) -> Iterates[StatementInstance]:
    """The instances of a statement whose `rows` lie in 0 .. shown - 1, iterators outside the rows at 0.

    rows: one for each axis; None for an axis that the statement does not have: it stands at 0 there.
    """
    drawn = [(row, size) for row, size in zip(rows, shown, strict=True) if row is not None]
    ranges = [_values(i, drawn) for i in statement.iterators]
    names = [i.name for i in statement.iterators]
    for values in product(*ranges):
        at = dict(zip(names, values, strict=True))
        position = tuple(0 if row is None else evaluate(row, at) or 0 for row in rows)
        if all(0 <= p < n for p, n in zip(position, shown, strict=True)):
            yield StatementInstance(statement, values, position)


def _values(iterator: Iterator, drawn: Sequence[tuple[Index, int]]) -> range:
    """The values of an iterator that may be drawn: those that its own row puts on the axis, else the first few."""
    for row, size in drawn:
        factor = row.coefficient(iterator.name)
        if factor == -1 and len(row.terms) == 1:  # runs backwards: its first values on the axis are the last ones
            return range(max(0, row.constant - size + 1), min(iterator.extent, row.constant + 1))
        if factor:
            return range(min(iterator.extent, size))
    return range(min(iterator.extent, 1))


def evaluate(index: Index, at: Mapping[str, int]) -> int | None:
    """An index at concrete iterator values; None where it is read from memory."""
    if index.is_indirect:
        return None
    return int(index.evaluate(lambda atom: at[str(atom)]))


Stamp = tuple[int, ...]


def stamp(instance: StatementInstance, timeline: Timeline) -> Stamp:
    """When an instance runs, component by component."""
    return tuple(step.row.constant + sum(c * instance.values[k] for k, c in step.terms) for step in timeline)


def in_turn(stamp: Stamp, timeline: Timeline) -> Stamp:
    """The same with parallel dimensions left out: equal for instances that may run at the same time."""
    return tuple(0 if _is_parallel(step) else value for value, step in zip(stamp, timeline, strict=True))


def runs_before(first: Stamp, second: Stamp, timeline: Timeline) -> bool:
    """Whether a schedule promises that `first` has run when `second` starts; `timeline` is that of one of them."""
    for a, b, step in zip(first, second, timeline, strict=False):
        if a != b:
            return a < b and not _is_parallel(step)
    return False


def _is_parallel(step: TimeComponent) -> bool:
    return step.member is not None and step.member.parallel


def pairs(
    program: TensorProgram, dependence: Dependence, points: Mapping[str, Sequence[StatementInstance]]
) -> Iterates[tuple[StatementInstance, StatementInstance]]:
    """(source, sink) among the points that a dependence joins: both touch the same element.

    An index that is read from memory may be any.  Where a reduction has a fixed order, its last term shown stands for
    its last term.
    """
    if dependence.kind == "reduction":
        yield from _successors(points[dependence.source])
        return
    for source, sink in ends(program, dependence):
        known = [
            not (a.is_indirect or b.is_indirect)
            for a, b in zip(source.access.indices, sink.access.indices, strict=True)
        ]
        touching: dict[tuple[int | None, ...], list[StatementInstance]] = {}
        for instance in _touching(sink, points[dependence.sink]):
            touching.setdefault(_element(sink, instance, known), []).append(instance)
        for instance in _touching(source, points[dependence.source]):
            for other in touching.get(_element(source, instance, known), ()):
                if other is not instance:
                    yield instance, other


def _element(end: End, instance: StatementInstance, known: Sequence[bool]) -> tuple[int | None, ...]:
    at = _at(instance)
    return tuple(evaluate(i, at) for i, is_known in zip(end.access.indices, known, strict=True) if is_known)


def _at(instance: StatementInstance) -> dict[str, int]:
    return dict(zip((i.name for i in instance.statement.iterators), instance.values, strict=True))


def _touching(end: End, points: Sequence[StatementInstance]) -> Iterates[StatementInstance]:
    """The instances that make this access for others: under its guards, at the first or last term of a reduction."""
    last = {
        i.name: max((p.values[k] for p in points), default=0) if end.reduced == LAST else 0
        for k, i in enumerate(end.statement.iterators)
        if i in end.statement.reduced and end.reduced in (FIRST, LAST)
    }
    for point in points:
        at = _at(point)
        guards = (*end.statement.guards, *end.access.guards)
        if all(at[name] == value for name, value in last.items()) and all(_holds(guard, at) for guard in guards):
            yield point


def _holds(guard: Guard, at: Mapping[str, int]) -> bool:
    value = evaluate(guard.index, at)
    return value is None or value >= 0


def _successors(points: Sequence[StatementInstance]) -> Iterates[tuple[StatementInstance, StatementInstance]]:
    """Each term of a reduction with the next one."""
    chains: dict[tuple[int, ...], list[tuple[tuple[int, ...], StatementInstance]]] = {}
    for point in points:
        statement = point.statement
        kept = [i not in statement.reduced for i in statement.iterators]
        where = tuple(v for v, keep in zip(point.values, kept, strict=True) if keep)
        at = _at(point)
        term = tuple(at[i.name] for i in statement.reduced)
        chains.setdefault(where, []).append((term, point))
    for chain in chains.values():
        ordered = [point for _, point in sorted(chain, key=lambda item: item[0])]
        yield from pairwise(ordered)
