"""Greedy fusion: which statements of a component stay together when they cannot all share the next loop."""

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
    if not compatible(union) or _between(home, follows, first, second) or _between(home, follows, second, first):
        return
    groups[first] = union
    for statement in groups.pop(second):
        home[statement] = first


def _between(home: dict[int, int], follows: set[tuple[int, int]], first: int, last: int) -> bool:
    """Whether a path leads from one group to another through a third."""
    after: dict[int, set[int]] = {}
    for a, b in follows:
        if home[a] != home[b]:
            after.setdefault(home[a], set()).add(home[b])
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
