"""The search: patterns at every kernel, plans of disjoint patterns, the best plan by the accurate model, and packing.

What one round has joined is one kernel of the next, so that kernels with several producers are found too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from engine.fusion.stitching.beam_search import plans
from engine.fusion.stitching.cost_cache import Assessor
from engine.fusion.stitching.kernel_graph import Joins, KernelGraph
from engine.fusion.stitching.latency import latency
from engine.fusion.stitching.nodes import CandidateKernel, Cost
from engine.fusion.stitching.pattern_reduction import Pattern, ScoredPattern, pattern_reduction
from engine.fusion.stitching.shared_memory import shared_layout
from engine.support.errors import Unsupported
from engine.support.grouping import UnionFind, group_by
from engine.support.units import MICROSECONDS
from engine.target import Target
from engine.tensor.nodes import Statement, TensorProgram

ROUNDS = 4
"""Rounds at most; in practice the third finds nothing."""
MOST_KERNELS = 32
"""Kernels of one pattern: what a pattern costs to look at grows with it."""


def stitch_kernels(assessor: Assessor, graph: KernelGraph) -> KernelGraph:
    """Kernels of kernels, as long as a round finds some."""
    for _ in range(ROUNDS):
        before, graph = graph, _round(assessor, graph)
        if graph is before:
            break
    return graph


def _round(assessor: Assessor, graph: KernelGraph) -> KernelGraph:
    """The kernels that the patterns of the best plan make."""
    apart = Joins(graph)

    @cache
    def score(pattern: Pattern) -> float | None:
        return _score(assessor, apart, pattern)

    downwards = [n for n in graph.in_order if not graph.kernels[n].closed]
    candidates = pattern_reduction(
        reversed(downwards), lambda n: [c for c in graph.consumers[n] if not graph.kernels[c].closed], score
    )
    joins = Joins(graph)
    # Plans of unconnected regions do not compete: one beam for each keeps the width for real alternatives.
    for region in _regions(graph, downwards):
        best = min(plans(region, candidates), key=lambda plan: _microseconds(assessor, graph, plan))
        for candidate in best:
            joins.join(candidate.pattern)  # but where two patterns wait for each other
    return joins.joined_graph()


def _score(assessor: Assessor, apart: Joins, pattern: Pattern) -> float | None:
    """The score f of a pattern; None where it is no kernel."""
    if len(pattern) == 1:
        return 0.0
    if len(pattern) > MOST_KERNELS or apart.closes_cycle(pattern):
        return None
    graph = apart.graph
    found = assessor.gain([graph.kernels[n] for n in sorted(pattern)], graph.merge(pattern))
    return None if found is None else found.microseconds


def _regions(graph: KernelGraph, downwards: Sequence[int]) -> list[list[int]]:
    """Open kernels that data flow connects, producers before consumers: a pattern lies in one region."""
    region = UnionFind(downwards)
    for n in downwards:
        region.union(n, *(c for c in graph.consumers[n] if not graph.kernels[c].closed))
    return list(group_by(downwards, lambda n: region[n]).values())


def _microseconds(assessor: Assessor, graph: KernelGraph, plan: Sequence[ScoredPattern]) -> float:
    """What a plan saves by the accurate model, negated: the less, the better."""
    saved = 0.0
    for candidate in plan:
        parts = [graph.kernels[n] for n in sorted(candidate.pattern)]
        saved += sum(accurate(assessor, part) for part in parts) - accurate(assessor, graph.merge(candidate.pattern))
    return -saved


def accurate(assessor: Assessor, kernel: CandidateKernel) -> float:
    """Microseconds of a kernel by the accurate model: launch, and the longer of moving and computing."""
    cost = assessor.cost(kernel)
    if cost is None:
        return float("inf")
    first = assessor.first(kernel)
    if first not in assessor.times:
        flow = assessor.flow
        stored = assessor.stored_arrays(first)
        spent = microseconds(flow.statements(first.members), cost, stored, flow.program, assessor.target)
        assessor.times[first] = spent
    return assessor.times[first]


def microseconds(
    statements: Sequence[Statement], cost: Cost, kept: frozenset[str], program: TensorProgram, target: Target
) -> float:
    """The accurate model's time of one kernel of these statements."""
    sizes = {
        array: program.arrays[array].bytes // max(1, cost.fit.rows)
        for array in (s.write.array for s in statements)
        if array in cost.fit.shared_arrays
    }
    try:
        shared = shared_layout(statements, sizes).bytes if sizes else 0
        computing = latency(statements, cost.fit, kept, shared, target).microseconds
    except Unsupported:
        return float("inf")
    return max(moving(cost, target), target.empty_kernel * MICROSECONDS + computing)


def moving(cost: Cost | None, target: Target) -> float:
    """Microseconds of a launch that only moves what the kernel reads and writes."""
    moved = cost.bytes_read + cost.bytes_written if cost else 0
    return (target.empty_kernel + moved / target.dram_bandwidth.value) * MICROSECONDS
