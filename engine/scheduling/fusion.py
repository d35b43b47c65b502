"""Greedy loop fusion: which statements of a component stay together if they cannot all share the next loop.

This is decided anew at each dimension.  Dependences are taken by decreasing weight (the bytes that one statement hands
to another, summed over the arrays between them), so that the largest intermediates stay in one loop; after that
neighbours in the text without a dependence are put side by side.  Two groups merge when all their statements can share
the next loop without losing a parallel one, and no third group must run between them.  Ties go by textual order, so
the result depends on the program alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise

from engine.scheduling.problem import ScheduleProblem

Group = tuple[int, ...]
"""Statements in textual order."""


def partition(
    problem: ScheduleProblem,
    component: Sequence[int],
    order: Iterable[tuple[int, int]],
    compatible: Callable[[Group], bool],
    is_parallel: Callable[[Group], bool] = lambda group: True,
) -> list[Group] | None:
    """Partition a component into ordered groups: merge along the heaviest edges first, then neighbours, while
    `compatible`.

    is_parallel: whether the next loop of a group is: neighbours that hand each other nothing merge only where neither
    loses that.  order: further (before, after) pairs to respect.  None when it contradicts the dependences.
    """
    among = frozenset(component)
    edges = [e for e in problem.edges.values() if e.source in among and e.sink in among]
    groups = _Groups.apart(component, {(e.source, e.sink) for e in edges} | set(order))
    if groups is None:
        return None
    for edge in sorted(edges, key=lambda e: (-e.weight, e.source, e.sink)):
        groups.merge(edge.source, edge.sink, lambda *pair: compatible(_union(*pair)))

    def may_join(first: Group, second: Group) -> bool:
        union = _union(first, second)
        return compatible(union) and (
            is_parallel(union) or not (is_parallel(first) or is_parallel(second)) or groups.are_linked(first, second)
        )

    for first, second in pairwise(component):
        groups.merge(first, second, may_join)
    return _topological_order(groups.members, groups.after)


@dataclass(slots=True)
class _Groups:
    """A partition under construction.  A group is identified by the number of one of its statements; sets of groups are
    bit masks."""

    members: dict[int, Group]
    home: dict[int, int]
    """Statement -> its group."""
    after: dict[int, int]
    """Group -> groups that directly depend on it."""
    behind: dict[int, int]
    """Group -> groups that depend on it, transitively."""

    @staticmethod
    def apart(component: Sequence[int], follows: Iterable[tuple[int, int]]) -> _Groups | None:
        """The partition into single statements; None if the pairs of `follows` form a cycle."""
        members: dict[int, Group] = {s: (s,) for s in component}
        after = dict.fromkeys(component, 0)
        for a, b in follows:
            after[a] |= 1 << b
        order = _topological_order(members, after)
        if order is None:
            return None
        behind: dict[int, int] = {}
        for s in (group[0] for group in reversed(order)):
            behind[s] = after[s]
            for follower in _bits(after[s]):
                behind[s] |= behind[follower]
        return _Groups(members, {s: s for s in component}, after, behind)

    def are_linked(self, first: Group, second: Group) -> bool:
        """Whether one of two groups directly depends on the other."""
        one, other = self.home[first[0]], self.home[second[0]]
        return bool(self.after[one] >> other & 1 or self.after[other] >> one & 1)

    def merge(self, one: int, other: int, may_join: Callable[[Group, Group], bool]) -> None:
        """Make one group of those of two statements, unless a group must run between them or `may_join` refuses."""
        first, second = self.home[one], self.home[other]
        if first == second or self._between(first, second) or self._between(second, first):
            return
        if not may_join(self.members[first], self.members[second]):
            return
        self.members[first] = _union(self.members[first], self.members[second])
        for statement in self.members.pop(second):
            self.home[statement] = first
        both = 1 << first | 1 << second
        self.after[first] = (self.after[first] | self.after.pop(second)) & ~both
        self.behind[first] = (self.behind[first] | self.behind.pop(second)) & ~both
        # Redirect edges to the second group and extend the closure of every group before the merged one.
        reached = self.behind[first] | 1 << first
        for group, behind in self.behind.items():
            if behind & both:
                self.behind[group] = (behind | reached) & ~(1 << second)
                if self.after[group] & both:
                    self.after[group] = (self.after[group] | 1 << first) & ~(1 << second)

    def _between(self, first: int, last: int) -> bool:
        """Whether a path leads from one group to another through a third."""
        if not self.behind[first] >> last & 1:
            return False
        return any(self.behind[group] >> last & 1 for group in _bits(self.after[first]) if group != last)


def _union(first: Group, second: Group) -> Group:
    return tuple(sorted(first + second))


def _topological_order(members: dict[int, Group], after: dict[int, int]) -> list[Group] | None:
    """Groups so that each stands before those `after` it, earliest text first; None when there is a cycle."""
    waits = dict.fromkeys(members, 0)
    for followers in after.values():
        for group in _bits(followers):
            waits[group] += 1
    ready = [(members[group], group) for group, count in waits.items() if not count]
    heapify(ready)
    result: list[Group] = []
    while ready:
        statements, group = heappop(ready)
        result.append(statements)
        for follower in _bits(after[group]):
            waits[follower] -= 1
            if not waits[follower]:
                heappush(ready, (members[follower], follower))
    return result if len(result) == len(members) else None


def _bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
