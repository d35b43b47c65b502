"""Fuse the neighbourhood of an edit again in isolation, to estimate its effect on the plan fast."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import astuple, replace
from functools import cached_property

from engine.compilation import default_microseconds
from engine.fusion.nodes import FusionPlan
from engine.fusion.partition import FusionRequest, Partition
from engine.fusion.plan import build_partition
from engine.fusion.stitching.nodes import Fixed, PlanFigures
from engine.support.errors import BadInput
from engine.target import target as find_target
from engine.tensor.nodes import Statement, TensorProgram

MOST_STATEMENTS = 512
"""Most statements that are fused again while the user waits."""


class LocalRefusion:
    """Fuses parts of one plan's program again; all other launches stay."""

    def __init__(self, plan: FusionPlan) -> None:
        assert isinstance(plan.choice, Partition), plan.graph
        machine = find_target(plan.target)
        request = FusionRequest(plan.policy, machine, default_microseconds, numerics=plan.numerics)
        self._choice, self._request = plan.choice, request
        self._program = plan.choice.chosen.graph.flow.program

    def change(self, places: Collection[int], fixed: Fixed) -> PlanFigures | None:
        """Difference in kernels, bytes and time under other constraints; None where too much of the graph is affected.

        places: of the launches in the plan.
        """
        program = self._subprogram(places)
        if len(program.statements) > MOST_STATEMENTS:
            return None
        operators = {s.operator for s in program.statements}
        groups = tuple(group for group in fixed.groups if not operators.isdisjoint(group))
        apart = tuple(pair for pair in fixed.apart if operators.issuperset(pair))
        try:
            new = build_partition(program, (), replace(self._request, fixed=Fixed(groups, apart))).figures()
        except BadInput:
            return None
        old = self._choice.figures(places)
        return PlanFigures(*(after - before for after, before in zip(astuple(new), astuple(old), strict=True)))

    def launches(self, operators: Collection[str]) -> frozenset[int]:
        """The places of the launches that compute any of some operators."""
        return frozenset(place for op in operators for place in self._homes.get(op, ()))

    def neighbours(self, places: Collection[int]) -> frozenset[int]:
        """Launches, and those that read from them or that they read from."""
        found = set(places)
        for place in places:
            for statement in self._choice.groups[place][0]:
                found |= self._readers.get(self._stored_array(statement), set())
                for access in statement.reads():
                    found |= self._writers.get(access.array, set())
        return frozenset(found)

    def _subprogram(self, places: Collection[int]) -> TensorProgram:
        """The program that some launches compute, with their own inputs and outputs."""
        inside, made = dict[str, Statement](), dict[str, None]()
        for place in sorted(places):
            for statement in self._choice.groups[place][0]:
                own = self._original(statement)
                inside[own.name] = own
                # A recomputed copy ("~" in its name) is not stored here: another launch stores the original.
                if own.name == statement.name:
                    made[own.write.array] = None
        statements = tuple(sorted(inside.values(), key=lambda s: self._number[s.name]))
        written = {s.write.array for s in statements}
        read = dict.fromkeys(a.array for s in statements for a in s.reads())
        outside, inputs = self._program.outputs, self._program.inputs
        needed = tuple(a for a in read if a not in written or a in inputs)
        outputs = tuple(a for a in made if a in outside or not self._readers.get(a, set()) <= set(places))
        constants = tuple(a for a in self._program.constants if a in read)
        return replace(self._program, statements=statements, inputs=needed, outputs=outputs, constants=constants)

    def _original(self, statement: Statement) -> Statement:
        """A statement of the program, of which a launch may hold a copy."""
        name = statement.name
        name = name if name in self._number else name.rpartition("~")[0]
        return self._program.statements[self._number[name]]

    def _stored_array(self, statement: Statement) -> str:
        """The array that a statement of a launch stores its result in."""
        array = statement.write.array
        return self._choice.views.get(array, array)

    @cached_property
    def _number(self) -> Mapping[str, int]:
        return {s.name: n for n, s in enumerate(self._program.statements)}

    def _launches_by(self, keys: Callable[[Statement], Iterable[str]]) -> Mapping[str, set[int]]:
        """Key of a statement -> the launches that have such a statement."""
        found: dict[str, set[int]] = {}
        for place, (statements, _) in enumerate(self._choice.groups):
            for key in (key for statement in statements for key in keys(statement)):
                found.setdefault(key, set()).add(place)
        return found

    @cached_property
    def _homes(self) -> Mapping[str, set[int]]:
        """Operator -> the launches that compute it."""
        return self._launches_by(lambda statement: (statement.operator,))

    @cached_property
    def _readers(self) -> Mapping[str, set[int]]:
        """Array -> the launches that read it."""
        return self._launches_by(lambda statement: (access.array for access in statement.reads()))

    @cached_property
    def _writers(self) -> Mapping[str, set[int]]:
        """Array -> the launches that store it or a part of it."""
        return self._launches_by(lambda statement: (self._stored_array(statement),))
