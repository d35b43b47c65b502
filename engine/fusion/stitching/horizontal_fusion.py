"""Horizontal fusion: independent kernels share a launch (FusionStitching, section 5.2, "remote fusion").

A virtual vertex before all kernels makes them its consumers, and PatternReduction finds which to take together.  Only
kernels at one depth of the graph are packed: none of them waits for another, whatever else is packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from engine.fusion.shape import is_contraction
from engine.fusion.stitching.confirm import JoinJudge
from engine.fusion.stitching.cost_cache import Assessor
from engine.fusion.stitching.kernel_graph import Joins, KernelGraph
from engine.fusion.stitching.pattern_reduction import Pattern, ScoredPattern, of_consumers
from engine.support.grouping import group_by

VIRTUAL = -1
"""The vertex before all."""
MOST_PACKED = 64
"""Kernels looked at together."""
MOST_REFUSED = 1
"""Packs of these that may turn out not to pay: each takes a compilation to find out."""


def pack_kernels(assessor: Assessor, graph: KernelGraph, pays: JoinJudge) -> KernelGraph:
    """The kernels, independent ones of one depth in one launch where that saves time.

    The search's model proposes packs; it knows nothing of blocks that are busy for long beside others, so what it
    proposes is `pays` to confirm.
    """
    joins = Joins(graph)
    for level in _levels(graph):
        ordered = [n for n in _by_size(graph, level) if not _joins_product(assessor, graph, n, pays)]
        for start in range(0, len(ordered), MOST_PACKED):
            _pack(assessor, joins, ordered[start : start + MOST_PACKED], pays)
    return joins.joined_graph()


def _joins_product(assessor: Assessor, graph: KernelGraph, n: int, pays: JoinJudge) -> bool:
    """Whether a kernel reduces whole rows of a product in one kernel with it, where that is quicker: then it is left to
    that kernel, which takes in no other part of a pack."""
    kernel = graph.kernels[n]
    if not _reduces(graph, n):
        return False
    for producer in graph.producers[n]:
        product = graph.kernels[producer]
        if not product.closed and any(map(is_contraction, graph.flow.statements(product.members))):
            both = graph.merge((producer, n))
            fit = assessor.fit(assessor.first(both))
            if not isinstance(fit, str) and fit.shape.kind.takes_reductions and pays([product, kernel], both):
                return True
    return False


def _pack(assessor: Assessor, joins: Joins, kernels: Sequence[int], pays: JoinJudge) -> None:
    """Join the best pack, then the best of what is left, and so on; the largest kernel of one that does not pay, or
    that pays more without it, stays alone, and where that does not help, all that are left do."""
    graph = joins.graph
    left, refused = list(kernels), 0

    @cache
    def score(pattern: Pattern) -> float | None:
        inside = pattern - {VIRTUAL}
        if len(inside) < 2:
            return 0.0
        found = assessor.gain([graph.kernels[n] for n in sorted(inside)], graph.merge(inside))
        return found.microseconds if found else None

    while len(left) > 1:
        alone = {n: (ScoredPattern(frozenset((n,)), 0.0),) for n in left}
        best = of_consumers(VIRTUAL, left, alone, score)[0]
        pack = best.pattern - {VIRTUAL}
        if len(pack) < 2 or best.score <= 0:
            return
        largest = next(n for n in reversed(left) if n in pack)
        if not pays([graph.kernels[n] for n in sorted(pack)], graph.merge(pack)):
            refused += 1
            if refused > MOST_REFUSED:
                return
            left.remove(largest)
            continue
        rest = pack - {largest}
        if len(rest) > 1 and not pays([graph.merge(rest), graph.kernels[largest]], graph.merge(pack)):
            left.remove(largest)
            pack = rest
        if not joins.join(pack):
            return
        left = [n for n in left if n not in pack]


def _levels(graph: KernelGraph) -> list[list[int]]:
    """Kernels by their depth: the longest way to them from the inputs.

    One that reduces, and that no kernel waits for, waits for the last of its size: gradients of a bias of every layer.
    """
    depth: dict[int, int] = {}
    for n in graph.in_order:
        depth[n] = max((depth[p] + 1 for p in graph.producers[n]), default=0)
    last = [n for n in graph.in_order if not graph.consumers[n] and _reduces(graph, n)]
    for alike in group_by(last, lambda n: _points(graph, n)).values():
        depth |= dict.fromkeys(alike, max(depth[n] for n in alike))
    return list(group_by(graph.in_order, depth.__getitem__).values())


def _reduces(graph: KernelGraph, n: int) -> bool:
    kernel = graph.kernels[n]
    return not kernel.closed and any(s.reduction for s in graph.flow.statements(kernel.members))


def _points(graph: KernelGraph, n: int) -> int:
    """Of the largest statement of an open kernel that others read."""
    statements = [s for root in graph.kernels[n].roots for s in graph.flow.steps[root].statements]
    return max(s.points for s in statements)


def _by_size(graph: KernelGraph, kernels: Sequence[int]) -> list[int]:
    """Open kernels, those with about as many points side by side: they are tried together first."""
    return sorted((n for n in kernels if not graph.kernels[n].closed), key=lambda n: (_points(graph, n), n))
