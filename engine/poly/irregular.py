"""Dependences between accesses that have no closed form, through isl: guards, divisions, partial and in-place writes.

Sizes are constants here, so every set is bounded.  Each convex piece of the relation becomes one dependence whose
generators are its vertices.  A vertex may be rational, then `one` is its denominator.  islpy is imported by this module
alone, and this module only when it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import islpy

from engine.poly.nodes import Dependence, Generator
from engine.tensor.index import Element, Index, Quotient, Remainder
from engine.tensor.nodes import Statement, TensorProgram

if TYPE_CHECKING:
    from engine.poly.dependences import End

_OPERATIONS = 2_000_000
"""Budget of isl operations for one relation; a few seconds at most."""

MOST_LIFTED = 4
"""Largest number of divisions for which the dependence is exact: sets of more have vertices by the thousand.  More
divisions are projected out, which over-approximates: schedules then keep some pairs in order without need."""

MOST_LOCAL = 2
"""The same for the divisions that are left in one convex piece.  Those of real models have two at most."""

Pair = tuple[tuple[int, ...], tuple[int, ...]]
"""Iterator values of a source instance and a sink instance."""


class _Relation:
    """{[source iterators, sink iterators] : conditions}, written in isl's notation."""

    def __init__(self, source: Statement, sink: Statement) -> None:
        self.names = [{i.name: f"{p}{k}" for k, i in enumerate(s.iterators)} for p, s in (("s", source), ("t", sink))]
        self.hidden: list[str] = []
        self.bounds = [
            f"0 <= {names[i.name]} < {i.extent}"
            for names, statement in zip(self.names, (source, sink), strict=True) for i in statement.iterators
        ]  # fmt: skip
        self.conditions = [*self.bounds]

    @property
    def exact(self) -> bool:
        """Whether no indirect read had to be widened to its bounds."""
        return not self.hidden

    def text(self, index: Index, side: int) -> str:
        """An index in isl's notation; an indirect read becomes an unknown within its bounds."""
        pieces = [str(index.constant)]
        for atom, coefficient in index.terms:
            match atom:
                case str():
                    value = self.names[side][atom]
                case Quotient(of, by):
                    value = f"floor(({self.text(of, side)})/{by})"
                case Remainder(of, by):
                    value = f"(({self.text(of, side)}) mod {by})"
                case Element(_, _, low, high):
                    value = f"h{len(self.hidden)}"
                    self.hidden.append(value)
                    self.conditions.append(f"{low} <= {value} <= {high}")
            pieces.append(f"{coefficient}*{value}")
        return " + ".join(pieces)

    def meet(self, source: End, sink: End) -> None:
        """Add the conditions that both ends execute and touch the same element."""
        for side, end in enumerate((source, sink)):
            for guard in (*end.statement.guards, *end.access.guards):
                self.conditions.append(f"{self.text(guard.index, side)} >= 0")
            if end.reduced != "box":
                for i in end.statement.reduced:
                    value = i.extent - 1 if end.reduced == "last" else 0
                    self.conditions.append(f"{self.names[side][i.name]} = {value}")
        for a, b in zip(source.access.indices, sink.access.indices, strict=True):
            self.conditions.append(f"{self.text(a, 0)} = {self.text(b, 1)}")

    def box(self) -> Any:
        """The isl set of all pairs, whatever they touch."""
        dims = ", ".join([*self.names[0].values(), *self.names[1].values()])
        return islpy.BasicSet(f"{{ [{dims}] : {' and '.join(self.bounds) or 'true'} }}")

    def set(self, extra: Sequence[str] = ()) -> Any:
        """The isl set over (source, sink) iterators."""
        return islpy.Set(self.set_text(extra))

    def set_text(self, extra: Sequence[str] = ()) -> str:
        """That set in isl's notation."""
        dims = ", ".join([*self.names[0].values(), *self.names[1].values()])
        body = " and ".join([*self.conditions, *extra]) or "true"
        if self.hidden:
            body = f"exists ({', '.join(self.hidden)} : {body})"
        return f"{{ [{dims}] : {body} }}"


def connect(names: tuple[str, str, str, str], source: End, sink: End, weight: int) -> Iterator[Dependence]:
    """The dependences (kind, source, sink, array) between two accesses, one for each convex piece."""
    relation = _Relation(source.statement, sink.statement)
    relation.meet(source, sink)
    split = len(source.statement.iterators)
    divisions = sum(index.divisions for end in (source, sink) for index in end.access.indices)
    found = _generators_of(relation.set_text(), split, divisions)
    if found is None:
        # All pairs over-approximate any relation: the sink waits for the whole source.
        yield Dependence(*names, generators(relation.box(), split), (), False, weight)
        return
    for each in found:
        yield Dependence(*names, each, (), relation.exact, weight)


@lru_cache(maxsize=1024)  # advisers and searches compile a group many times
def _generators_of(pairs: str, split: int, divisions: int) -> tuple[tuple[Generator, ...], ...] | None:
    """Generators of each convex piece of a set in isl's notation; None where isl gives up on it."""
    try:
        with _limited_operations():
            whole = islpy.Set(pairs)
            pieces = [] if whole.is_empty() else whole.coalesce().get_basic_sets()
            return tuple(generators(_liftable(piece, divisions), split) for piece in pieces)
    except islpy.Error:
        return None


def _liftable(piece: Any, divisions: int) -> Any:
    """A piece, or one around it without integer divisions, which become rational constraints, where it has too many."""
    if divisions > MOST_LIFTED or piece.dim(islpy.dim_type.div) > MOST_LOCAL:
        return piece.remove_divs()
    return piece


@contextmanager
def _limited_operations() -> Iterator[None]:
    """A block in which isl raises its error after so many operations."""
    context = islpy.DEFAULT_CONTEXT
    context.set_max_operations(_OPERATIONS)
    context.reset_operations()
    try:
        yield
    finally:
        # 0 means no limit; the context is shared with every other use of isl in the process.
        context.set_max_operations(0)


def generators(piece: Any, split: int) -> tuple[Generator, ...]:
    """Vertices of one bounded isl basic set whose first `split` dimensions are the source's iterators.

    Local variables (of divisions) are lifted to dimensions and dropped from the vertices, which projects them out.
    """
    width = piece.dim(islpy.dim_type.set)
    points: list[list[Any]] = []

    def keep(vertex: Any) -> None:
        point = vertex.get_expr()
        points.append([point.get_aff(k).get_constant_val() for k in range(width)])

    # Not isl's coefficients(): dual cones of a dozen constraints take from milliseconds to minutes, uncounted.
    piece.lift().flatten().compute_vertices().foreach_vertex(keep)
    found = set()
    for point in points:
        one = math.lcm(*(value.get_den_val().to_python() for value in point))
        row = [(value * one).to_python() for value in point]
        found.add(Generator(tuple(row[:split]), tuple(row[split:]), (), one))
    return tuple(sorted(found, key=lambda each: (each.source, each.sink, each.one)))


def violating_pair(
    program: TensorProgram,
    dependence: Dependence,
    equal: Sequence[tuple[Index, Index]],
    before: tuple[Index, Index] | None,
    relation: str,
) -> Pair | None:
    """Instances of a dependence at equal values of the `equal` rows whose `before` rows compare wrongly.

    `relation` is "<", ">" or "!=" between sink row and source row; `before` None asks for any pair.  None when there
    is no such pair.
    """
    from engine.poly.dependences import ends

    def relations() -> Iterator[_Relation]:
        if dependence.kind == "reduction":
            yield _term_order(program.statement(dependence.source))
            return
        for source, sink in ends(program, dependence):
            met = _Relation(source.statement, sink.statement)
            met.meet(source, sink)
            yield met

    width = len(program.statement(dependence.source).iterators)
    for pairs in relations():
        extra = [f"{pairs.text(a, 0)} = {pairs.text(b, 1)}" for a, b in equal]
        if before is not None:
            extra.append(f"{pairs.text(before[1], 1)} {relation} {pairs.text(before[0], 0)}")
        found = _sample(pairs.set(extra), width)
        if found is not None:
            return found
    return None


def _term_order(statement: Statement) -> _Relation:
    """Each term of a sum and all later ones of the same sum, in the order of the text."""
    pairs = _Relation(statement, statement)
    reduced = {i.name for i in statement.reduced}
    source, sink = pairs.names
    pairs.conditions += [f"{source[i.name]} = {sink[i.name]}" for i in statement.iterators if i.name not in reduced]
    inner = [i.name for i in statement.iterators if i.name in reduced]
    later = [
        " and ".join([*(f"{source[n]} = {sink[n]}" for n in inner[:k]), f"{source[n]} < {sink[n]}"])
        for k, n in enumerate(inner)
    ]
    pairs.conditions.append(f"({' or '.join(f'({case})' for case in later)})")
    return pairs


def same_point(statement: Statement, rows: Sequence[Index]) -> Pair | None:
    """Two different instances of a statement that all `rows` send to the same point; None when there are none."""
    pairs = _Relation(statement, statement)
    extra = [f"{pairs.text(row, 0)} = {pairs.text(row, 1)}" for row in rows]
    source, sink = (list(names.values()) for names in pairs.names)
    differs = " or ".join(f"{a} < {b}" for a, b in zip(source, sink, strict=True))
    return _sample(pairs.set([*extra, f"({differs})"]), len(source)) if differs else None


def _sample(pairs: Any, split: int) -> Pair | None:
    if pairs.is_empty():
        return None
    # The lexicographic minimum makes the witness deterministic and small.
    point = pairs.lexmin().sample_point()
    width = pairs.dim(islpy.dim_type.set)
    values = [point.get_coordinate_val(islpy.dim_type.set, k).to_python() for k in range(width)]
    return tuple(values[:split]), tuple(values[split:])
