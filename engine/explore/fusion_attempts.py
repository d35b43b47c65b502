"""Try a fusion edit (join, split, take out, release) near the operators that it names, fast enough to answer a drag.

An edit of one place of the graph applies to every isomorphic place, so that twelve equal layers stay equal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from engine.documents.exploration import JOIN, RELEASE, SPLIT, TAKE_OUT, AttemptDoc, FusionEdit
from engine.documents.model import TermDoc
from engine.execution.nodes import PREDICTED
from engine.explore.isomorphic_regions import IsomorphicRegions
from engine.explore.local_refusion import LocalRefusion
from engine.fusion.legality import KernelLegality
from engine.fusion.nodes import FusionPlan
from engine.fusion.partition import Partition
from engine.fusion.stitching.nodes import Fixed, PlanFigures
from engine.fusion.user_groups import UserGroups, opaque
from engine.support.errors import BadInput
from engine.target import target as find_target

KINDS = (JOIN, SPLIT, TAKE_OUT, RELEASE)


class Attempts:
    """Evaluates fusion edits of one plan, each in milliseconds; what does not depend on the edit is computed once.

    Nothing changes by it: what a legal edit would fix is for `engine.fuse` to carry out.
    """

    def __init__(self, plan: FusionPlan, target: str | None = None) -> None:
        """target: another GPU than the plan was made for."""
        if not isinstance(plan.choice, Partition) or plan.source is None:
            raise BadInput("fuse", plan.graph, "the plan came from elsewhere than its graph", "fuse the graph")
        self._plan, self._target, self._choice = plan, find_target(target or plan.target), plan.choice
        self._places = IsomorphicRegions(plan)
        self._refusion = LocalRefusion(replace(plan, target=self._target.name))
        self._program = self._choice.chosen.graph.flow.program

    def attempt(self, wish: FusionEdit) -> AttemptDoc:
        """Legality and effect of an edit.  Raises BadInput for operators that no kernel computes."""
        if wish.kind not in KINDS or not wish.operators:
            hint = f"say one of {', '.join(KINDS)}, and of which operators"
            raise BadInput("fuse", f"wish {wish.kind}", "is not known or names nothing", hint)
        for operator in wish.operators:
            if operator not in self._places.home and wish.kind != RELEASE:
                raise BadInput("fuse", f"operator {operator}", "is in no kernel", "name operators of the graph")
        if wish.kind == RELEASE:
            return self._release(wish.operators)
        if wish.kind == JOIN:
            return self._join(wish.operators)
        return self._split(wish)

    @cached_property
    def _forced(self) -> UserGroups:
        graph = self._plan.source
        assert graph is not None
        without = [opaque(op) for op in graph.operators if op.name in self._plan.without_kernel]
        return UserGroups(self._program, without, KernelLegality(self._program.arrays, self._target))

    def _join(self, operators: Sequence[str]) -> AttemptDoc:
        group = tuple(op for op in operators if self._forced.statements((op,)))
        refused = self._why_illegal(group)
        if refused is not None:
            return _refusal(refused, group)
        # What is legal here may not be at an equal place, where other launches read the values.
        everywhere = (tuple(alike[op] for op in group) for alike in self._places.alike(group))
        places = [named for named in everywhere if named == group or self._why_illegal(named) is None]
        fixed = self._plan.fixed
        for named in places:
            fixed = join_operators(fixed, named)
        change = self._refusion.change(self._refusion.launches(group), join_operators(self._plan.fixed, group))
        return self._document(fixed, group, len(places), change, f"{_plural(group)} as one kernel")

    def _split(self, wish: FusionEdit) -> AttemptDoc:
        first, second = self._sides(wish)
        if not first or not second:
            subject, reason = " + ".join(wish.operators), "is all of its group: there is nothing to part"
            return _refusal(BadInput("fuse", subject, reason, "choose an operator of a larger group"), wish.operators)
        fixed, places = self._plan.fixed, 0
        crossing = self._crossing(first, second)
        for alike in self._places.alike((*first, *second)):
            here, there = (tuple(alike[op] for op in side) for side in (first, second))
            fixed = split_operators(fixed, here, there, [(alike[a], alike[b]) for a, b in crossing])
            places += 1
        once = split_operators(self._plan.fixed, first, second, crossing)
        change = self._refusion.change(self._refusion.launches((*first, *second)), once)
        told = f"{_plural(second)} apart from {_plural(first)}"
        return self._document(fixed, (*first, *second), places, change, told)

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

    def _release(self, operators: Sequence[str]) -> AttemptDoc:
        fixed, places = self._plan.fixed, 0
        for alike in self._places.alike(operators) if set(operators) <= self._places.home.keys() else [{}]:
            before, fixed = fixed, release_operators(fixed, tuple(alike.get(op, op) for op in operators))
            places += fixed != before
        if fixed == self._plan.fixed:
            refused = BadInput("fuse", " + ".join(operators), "nothing is fixed about it", "")
            return _refusal(refused, tuple(operators))
        around = self._refusion.neighbours(self._refusion.launches(operators))
        change = self._refusion.change(around, release_operators(self._plan.fixed, operators))
        return self._document(fixed, tuple(operators), places, change, "the search decides again")

    def _why_illegal(self, group: Sequence[str]) -> BadInput | None:
        try:
            self._forced.fit(group)
        except BadInput as refused:
            return refused
        return None

    def _document(
        self, fixed: Fixed, operators: tuple[str, ...], places: int, change: PlanFigures | None, because: str
    ) -> AttemptDoc:
        terms: tuple[TermDoc, ...] = ()
        if change is not None:
            where = f" in {places:,} equal places" if places > 1 else ""
            predicted = f"{PREDICTED} by FusionStitching's model, uncalibrated{where}"
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


def join_operators(fixed: Fixed, group: tuple[str, ...]) -> Fixed:
    """Fix a group as one kernel; its operators leave the groups that they were fixed in."""
    inside = set(group)
    others = (tuple(op for op in other if op not in inside) for other in fixed.groups)
    apart = tuple(pair for pair in fixed.apart if not inside.issuperset(pair))
    return Fixed((*filter(None, others), group), apart)


def split_operators(
    fixed: Fixed, first: tuple[str, ...], second: tuple[str, ...], crossing: Sequence[tuple[str, str]]
) -> Fixed:
    """Keep two sides of a group apart; a fixed group that has operators of both becomes two."""
    groups: list[tuple[str, ...]] = []
    for group in fixed.groups:
        if set(group).isdisjoint(first) or set(group).isdisjoint(second):
            groups.append(group)
        else:
            groups += [tuple(op for op in group if op not in second), tuple(op for op in group if op in second)]
    return replace(fixed, groups=tuple(groups), apart=tuple(dict.fromkeys((*fixed.apart, *crossing))))


def release_operators(fixed: Fixed, operators: Collection[str]) -> Fixed:
    """Remove everything that is fixed about operators; for a pair that is kept apart, only that."""
    pair = tuple(operators)
    if pair in fixed.apart:
        return replace(fixed, apart=tuple(each for each in fixed.apart if each != pair))
    named = set(operators)
    return Fixed(
        tuple(group for group in fixed.groups if named.isdisjoint(group)),
        tuple(each for each in fixed.apart if named.isdisjoint(each)),
    )


def _refusal(refused: BadInput, operators: tuple[str, ...]) -> AttemptDoc:
    return AttemptDoc(False, refused.reason, refused.hint, operators, 0, (), (), ())


def _plural(operators: Sequence[str]) -> str:
    return operators[0] if len(operators) == 1 else f"{len(operators)} operators"
