"""Which operators become one kernel: a walk in data-flow order that lets each operator join its producers' groups.

    MatMul, Add, Mul, Add, Softmax   ->   [MatMul Add Mul Add] [Softmax]
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from engine.fuse.shape import TWO_PRODUCTS, Shape, common_shape, joined_shape
from engine.graph.nodes import Operator
from engine.tensor.nodes import Access, Statement, TensorProgram

MOST_STATEMENTS = 256
"""Statements of one group: the scheduler's time grows faster than what a longer chain saves."""


@dataclass(slots=True, eq=False)
class _Unit:
    """Statements that stay together, while groups still grow."""

    first: int
    """Place of its first statement in the program."""
    order: int
    """Place of its last statement."""
    statements: list[Statement]
    shape: Shape
    made: set[str]
    """Arrays that it writes."""
    sources: dict[str, list[tuple[Statement, Access]]]
    """Arrays that other units make, or that are updated in place, and who reads them here."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Groups of statements with their loop space, in an order that respects data flow."""

    groups: tuple[tuple[tuple[Statement, ...], Shape], ...]
    refusals: Mapping[tuple[str, str], str]
    """(array, reading operator) -> why that operator did not join the group that makes the array."""


def explore(program: TensorProgram, merge: bool = True, without_kernel: Sequence[Operator] = ()) -> Partition:
    """Partition the statements of a program (layout statements already folded).

    merge: False leaves every operator a kernel of its own.  without_kernel: operators of the graph that the program
    lacks; no group may both feed one and wait for it.
    """
    return _Explorer(program, without_kernel).run(merge)


class _Explorer:
    def __init__(self, program: TensorProgram, without_kernel: Sequence[Operator]) -> None:
        self.program = program
        self.outputs = set(program.outputs)
        self.foreign = [_opaque(op, len(program.statements)) for op in without_kernel]
        self.inputs = set(program.inputs).difference(*(unit.made for unit in self.foreign))
        self.readers: dict[str, set[str]] = {}
        for statement in program.statements:
            for access in statement.reads():
                self.readers.setdefault(access.array, set()).add(statement.name)
        self.written = {s.write.array for s in program.statements}.union(*(unit.made for unit in self.foreign))
        self.place = {s.name: n for n, s in enumerate(program.statements)}
        self.home: dict[str, _Unit] = {}
        """Array -> the unit that makes it."""
        self.refusals: dict[tuple[str, str], str] = {}
        self._shapes: dict[Hashable, tuple[tuple[str, ...], Shape | str]] = {}
        """Operators alike -> names of the first one's statements, and their loop space."""

    def run(self, merge: bool) -> Partition:
        units: dict[int, _Unit] = {}
        for unit in self.foreign:
            self._settle(unit)
        for statements in _by_operator(self.program):
            for unit in self._units(statements):
                units[id(unit)] = unit
                self._settle(unit)
                for other in self._producers(unit) if merge else ():
                    merged = self._merge(other, unit)
                    if merged is not None:
                        del units[id(other)], units[id(unit)]
                        units[id(merged)] = unit = merged
        settled = [part for unit in units.values() for part in self._without_indices(unit)]
        ordered = _topological([*settled, *self.foreign], self.home, self.inputs)
        return Partition(tuple((tuple(u.statements), u.shape) for u in ordered if u.statements), self.refusals)

    def _units(self, statements: list[Statement]) -> list[_Unit]:
        """One unit for an operator's statements, or one for each when they are not one kernel."""
        shape = self._own_shape(statements)
        if shape is not None:
            return [self._unit(statements, shape)]
        units = []
        for statement in statements:
            single = self._own_shape([statement])
            assert single is not None, statement
            units.append(self._unit([statement], single))
        return units

    def _own_shape(self, statements: list[Statement]) -> Shape | None:
        """The loop space of an operator's statements, found once for operators that differ in names alone."""
        kept: frozenset[str] = frozenset()
        alike: Hashable = statements[0].form
        if len(statements) > 1:
            kept = self._kept(statements)
            arrays = [access.array for s in statements for access in (*s.reads(), s.write)]
            place = {array: at for at, array in enumerate(dict.fromkeys(arrays))}
            alike = tuple(s.form for s in statements), tuple(map(place.get, arrays)), frozenset(map(place.get, kept))
        if alike not in self._shapes:
            self._shapes[alike] = tuple(s.name for s in statements), common_shape(statements, kept)
        first, shape = self._shapes[alike]
        if isinstance(shape, str):
            return None
        return shape.renamed(dict(zip(first, (s.name for s in statements), strict=True)))

    def _unit(self, statements: list[Statement], shape: Shape) -> _Unit:
        made = {s.write.array for s in statements}
        sources: dict[str, list[tuple[Statement, Access]]] = {}
        for statement in statements:
            for access in statement.reads():
                if access.array in self.written and (access.array not in made or access.array in self.inputs):
                    sources.setdefault(access.array, []).append((statement, access))
        places = [self.place[s.name] for s in statements]
        return _Unit(places[0], places[-1], statements, shape, made, sources)

    def _without_indices(self, unit: _Unit) -> list[_Unit]:
        """The unit, without statements that can neither stand in it nor be put into its readers.

        An index that is computed and then looked up must be an array of its own where no loop of its shape is shared.
        """
        if not unit.shape.inlined:
            return [unit]
        looked_up = {e.array for s in unit.statements for a in s.reads() for i in a.indices for e in i.elements()}
        apart = [s for s in unit.statements if s.name in unit.shape.inlined and s.write.array in looked_up]
        if not apart:
            return [unit]
        rest = [s for s in unit.statements if s not in apart]
        parts = [part for s in apart for part in self._units([s])] + self._units(rest)
        for part in parts:
            self._settle(part)
        return parts

    def _settle(self, unit: _Unit) -> None:
        for array in unit.made:
            self.home[array] = unit

    def _producers(self, unit: _Unit) -> list[_Unit]:
        """The units that make what `unit` reads, the ones handing over most bytes first."""
        handed: dict[_Unit, list[str]] = {}
        for array in unit.sources:
            other = None if array in self.inputs else self.home.get(array)
            if other is not None and other is not unit:
                handed.setdefault(other, []).append(array)
        if len(handed) < 2:
            return list(handed)
        known = self.program.arrays  # without those between two operators that have no kernel
        size = {other: sum(known[a].bytes for a in arrays if a in known) for other, arrays in handed.items()}
        return sorted(handed, key=lambda other: (-size[other], other.order))

    def _merge(self, first: _Unit, second: _Unit) -> _Unit | None:
        """Both as one unit, or None (the reason is noted on every array between them)."""
        if not first.statements or self.home.get(first.statements[0].write.array) is not first:
            return None
        reason = self._between(first, second)
        if not reason and len(first.statements) + len(second.statements) > MOST_STATEMENTS:
            reason = f"a kernel of more than {MOST_STATEMENTS} steps takes long to schedule"
        shape: Shape | str = reason or self._shape(first, second)
        if isinstance(shape, str):
            for array in first.made & second.sources.keys():
                for statement, _ in second.sources[array]:
                    self.refusals[array, statement.operator] = shape
            return None
        return self._absorb(first, second, shape)

    def _shape(self, first: _Unit, second: _Unit) -> Shape | str:
        """The loop space of both, found from theirs where they are alike, else from all statements."""
        if first.shape.kind == second.shape.kind == "contraction":
            return TWO_PRODUCTS
        handed = [read for array in first.made & second.sources.keys() for read in second.sources[array]]
        whole = all(s.covers and not s.guards for unit in (first, second) for s in unit.statements[:1])
        if whole and self.inputs.isdisjoint(first.made) and self.inputs.isdisjoint(second.made):
            arrays = {access.array for _, access in handed}
            writers = {s.write.array: s for s in first.statements if s.write.array in arrays}
            shape = joined_shape(first.shape, second.shape, writers, handed, leads=first.first < second.first)
            if shape is not None:
                return shape
        statements = sorted((*first.statements, *second.statements), key=lambda s: self.place[s.name])
        return common_shape(statements, self._kept(statements))

    def _absorb(self, first: _Unit, second: _Unit, shape: Shape) -> _Unit:
        """The larger unit with the smaller one in it."""
        large, small = (first, second) if len(first.statements) >= len(second.statements) else (second, first)
        for array in small.made:
            self.home[array] = large
        for array, reads in small.sources.items():
            if array not in large.made or array in self.inputs:
                large.sources.setdefault(array, []).extend(reads)
        for array in small.made - self.inputs:
            large.sources.pop(array, None)
        large.made |= small.made
        large.statements.extend(small.statements)
        if small.first < large.order:
            large.statements.sort(key=lambda s: self.place[s.name])
        large.first, large.order = min(first.first, second.first), max(first.order, second.order)
        large.shape = shape
        return large

    def _between(self, first: _Unit, second: _Unit) -> str:
        """A third unit that needs the first and feeds the second: one kernel would wait for itself."""
        pending, seen = self._producers(second), {id(first), id(second)}
        for unit in pending:
            if unit.order < first.first or id(unit) in seen:
                continue
            seen.add(id(unit))
            producers = self._producers(unit)
            if first in producers:
                name = unit.statements[-1].operator if unit.statements else "an operator without a kernel"
                return f"{name} lies between them and is another kernel"
            pending.extend(producers)
        return ""

    def _kept(self, statements: list[Statement]) -> frozenset[str]:
        """Arrays that someone outside `statements` reads."""
        names = {s.name for s in statements}
        made = {s.write.array for s in statements}
        return frozenset(a for a in made if a in self.outputs or not self.readers.get(a, set()) <= names)


def _opaque(op: Operator, order: int) -> _Unit:
    """An operator without statements, which groups must still stand before or behind; `order` is behind all of them."""
    sources: dict[str, list[tuple[Statement, Access]]] = {name: [] for name in op.inputs if name}
    return _Unit(0, order, [], Shape("layout", {}, (), (), {}, ()), {name for name in op.outputs if name}, sources)


def _by_operator(program: TensorProgram) -> list[list[Statement]]:
    """Statements of one operator together, operators in program order."""
    found: dict[str, list[Statement]] = {}
    for statement in program.statements:
        found.setdefault(statement.operator, []).append(statement)
    return list(found.values())


def _topological(units: Sequence[_Unit], home: Mapping[str, _Unit], inputs: Collection[str]) -> list[_Unit]:
    """Units after the units they read from, and before units that overwrite what they read in place."""
    graph = nx.DiGraph()
    by_id = {id(unit): unit for unit in units}
    graph.add_nodes_from(by_id)
    for unit in units:
        for array in unit.sources:
            source = home.get(array)
            if source is not None and source is not unit:
                graph.add_edge(*((id(unit), id(source)) if array in inputs else (id(source), id(unit))))
    return [by_id[key] for key in nx.lexicographical_topological_sort(graph, key=lambda key: by_id[key].order)]
