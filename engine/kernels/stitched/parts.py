"""The parts of a stitched kernel: statements that a block runs together, one part after the other.

Statements of one loop of the schedule stay together while each reads what the others make at its own point; where one
needs a whole reduction, or another point's value, the next part begins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.kernels.loop_nest import Nest, Phase
from engine.kernels.stitched.walk import Axis, BlockWalk
from engine.scheduling.nodes import Member
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Statement
from engine.tensor.rewrite import plain_iterator
from engine.tile.emit import Span

Place = tuple[Index, ...]
"""Indices of an element over the names of the dimensions inside a block; outer ones by their own names."""


@dataclass(frozen=True, slots=True)
class Box:
    """Statements and the dimensions that they run over inside a block."""

    statements: tuple[Statement, ...]
    members: tuple[Member, ...]

    @property
    def reduced(self) -> frozenset[str]:
        """Dimensions that a statement reduces."""
        return frozenset(
            member.name
            for s in self.statements if s.reduction
            for member in self.members if plain_iterator(member.rows[s.name]) in s.reduction.iterators
        )  # fmt: skip

    @property
    def axes(self) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
        """Kept and reduced dimensions, outermost first."""
        reduced = self.reduced
        kept = tuple((m.name, m.extent) for m in self.members if m.name not in reduced)
        return kept, tuple((m.name, m.extent) for m in self.members if m.name in reduced)


@dataclass(frozen=True, slots=True)
class Part:
    """A box and the walk of the block's threads over it."""

    box: Box
    walk: BlockWalk
    is_whole: bool
    """Whether it visits the walk's reduced points; else it has one value for each kept point."""

    @property
    def statements(self) -> tuple[Statement, ...]:
        return self.box.statements


def boxes(nest: Nest) -> list[Box]:
    """The parts of a nest, in order."""
    names = Names(nest)
    return [box for phase in nest.phases for box in _split(phase, names)]


def _split(phase: Phase, names: Names) -> list[Box]:
    """One loop as few boxes as possible."""
    found: list[Box] = []
    for statement in phase.statements:
        box = Box((statement,), tuple(m for m in phase.members if plain_iterator(m.rows[statement.name]) is not None))
        if found and found[-1].members == box.members and _joins(statement, found[-1], names):
            box = replace(box, statements=(*found.pop().statements, statement))
        found.append(box)
    return found


def _joins(statement: Statement, box: Box, names: Names) -> bool:
    """Whether a statement can run at each point right after those of a box."""
    together = {Box((s,), box.members).reduced for s in (*box.statements, statement) if s.reduction is not None}
    writers = {s.write.array: s for s in box.statements}
    passed = [(writers[access.array], access) for access in statement.reads() if access.array in writers]
    return len(together) <= 1 and all(
        writer.reduction is None and names.place(writer, writer.write) == names.place(statement, access)
        for writer, access in passed
    )


class Names:
    """Which dimension moves each iterator of each statement."""

    def __init__(self, nest: Nest) -> None:
        self._dimensions: dict[str, dict[str, str]] = {s.name: {} for s in nest.statements}
        for members, statements in ((nest.outer, nest.statements), *((p.members, p.statements) for p in nest.phases)):
            for member in members:
                for statement in statements:
                    name = plain_iterator(member.rows[statement.name])
                    if name is not None:
                        self._dimensions[statement.name][name] = member.name
        self._extents = {m.name: m.extent for m in nest.members}
        # What was asked for: the same is, for every scheme that is weighed.
        self._places: dict[tuple[str, Access], Place] = {}
        self._spans: dict[tuple[Place, tuple[int, ...]], tuple[Span, ...]] = {}
        self._outer = {m.name for m in nest.outer}

    def of(self, statement: Statement) -> Mapping[str, str]:
        """Iterator -> name of its dimension."""
        return self._dimensions[statement.name]

    def place(self, statement: Statement, access: Access) -> Place:
        """Where an access of a statement goes, in dimensions."""
        key = statement.name, access
        if key not in self._places:
            values = {iterator: Index.of(name) for iterator, name in self.of(statement).items()}
            self._places[key] = tuple(i.substitute(values, self._extents) for i in access.indices)
        return self._places[key]

    def spans(self, place: Place, shape: Sequence[int]) -> tuple[Span, ...]:
        """What a block makes of an array: of each axis that varies within it, from where on and how much."""
        key = place, tuple(shape)
        if key in self._spans:
            return self._spans[key]
        found: list[Span] = []
        for axis, (index, whole) in enumerate(zip(place, shape, strict=True)):
            base = Index.sum((atom, c) for atom, c in index.terms if atom in self._outer)
            low, high = (index - base).bounds(self._extents)
            step = math.gcd(*(c for _, c in (index - base).terms), (index - base).constant)
            if low < 0 or self._outer & set((index - base).iterators()):
                base, high, step = Index(), whole - 1, 1
            if high > 0:
                found.append(Span(axis, base, high // step + 1, step))
        self._spans[key] = tuple(found)
        return self._spans[key]

