"""Which operators become one kernel: a walk in data-flow order that lets each operator join its producers' groups.

    MatMul, Add, Mul, Add, Softmax   ->   [MatMul Add Mul Add] [Softmax]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx

from engine.fuse.shape import Shape, common_shape
from engine.tensor.nodes import Statement, TensorProgram


@dataclass(slots=True)
class _Unit:
    """Statements that stay together, while groups still grow."""

    first: int
    """Place of its first operator in the graph's order."""
    order: int
    """Place of its last operator."""
    statements: list[Statement]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Partition:
    """Groups of statements with their loop space, in an order that respects data flow."""

    groups: tuple[tuple[tuple[Statement, ...], Shape], ...]
    refusals: Mapping[tuple[str, str], str]
    """(array, reading operator) -> why that operator did not join the group that makes the array."""


def explore(program: TensorProgram, merge: bool = True) -> Partition:
    """Partition the statements of a program (layout statements already folded).

    merge: False leaves every operator a kernel of its own.
    """
    return _Explorer(program).run(merge)


class _Explorer:
    def __init__(self, program: TensorProgram) -> None:
        self.program = program
        self.readers: dict[str, set[str]] = {}
        for statement in program.statements:
            for access in statement.reads():
                self.readers.setdefault(access.array, set()).add(statement.name)
        self.place = {s.name: n for n, s in enumerate(program.statements)}
        self.home: dict[str, _Unit] = {}
        """Array -> the unit that makes it."""
        self.refusals: dict[tuple[str, str], str] = {}

    def run(self, merge: bool) -> Partition:
        units: dict[int, _Unit] = {}
        for order, statements in enumerate(_by_operator(self.program)):
            for unit in self._units(order, statements):
                units[id(unit)] = unit
                self._settle(unit)
                for other in self._producers(unit) if merge else ():
                    merged = self._merge(other, unit)
                    if merged is not None:
                        del units[id(other)], units[id(unit)]
                        units[id(merged)] = unit = merged
        settled = [part for unit in units.values() for part in self._without_indices(unit)]
        ordered = _topological(settled, self.home, self.program.inputs)
        return Partition(tuple((tuple(u.statements), u.shape) for u in ordered), self.refusals)

    def _units(self, order: int, statements: list[Statement]) -> list[_Unit]:
        """One unit for an operator's statements, or one for each when they are not one kernel."""
        shape = common_shape(statements, self._kept(statements))
        if isinstance(shape, Shape):
            return [_Unit(order, order, statements, shape)]
        units = []
        for statement in statements:
            single = common_shape([statement])
            assert isinstance(single, Shape), single
            units.append(_Unit(order, order, [statement], single))
        return units

    def _without_indices(self, unit: _Unit) -> list[_Unit]:
        """The unit, without statements that can neither stand in it nor be put into its readers.

        An index that is computed and then looked up must be an array of its own where no loop of its shape is shared.
        """
        looked_up = {e.array for s in unit.statements for a in s.reads() for i in a.indices for e in i.elements()}
        apart = [s for s in unit.statements if s.name in unit.shape.inlined and s.write.array in looked_up]
        if not apart:
            return [unit]
        rest = [s for s in unit.statements if s not in apart]
        parts = [part for s in apart for part in self._units(unit.first, [s])] + self._units(unit.order, rest)
        for part in parts:
            self._settle(part)
        return parts

    def _settle(self, unit: _Unit) -> None:
        for statement in unit.statements:
            self.home[statement.write.array] = unit

    def _producers(self, unit: _Unit) -> list[_Unit]:
        """The units that make what `unit` reads, the ones handing over most bytes first."""
        handed: dict[int, tuple[int, _Unit]] = {}
        for array in dict.fromkeys(a.array for s in unit.statements for a in s.reads()):
            other = None if array in self.program.inputs else self.home.get(array)
            if other is not None and other is not unit:
                size = handed.get(id(other), (0, other))[0]
                handed[id(other)] = (size + self.program.arrays[array].bytes, other)
        return [other for _, other in sorted(handed.values(), key=lambda pair: (-pair[0], pair[1].order))]

    def _merge(self, first: _Unit, second: _Unit) -> _Unit | None:
        """Both as one unit, or None (the reason is noted on every array between them)."""
        if self.home.get(first.statements[0].write.array) is not first:
            return None
        statements = sorted((*first.statements, *second.statements), key=lambda s: self.place[s.name])
        reason = self._between(first, second)
        shape = reason or common_shape(statements, self._kept(statements))
        if isinstance(shape, str):
            made = {s.write.array for s in first.statements}
            for statement in second.statements:
                for access in statement.reads():
                    if access.array in made:
                        self.refusals[access.array, statement.operator] = shape
            return None
        unit = _Unit(min(first.first, second.first), max(first.order, second.order), statements, shape)
        self._settle(unit)
        return unit

    def _between(self, first: _Unit, second: _Unit) -> str:
        """A third unit that needs the first and feeds the second: one kernel would wait for itself."""
        pending, seen = self._producers(second), {id(second)}
        for unit in pending:
            if unit is first or id(unit) in seen or unit.order < first.first:
                continue
            seen.add(id(unit))
            producers = self._producers(unit)
            if first in producers:
                return f"{unit.statements[-1].operator} lies between them and is another kernel"
            pending.extend(producers)
        return ""

    def _kept(self, statements: list[Statement]) -> frozenset[str]:
        """Arrays that someone outside `statements` reads."""
        names = {s.name for s in statements}
        made = {s.write.array for s in statements}
        return frozenset(
            a for a in made if a in self.program.outputs or not self.readers.get(a, set()) <= names
        )


def _by_operator(program: TensorProgram) -> list[list[Statement]]:
    """Statements of one operator together, operators in program order."""
    found: dict[str, list[Statement]] = {}
    for statement in program.statements:
        found.setdefault(statement.operator, []).append(statement)
    return list(found.values())


def _topological(units: list[_Unit], home: Mapping[str, _Unit], inputs: tuple[str, ...]) -> list[_Unit]:
    """Units after the units they read from, and before units that overwrite what they read in place."""
    graph = nx.DiGraph()
    by_id = {id(unit): unit for unit in units}
    graph.add_nodes_from(by_id)
    for unit in units:
        for array in {a.array for s in unit.statements for a in s.reads()}:
            source = home.get(array)
            if source is not None and source is not unit:
                graph.add_edge(*((id(unit), id(source)) if array in inputs else (id(source), id(unit))))
    return [by_id[key] for key in nx.lexicographical_topological_sort(graph, key=lambda key: by_id[key].order)]
