"""Grouping of values: by a key, by what is equal, by what leads where."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items of each key; keys and items in the order in which they come, which need not be sorted."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def reachable(start: K, following: Callable[[K], Iterable[K]]) -> set[K]:
    """The start, and what stands at the ends of all paths from it."""
    found, waiting = {start}, [start]
    while waiting:
        ends = set(following(waiting.pop())) - found
        found |= ends
        waiting += ends
    return found


class UnionFind(Generic[K]):
    """Disjoint sets that grow together: `sets[item]` is one item that stands for the set, the same for all in it."""

    def __init__(self, items: Iterable[K]) -> None:
        self._parents = {item: item for item in items}

    def __getitem__(self, item: K) -> K:
        parents = self._parents
        root = item
        while parents[root] != root:
            root = parents[root]
        while item != root:  # the next search from here takes one step
            parents[item], item = root, parents[item]
        return root

    def union(self, first: K, *others: K) -> None:
        """Make one set of several; what stood for the first one stands for all."""
        root = self[first]
        for other in others:
            self._parents[self[other]] = root
