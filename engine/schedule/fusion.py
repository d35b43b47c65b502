"""Greedy fusion: which statements of a component stay together when they cannot all share the next loop.

This is decided anew at each dimension.  Dependences are taken by decreasing weight (the bytes that one statement hands
to another, summed over the arrays between them), so that the largest intermediates stay in one loop; after that
neighbours in the text without a dependence are put side by side.  Two groups merge when all their statements can share
the next loop without losing a parallel one, and no third group must run between them.  Ties go by textual order, so
the result depends on the program alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from engine.schedule.problem import Problem

Group = tuple[int, ...]
"""Statements in textual order."""


def partition(
    problem: Problem,
    component: Sequence[int],
    order: Iterable[tuple[int, int]],
    compatible: Callable[[Group], bool],
) -> list[Group] | None:
    """Ordered groups of a component: merged along the heaviest edges first, then side by side, while `compatible`.

    order: further (before, after) pairs to respect.  None when the dependences and `order` contradict each other.
    """
    among = frozenset(component)
    edges = [e for e in problem.edges.values() if e.source in among and e.sink in among]
    follows = {(e.source, e.sink) for e in edges} | set(order)
    groups: dict[int, Group] = {s: (s,) for s in component}
    home = {s: s for s in component}
    if _sorted(groups, home, follows) is None:
        return None
    for edge in sorted(edges, key=lambda e: (-e.weight, e.source, e.sink)):
        _merge(groups, home, follows, home[edge.source], home[edge.sink], compatible)
    for first, second in pairwise(component):
        _merge(groups, home, follows, home[first], home[second], compatible)
    return _sorted(groups, home, follows)


def _merge(
    groups: dict[int, Group],
    home: dict[int, int],
    follows: set[tuple[int, int]],
    first: int,
    second: int,
    compatible: Callable[[Group], bool],
) -> None:
    """Make one group of two, unless they are one, a group must run between them, or they cannot share a loop."""
    if first == second:
        return
    union = tuple(sorted(groups[first] + groups[second]))
    if not compatible(union):
        return
    after = _links(home, follows)
    if _between(after, first, second) or _between(after, second, first):
        return
    groups[first] = union
    for statement in groups.pop(second):
        home[statement] = first


def _links(home: dict[int, int], follows: set[tuple[int, int]]) -> dict[int, set[int]]:
    """Group -> the groups that must run after it."""
    after: dict[int, set[int]] = {}
    for a, b in follows:
        before, behind = home[a], home[b]
        if before != behind:
            after.setdefault(before, set()).add(behind)
    return after


def _between(after: dict[int, set[int]], first: int, last: int) -> bool:
    """Whether a path leads from one group to another through a third."""
    waiting = [g for g in after.get(first, ()) if g != last]
    seen = set(waiting)
    while waiting:
        group = waiting.pop()
        if group == last:
            return True
        fresh = after.get(group, set()) - seen
        seen |= fresh
        waiting += fresh
    return False


def _sorted(groups: dict[int, Group], home: dict[int, int], follows: set[tuple[int, int]]) -> list[Group] | None:
    """Groups in an order that respects `follows`, earliest text first; None when there is a cycle."""
    before: dict[int, set[int]] = {g: set() for g in groups}
    for a, b in follows:
        if home[a] != home[b]:
            before[home[b]].add(home[a])
    result: list[Group] = []
    while before:
        ready = [g for g, wait in before.items() if not wait]
        if not ready:
            return None
        group = min(ready, key=lambda g: groups[g])
        result.append(groups[group])
        del before[group]
        for wait in before.values():
            wait.discard(group)
    return result
