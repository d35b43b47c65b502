"""Isomorphic regions of a plan: sequences of launches of the same groups with the same data flow between them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from engine.fusion.nodes import FusionGroup, FusionPlan, GroupInstance


class IsomorphicRegions:
    """The launches of one plan by the operators that they compute."""

    def __init__(self, plan: FusionPlan) -> None:
        self._launches = plan.launches
        self._groups = {group.name: group for group in plan.groups}

    @cached_property
    def launches(self) -> tuple[tuple[str, ...], ...]:
        """The operators of each launch, in the order of its statements, those that are folded into it last."""
        return tuple(
            tuple(dict.fromkeys((*self._instance(place).statements.values(), *self._instance(place).operators)))
            for place in range(len(self._launches))
        )

    @cached_property
    def home(self) -> Mapping[str, int]:
        """Operator -> the first launch that computes it."""
        found: dict[str, int] = {}
        for place, operators in enumerate(self.launches):
            for operator in operators:
                found.setdefault(operator, place)
        return found

    def operators(self, first: str, second: str) -> tuple[str, ...]:
        """The operators of a launch that has both; those of the second where none has."""
        place = next((p for p, ops in enumerate(self.launches) if first in ops and second in ops), self.home[second])
        computing = set(self._instance(place).statements.values())
        return tuple(op for op in self.launches[place] if op in computing)

    def kind(self, operator: str) -> str:
        """The kind of the group that an operator is in."""
        return self._group(self.home[operator]).kind

    def alike(self, operators: Sequence[str]) -> Iterator[Mapping[str, str]]:
        """Every region isomorphic to that of `operators`, itself first: each operator with its counterpart.

        Regions are disjoint; of overlapping ones the first is taken.
        """
        yield {op: op for op in operators}
        places = sorted({self.home[op] for op in operators})
        taken = set(operators)
        # Equal layers have equal launches in equal order: one shift leads from all places of one to those of another.
        anchor = places[0]
        for other, launch in enumerate(self._launches):
            if launch.group != self._launches[anchor].group or other == anchor:
                continue
            counterpart = self._counterparts(places, other - anchor, operators)
            if counterpart is not None and taken.isdisjoint(counterpart.values()):
                taken |= set(counterpart.values())
                yield counterpart

    def _counterparts(self, places: Sequence[int], shift: int, operators: Sequence[str]) -> dict[str, str] | None:
        """The counterparts `shift` launches later; None where those launches or their data flow differ."""
        moved = [place + shift for place in places]
        if not all(0 <= m < len(self._launches) for m in moved):
            return None
        if any(self._launches[p].group != self._launches[m].group for p, m in zip(places, moved, strict=True)):
            return None
        if self._connections(places) != self._connections(moved):
            return None
        found: dict[str, str] = {}
        for place, other in zip(places, moved, strict=True):
            here, there = self._instance(place).statements, self._instance(other).statements
            found |= {here[name]: there[name] for name in here}
        return {op: found[op] for op in operators} if found.keys() >= set(operators) else None

    def _connections(self, places: Collection[int]) -> frozenset[tuple[int, str, int, str]]:
        """(launch, its output, launch, its input) of what goes from one of the launches to another."""
        writers = {
            self._instance(place).arrays[array]: (number, array)
            for number, place in enumerate(places)
            for array in self._group(place).program.outputs
        }
        return frozenset(
            (*writers[tensor], number, array)
            for number, place in enumerate(places)
            for array in self._group(place).program.inputs
            if (tensor := self._instance(place).arrays[array]) in writers
        )

    def _group(self, place: int) -> FusionGroup:
        return self._groups[self._launches[place].group]

    def _instance(self, place: int) -> GroupInstance:
        return self._group(place).instances[self._launches[place].instance]
