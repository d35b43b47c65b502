"""Groups that become one after the kernels were chosen, where the estimate gains by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from engine.fusion.group_times import Group, Saving
from engine.fusion.partition import Partition
from engine.fusion.stitching.kernel_graph import Joins
from engine.fusion.stitching.nodes import Fixed
from engine.tensor.nodes import Statement


class Regrouping:
    """The groups of a partition by their places, some of which are put together."""

    def __init__(self, partition: Partition, before: Partition, fixed: Fixed) -> None:
        """before: the partition as the search left it.  fixed: a person's groups take nothing in, and what is kept
        apart stays so."""
        self._before, self._fixed = partition, fixed
        self.groups = dict(enumerate(partition.groups))
        self._searched = before
        self._savings, self._spent = dict(partition.savings), dict(partition.spent)

    @cached_property
    def _joins(self) -> Joins:
        """The chosen kernels, those that became one group after they were chosen joined; few plans ask for them."""
        return joins_of_groups(self._before, self._searched)

    def partition(self) -> Partition:
        """The groups as they are now, in an order that respects data flow."""
        if len(self.groups) == len(self._before.groups):
            return self._before
        places = {n: place for place, n in enumerate(self._joins.in_order())}
        ordered = sorted(self.groups, key=lambda n: places[self._before.numbers[n]])
        return replace(self._before.with_groups(self.groups, ordered), savings=self._savings, spent=self._spent)

    def _may_be_one(self, statements: Sequence[Statement], members: Sequence[int]) -> bool:
        """Whether neither a person nor another kernel stands between some groups.  statements: all of theirs."""
        operators = {s.operator for s in statements}
        is_held = any(not operators.isdisjoint(group) for group in self._fixed.groups)
        numbers = [self._before.numbers[n] for n in members]
        return not (is_held or self._fixed.why_apart(operators) or self._joins.closes_cycle(numbers))

    def _put(self, members: Sequence[int], group: Group, saving: Saving) -> None:
        """One group in the place of the last of several, with what it saves and takes."""
        numbers = [self._before.numbers[n] for n in members]
        known = [self._spent.pop(number, None) for number in numbers]
        spent = sum(
            self._before.figures([n]).microseconds if time is None else time
            for n, time in zip(members, known, strict=True)
        )
        self._joins.join(numbers)
        self._savings[numbers[-1]] = saving
        self._spent[numbers[-1]] = spent - saving.separate + saving.fused
        for n in members:
            del self.groups[n]
        self.groups[members[-1]] = group


def joins_of_groups(partition: Partition, before: Partition) -> Joins:
    """The chosen kernels, those joined that are one group of a partition.  before: it, as the search left it."""
    joins, old, now = Joins(partition.chosen.graph), set(map(id, before.groups)), set(map(id, partition.groups))
    gone = [(group, n) for group, n in zip(before.groups, before.numbers, strict=True) if id(group) not in now]
    number = {s.name: n for (group, _), n in gone for s in group}
    for group, _ in (one for one in partition.groups if id(one) not in old):
        kernels = {number[s.name] for s in group if s.name in number}
        if len(kernels) > 1:
            joins.join(kernels)
    return joins
