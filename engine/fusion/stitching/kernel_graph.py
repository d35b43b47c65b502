"""Kernels as a graph: merging several, which results still need storing, and whether a merge closes a cycle."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from engine.fusion.stitching.dataflow import Flow, consumers_of, places
from engine.fusion.stitching.nodes import CandidateKernel

FARTHEST = 4000
"""Kernels visited to look for a way back into a pattern; what lies farther apart is not joined."""


class KernelGraph:
    """Kernels with their data flow, numbered in an order that respects it."""

    def __init__(self, flow: Flow, kernels: Sequence[CandidateKernel]) -> None:
        self.flow = flow
        self.kernels = tuple(sorted(kernels, key=lambda k: max(flow.order[m] for m in k.members)))
        self._home = home = {root: n for n, kernel in enumerate(self.kernels) for root in kernel.roots}
        producers: list[dict[int, None]] = [{} for _ in self.kernels]
        for n, kernel in enumerate(self.kernels):
            # Sorted, because the order of producers decides ties of the search, and that of a set is an accident.
            for member in sorted(kernel.members):
                for source in flow.producers[member]:
                    if source not in kernel.members and source in home:
                        producers[n][home[source]] = None
        self.producers = tuple(tuple(p) for p in producers)
        self.consumers = consumers_of(self.producers)
        self.place = places(self.producers, self.consumers)
        """Position of each kernel in an order that respects data flow."""
        self.in_order = sorted(range(len(self.kernels)), key=self.place.__getitem__)

    @cached_property
    def readers(self) -> list[dict[int, set[int]]]:
        """For each kernel: root -> the kernels that read it; not asked for where kernels are only joined."""
        found: list[dict[int, set[int]]] = [{root: set() for root in kernel.roots} for kernel in self.kernels]
        for n, kernel in enumerate(self.kernels):
            for member in kernel.members:
                for source in self.flow.producers[member]:
                    if source not in kernel.members and source in self._home:
                        found[self._home[source]][source].add(n)
        return found

    def merge(self, pattern: Collection[int]) -> CandidateKernel:
        """One kernel of several; what only they read is written no more."""
        inside, outputs, steps = frozenset(pattern), self.flow.outputs, self.flow.steps
        members = frozenset[int]().union(*[self.kernels[n].members for n in pattern])
        roots = [
            root
            for n in pattern
            for root, readers in self.readers[n].items()
            if not readers <= inside or not outputs.isdisjoint(steps[root].made)
        ]
        return CandidateKernel(members, frozenset(roots))


class Joins:
    """Kernels of a graph that become one, and an order of all kernels in which groups stay together."""

    def __init__(self, graph: KernelGraph) -> None:
        self.graph = graph
        self._group = [frozenset((n,)) for n in range(len(graph.kernels))]
        self._slot = list(graph.place)
        self._at = list(graph.in_order)
        """Slot -> kernel."""

    def group(self, n: int) -> frozenset[int]:
        """The kernels that kernel `n` is one with by now."""
        return self._group[n]

    def kernels(self) -> list[CandidateKernel]:
        """One kernel for each group."""
        groups = dict.fromkeys(self._group[n] for n in self._at)
        return [self.graph.merge(g) if len(g) > 1 else self.graph.kernels[min(g)] for g in groups]

    def joined_graph(self) -> KernelGraph:
        """The graph of these kernels: the same one where none were joined."""
        return KernelGraph(self.graph.flow, self.kernels()) if any(len(g) > 1 for g in self._group) else self.graph

    def in_order(self) -> tuple[int, ...]:
        """The kernels of the graph in an order that respects data flow, those of a group side by side."""
        return tuple(self._at)

    def closes_cycle(self, pattern: Collection[int]) -> bool:
        """Whether a kernel outside needs something of the pattern and feeds it, or lies too far off to tell."""
        return self._behind(self._whole(pattern)) is None

    def join(self, pattern: Collection[int]) -> bool:
        """Make one group of a pattern and all that its kernels are in; False, and nothing done, where it is a cycle."""
        whole = self._whole(pattern)
        behind = self._behind(whole)
        if behind is None:
            return False
        # Keep a topological order (Pearce and Kelly): only kernels between the first and the last of the group move.
        slots = [self._slot[n] for n in whole]
        span = range(min(slots), max(slots) + 1)
        between = [n for n in (self._at[slot] for slot in span) if n not in whole]
        inside = sorted(whole, key=self._slot.__getitem__)
        ordered = [*(n for n in between if n not in behind), *inside, *(n for n in between if n in behind)]
        for slot, n in zip(span, ordered, strict=True):
            self._at[slot], self._slot[n] = n, slot
        for n in whole:
            self._group[n] = whole
        return True

    def _whole(self, pattern: Collection[int]) -> frozenset[int]:
        return frozenset[int]().union(*[self._group[n] for n in pattern])

    def _behind(self, whole: frozenset[int]) -> set[int] | None:
        """Kernels up to the last of `whole` that need something of it; None where one of them feeds it."""
        slot, group, consumers = self._slot, self._group, self.graph.consumers
        last = max([slot[n] for n in whole])
        found: set[int] = set()
        pending = [c for n in whole for c in consumers[n] if c not in whole]
        while pending:
            n = pending.pop()
            if n in found or slot[n] > last:
                continue
            found |= group[n]
            if len(found) > FARTHEST:
                return None
            for member in group[n]:
                for consumer in consumers[member]:
                    if consumer in whole:
                        return None
                    pending.append(consumer)
        return found


def joins_of(flow: Flow) -> Joins:
    """Every step a kernel of its own, numbered by its place in the flow's order, none joined yet."""
    return Joins(KernelGraph(flow, [CandidateKernel(frozenset((n,)), frozenset((n,))) for n in range(len(flow.steps))]))
