"""Dependence analysis of one group's program; dependences are built directly as generators.

For every array, each pair of accesses in textual order of which at least one writes gives a dependence: flow (write,
then read), anti (read, then overwrite: in-place updates), output (write, then write: parts that overlap).  Affine
accesses over boxes have a closed form (`box`); guards, divisions and partial writes go through isl (`irregular`);
indirect accesses are widened to the box they may touch.

Assumed of every program: one statement writes an element at most once (its write is injective over the iterators that
are not reduced, also when indices are indirect), and a statement that reads the array it writes means the old value.
"""

from __future__ import annotations

from collections.abc import Iterator as Iterator_
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from engine.poly.box import AffineForm, DependenceBox
from engine.poly.nodes import Dependence, Generator
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Iterator, Statement, TensorProgram

BOX, FIRST, LAST = "box", "first", "last"
"""Which instances of an access's reduction iterators take part in a dependence: all, the first, or the last."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a dependence: an access of a statement."""

    statement: Statement
    access: Access
    reduced: str
    """For a reduction in a fixed order: only its first term (as sink) or its last (as source) orders it against other
    statements."""


def dependences(program: TensorProgram) -> tuple[Dependence, ...]:
    """All dependences that a schedule of `program` must preserve, by sink statement in textual order.

    The same array read twice with different indices gives two dependences.
    """
    result: list[Dependence] = []
    readers: dict[str, list[tuple[Statement, Access]]] = {}
    writers: dict[str, list[Statement]] = {}
    for sink in program.statements:
        reads = tuple(dict.fromkeys(sink.reads()))
        for read in reads:
            readers.setdefault(read.array, []).append((sink, read))
            for source in writers.get(read.array, ()):
                result += _connect(program, "flow", _writer(source, LAST), End(sink, read, BOX))
        written = sink.write.array
        for source, read in readers.get(written, ()):
            if source is not sink or read.indices != sink.write.indices or sink.reduction:
                result += _connect(program, "anti", End(source, read, BOX), _writer(sink, FIRST))
        for source in writers.get(written, ()):
            result += _connect(program, "output", _writer(source, LAST), _writer(sink, FIRST))
        writers.setdefault(written, []).append(sink)
        result += _reduction_order(program, sink)
    return tuple(result)


def ends(program: TensorProgram, dependence: Dependence) -> Iterator_[tuple[End, End]]:
    """The pairs of accesses that a flow, anti or output dependence stands for."""
    source, sink = program.statement(dependence.source), program.statement(dependence.sink)
    froms = _reads(source, dependence.array) if dependence.kind == "anti" else (_writer(source, LAST),)
    tos = _reads(sink, dependence.array) if dependence.kind == "flow" else (_writer(sink, FIRST),)
    yield from ((a, b) for a in froms for b in tos)


def _reads(statement: Statement, array: str) -> tuple[End, ...]:
    return tuple(End(statement, read, BOX) for read in dict.fromkeys(statement.reads()) if read.array == array)


def _writer(statement: Statement, at: str) -> End:
    free = statement.reduction is None or statement.reduction.associative
    return End(statement, statement.write, BOX if free else at)


def _connect(program: TensorProgram, kind: str, source: End, sink: End) -> Iterator_[Dependence]:
    """The dependences between two accesses of one array: none if they never touch the same element, several if the
    relation is not convex."""
    if not source.statement.points or not sink.statement.points:
        return
    array = program.arrays[source.access.array]
    names = (kind, source.statement.name, sink.statement.name, array.name)
    # In an anti dependence the write is the sink; the writer is the side whose iterators the indices determine.
    follows, leads = (sink, source) if kind == "anti" else (source, sink)
    guarded = any(end.statement.guards or end.access.guards for end in (source, sink))
    solved = None if guarded else _solve(_AccessSide.of(follows), _AccessSide.of(leads), kind == "anti")
    if solved is None:
        from engine.poly import irregular  # islpy takes an eighth of a second to load, and few groups need it

        yield from irregular.connect(names, source, sink, array.bytes)
    elif solved.generators:
        yield Dependence(*names, solved.generators, solved.symbols, solved.exact, array.bytes)


class _AccessSide(NamedTuple):
    """Key of the closed form at one end.  Statements that differ in array names alone share it."""

    iterators: tuple[Iterator, ...]
    reduction: tuple[str, ...]
    """Reduction iterators fixed at one end of their range."""
    last: bool
    """Which end that is."""
    indices: tuple[Index, ...]

    @staticmethod
    def of(end: End) -> _AccessSide:
        reduction = end.statement.reduction
        fixed = reduction.iterators if reduction and end.reduced != BOX else ()
        return _AccessSide(end.statement.iterators, fixed, end.reduced == LAST, end.access.indices)

    @property
    def extents(self) -> dict[str, int]:
        return {i.name: i.extent for i in self.iterators}


@dataclass(frozen=True, slots=True)
class _Solved:
    """The closed form of a dependence: all of it that does not depend on names."""

    generators: tuple[Generator, ...] = ()
    """Empty if the accesses never touch the same element."""
    symbols: tuple[int, ...] = ()
    exact: bool = True


@lru_cache(maxsize=4096)
def _solve(follows: _AccessSide, leads: _AccessSide, backwards: bool) -> _Solved | None:
    """The closed form of two unguarded affine accesses; None if there is none.  `backwards`: the second access is the
    source.

    `leads` ranges over its box; `follows` writes elements named by distinct iterators, so its values are determined.
    """
    box = DependenceBox()
    leading = _free(box, leads)
    read_in, written_in = leads.extents, follows.extents
    determined: dict[str, AffineForm] = {}
    exact = True
    for write, read in zip(follows.indices, leads.indices, strict=True):
        # The read may touch any element along this axis: the dependence is widened and no longer exact.
        if write.is_indirect or read.is_indirect:
            exact = False
            continue
        # Divisions and sums of iterators in the write have no closed form here: isl handles them.
        if not read.is_affine or not write.is_affine or len(write.terms) > 1:
            return None
        low, high = read.bounds(read_in)
        first, last = write.bounds(written_in)
        if high < first or low > last:
            return _Solved()
        # The write covers only part of what is read, so the relation is no image of a box.
        if low < first or high > last:
            return None
        if write.terms:
            name, coefficient = write.terms[0]
            if coefficient != 1 or str(name) in determined:
                return None
            determined[str(name)] = _form(read, leads, leading).plus(-write.constant)
    free = _free(box, follows, skip=determined)
    following = [determined.get(i.name, free[k]) for k, i in enumerate(follows.iterators)]
    ends = (leading, following) if backwards else (following, leading)
    return _Solved(box.generators(*ends), box.symbols, exact)


def _free(box: DependenceBox, side: _AccessSide, skip: Mapping[str, AffineForm] | None = None) -> list[AffineForm]:
    """An affine form for each iterator of a statement: its whole range, or one end of it for ordered reductions."""
    forms = []
    for iterator in side.iterators:
        if skip and iterator.name in skip:
            forms.append(AffineForm())
        elif iterator.name in side.reduction:
            forms.append(box.last(iterator.extent) if side.last else AffineForm())
        else:
            forms.append(box.free(iterator.extent))
    return forms


def _form(index: Index, side: _AccessSide, forms: Sequence[AffineForm]) -> AffineForm:
    """An affine index as a function of the box."""
    position = {i.name: k for k, i in enumerate(side.iterators)}
    terms: dict[int, int] = {}
    constant = index.constant
    for atom, coefficient in index.terms:
        form = forms[position[str(atom)]]
        constant += coefficient * form.constant
        for dimension, factor in form.terms:
            terms[dimension] = terms.get(dimension, 0) + coefficient * factor
    return AffineForm(tuple((d, c) for d, c in sorted(terms.items()) if c), constant)


def _reduction_order(program: TensorProgram, statement: Statement) -> Iterator_[Dependence]:
    """Dependences that keep the terms of a non-associative reduction in lexicographic order.

    For reduction iterator r that steps from y to y + 1, outer ones stay, inner ones go from their last value to 0.
    """
    if statement.reduction is None or statement.reduction.associative or not statement.points:
        return
    reduced = [i.name for i in statement.reduced]
    array = program.arrays[statement.write.array]
    for step, stepping in enumerate(reduced):
        if statement.extents[stepping] == 1:
            continue
        box = DependenceBox()
        source: list[AffineForm] = []
        sink: list[AffineForm] = []
        for iterator in statement.iterators:
            inner = iterator.name in reduced and reduced.index(iterator.name) > step
            if iterator.name == stepping:
                # y in 0 .. n-2, followed by y + 1.
                before = box.free(iterator.extent - 1)
                after = before.plus(1)
            elif inner:
                before, after = box.last(iterator.extent), AffineForm()
            else:
                before = after = box.free(iterator.extent)
            source.append(before)
            sink.append(after)
        names = ("reduction", statement.name, statement.name, array.name)
        yield Dependence(*names, box.generators(source, sink), box.symbols, weight=array.bytes)
