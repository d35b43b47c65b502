"""A person's wish about groups, looked at around the operators that it names: fast enough to answer while one drags.

What a wish asks of one place of the graph is asked of every equal place: twelve layers stay equal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from engine.documents.exploration import JOIN, RELEASE, SPLIT, TAKE_OUT, AttemptDoc, FusionEdit
from engine.documents.model import TermDoc
from engine.execution.nodes import PREDICTED
from engine.explore.isomorphic_regions import Places
from engine.explore.local_refusion import Around
from engine.fusion.legality import Fits
from engine.fusion.nodes import FusionPlan
from engine.fusion.partition import Partition
from engine.fusion.stitching.nodes import Figures, Fixed
from engine.fusion.user_groups import Forced, opaque
from engine.support.errors import BadInput
from engine.target import Target

KINDS = (JOIN, SPLIT, TAKE_OUT, RELEASE)


class Attempts:
    """Looks at wishes about one plan; what does not depend on the wish is worked out once."""

    def __init__(self, plan: FusionPlan, target: Target) -> None:
        if not isinstance(plan.choice, Partition) or plan.source is None:
            raise BadInput("fuse", plan.graph, "the plan came from elsewhere than its graph", "fuse the graph")
        self._plan, self._target, self._choice = plan, target, plan.choice
        self._places = Places(plan)
        self._around = Around(plan.choice, plan.policy, target)
        self._program = self._choice.chosen.graph.flow.program

    def attempt(self, wish: FusionEdit) -> AttemptDoc:
        """What a wish would come to.  Raises BadInput for operators that no kernel computes."""
        if wish.kind not in KINDS or not wish.operators:
            hint = f"say one of {', '.join(KINDS)}, and of which operators"
            raise BadInput("fuse", f"wish {wish.kind}", "is not known or names nothing", hint)
        for operator in wish.operators:
            if operator not in self._places.home and wish.kind != RELEASE:
                raise BadInput("fuse", f"operator {operator}", "is in no kernel", "name operators of the graph")
        if wish.kind == RELEASE:
            return self._released(wish.operators)
        if wish.kind == JOIN:
            return self._joined(wish.operators)
        return self._parted(wish)

    @cached_property
    def _forced(self) -> Forced:
        graph = self._plan.source
        assert graph is not None
        without = [opaque(op) for op in graph.operators if op.name in self._plan.unsupported]
        return Forced(self._program, without, Fits(self._program.arrays, self._target))

    def _joined(self, operators: Sequence[str]) -> AttemptDoc:
        group = tuple(op for op in operators if self._forced.statements((op,)))
        places: list[tuple[str, ...]] = []
        try:
            self._forced.fit(group)
        except BadInput as refused:
            return _refused(refused, group)
        for alike in self._places.alike(group):
            named = tuple(alike[op] for op in group)
            if not places or self._is_legal(named):
                places.append(named)
        fixed = self._plan.fixed
        for named in places:
            fixed = joined(fixed, named)
        change = self._around.change(self._around.launches(group), joined(self._plan.fixed, group))
        return self._told(fixed, group, len(places), change, f"{_plural(group)} as one kernel")

    def _parted(self, wish: FusionEdit) -> AttemptDoc:
        first, second = self._sides(wish)
        if not first or not second:
            subject, reason = " + ".join(wish.operators), "is all of its group: there is nothing to part"
            return _refused(BadInput("fuse", subject, reason, "choose an operator of a larger group"), wish.operators)
        fixed, places = self._plan.fixed, 0
        crossing = self._crossing(first, second)
        for alike in self._places.alike((*first, *second)):
            here, there = (tuple(alike[op] for op in side) for side in (first, second))
            fixed = parted(fixed, here, there, [(alike[a], alike[b]) for a, b in crossing])
            places += 1
        once = parted(self._plan.fixed, first, second, crossing)
        change = self._around.change(self._around.launches((*first, *second)), once)
        told = f"{_plural(second)} apart from {_plural(first)}"
        return self._told(fixed, (*first, *second), places, change, told)

    def _sides(self, wish: FusionEdit) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The operators of a group on the two sides of a cut."""
        producer, consumer = wish.operators[0], wish.operators[-1]
        inside = self._places.operators(producer, consumer)
        if wish.kind == TAKE_OUT:
            return tuple(op for op in inside if op != consumer), tuple(op for op in inside if op == consumer)
        after = {consumer}
        for statement in self._forced.statements(inside):
            sources = {self._maker.get(a.array) for a in statement.reads()}
            if not after.isdisjoint(sources - {None}):
                after.add(statement.operator)
        return tuple(op for op in inside if op not in after), tuple(op for op in inside if op in after)

    def _crossing(self, first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
        """(producer, consumer) between two sides; where no value crosses, one pair stands for all."""
        sides = dict.fromkeys(first, 0) | dict.fromkeys(second, 1)
        found: dict[tuple[str, str], None] = {}
        for statement in self._forced.statements((*first, *second)):
            for access in statement.reads():
                maker = self._maker.get(access.array)
                if maker in sides and sides[maker] != sides[statement.operator]:
                    found[maker, statement.operator] = None
        return list(found) or [(first[-1], second[0])]

    def _released(self, operators: Sequence[str]) -> AttemptDoc:
        fixed, places = self._plan.fixed, 0
        for alike in self._places.alike(operators) if set(operators) <= self._places.home.keys() else [{}]:
            before, fixed = fixed, released(fixed, tuple(alike.get(op, op) for op in operators))
            places += fixed != before
        if fixed == self._plan.fixed:
            refused = BadInput("fuse", " + ".join(operators), "nothing is fixed about it", "")
            return _refused(refused, tuple(operators))
        around = self._around.neighbours(self._around.launches(operators))
        change = self._around.change(around, released(self._plan.fixed, operators))
        return self._told(fixed, tuple(operators), places, change, "the search decides again")

    def _is_legal(self, group: Sequence[str]) -> bool:
        try:
            self._forced.fit(group)
        except BadInput:
            return False
        return True

    def _told(
        self, fixed: Fixed, operators: tuple[str, ...], places: int, change: Figures | None, because: str
    ) -> AttemptDoc:
        terms: tuple[TermDoc, ...] = ()
        if change is not None:
            where = f" in {places:,} equal places" if places > 1 else ""
            predicted = f"{PREDICTED} by the search's model, uncalibrated{where}"
            terms = (
                TermDoc("kernels", change.kernels * places, "kernels", f"around these operators{where}"),
                TermDoc("memory", change.bytes * places, "bytes", f"that cross global memory{where}"),
                TermDoc("time", change.microseconds * places, "µs", predicted),
            )
        return AttemptDoc(True, because, "", operators, places, terms, fixed.groups, fixed.apart)

    @cached_property
    def _maker(self) -> Mapping[str, str]:
        """Array -> the operator that makes it."""
        return {s.write.array: s.operator for s in self._program.statements}


def joined(fixed: Fixed, group: tuple[str, ...]) -> Fixed:
    """With a group that is one kernel; its operators leave the groups that they were fixed in."""
    inside = set(group)
    others = (tuple(op for op in other if op not in inside) for other in fixed.groups)
    apart = tuple(pair for pair in fixed.apart if not inside.issuperset(pair))
    return Fixed((*filter(None, others), group), apart)


def parted(
    fixed: Fixed, first: tuple[str, ...], second: tuple[str, ...], crossing: Sequence[tuple[str, str]]
) -> Fixed:
    """With two sides of a group apart; a fixed group that holds some of both becomes two."""
    groups: list[tuple[str, ...]] = []
    for group in fixed.groups:
        if set(group).isdisjoint(first) or set(group).isdisjoint(second):
            groups.append(group)
        else:
            groups += [tuple(op for op in group if op not in second), tuple(op for op in group if op in second)]
    return replace(fixed, groups=tuple(groups), apart=tuple(dict.fromkeys((*fixed.apart, *crossing))))


def released(fixed: Fixed, operators: Collection[str]) -> Fixed:
    """Without what is fixed about operators; of a pair kept apart without that alone."""
    pair = tuple(operators)
    if pair in fixed.apart:
        return replace(fixed, apart=tuple(each for each in fixed.apart if each != pair))
    named = set(operators)
    return Fixed(
        tuple(group for group in fixed.groups if named.isdisjoint(group)),
        tuple(each for each in fixed.apart if named.isdisjoint(each)),
    )


def _refused(refused: BadInput, operators: tuple[str, ...]) -> AttemptDoc:
    return AttemptDoc(False, refused.reason, refused.hint, operators, 0, (), (), ())


def _plural(operators: Sequence[str]) -> str:
    return operators[0] if len(operators) == 1 else f"{len(operators)} operators"
