"""Kernels as a graph, what merging some of them leaves to be written, and whether that would close a cycle."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from engine.stitch.flow import Flow
from engine.stitch.nodes import Kernel

FARTHEST = 4000
"""Kernels visited to look for a way back into a pattern; what lies farther apart is not joined."""


class KernelGraph:
    """Kernels with their data flow, numbered in an order that respects it."""

    def __init__(self, flow: Flow, kernels: Sequence[Kernel]) -> None:
        self.flow = flow
        self.kernels = tuple(sorted(kernels, key=lambda k: max(flow.order[m] for m in k.members)))
        home = {root: n for n, kernel in enumerate(self.kernels) for root in kernel.roots}
        producers: list[dict[int, None]] = [{} for _ in self.kernels]
        self.readers: list[dict[int, set[int]]] = [{root: set() for root in k.roots} for k in self.kernels]
        """For each kernel: root -> the kernels that read it."""
        for n, kernel in enumerate(self.kernels):
            for member in sorted(kernel.members):
                for source in flow.producers[member]:
                    if source not in kernel.members and source in home:
                        producers[n][home[source]] = None
                        self.readers[home[source]][source].add(n)
        self.producers = tuple(tuple(p) for p in producers)
        consumers: list[list[int]] = [[] for _ in self.kernels]
        for n, sources in enumerate(self.producers):
            for source in sources:
                consumers[source].append(n)
        self.consumers = tuple(tuple(c) for c in consumers)
        self.place = self._places()

    def _places(self) -> tuple[int, ...]:
        """Position of each kernel in an order that respects data flow."""
        waiting = [len(p) for p in self.producers]
        ready = [n for n in range(len(self.kernels) - 1, -1, -1) if not waiting[n]]
        place = [0] * len(self.kernels)
        at = 0
        while ready:
            n = ready.pop()
            place[n] = at
            at += 1
            for consumer in reversed(self.consumers[n]):
                waiting[consumer] -= 1
                if not waiting[consumer]:
                    ready.append(consumer)
        assert at == len(self.kernels), "kernels wait for each other"
        return tuple(place)

    def merged(self, pattern: Collection[int]) -> Kernel:
        """One kernel of several; what only they read is written no more."""
        parts = [self.kernels[n] for n in pattern]
        members = frozenset[int]().union(*(k.members for k in parts))
        roots = frozenset(
            root
            for n in pattern
            for root, readers in self.readers[n].items()
            if not readers <= set(pattern) or not self.flow.outputs.isdisjoint(self.flow.steps[root].made)
        )
        return Kernel(members, roots)

    def kept(self, kernel: Kernel) -> frozenset[str]:
        """Arrays that a kernel must write."""
        return frozenset(array for root in kernel.roots for array in self.flow.steps[root].made)

    def closes_cycle(self, pattern: Collection[int], joined: Mapping[int, Collection[int]]) -> bool:
        """Whether a kernel outside needs something of the pattern and feeds it, or lies too far off to tell.

        joined: kernel -> those that it is one kernel with by now.
        """
        inside = set(pattern)
        last = max(self.place[n] for n in inside)
        for n in inside & joined.keys():
            last = max(last, *(self.place[m] for m in joined[n]))
        pending = [c for n in inside for c in self.consumers[n] if c not in inside]
        seen: set[int] = set()
        while pending:
            n = pending.pop()
            if n in seen:
                continue
            seen.add(n)
            if len(seen) > FARTHEST:
                return True
            for one in joined.get(n, (n,)):
                seen.add(one)
                for consumer in self.consumers[one]:
                    if consumer in inside:
                        return True
                    if consumer not in seen and (self.place[consumer] < last or consumer in joined):
                        pending.append(consumer)
        return False
