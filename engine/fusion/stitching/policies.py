"""From steps to the kernels of a plan, under one of three policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.fusion.stitching.confirm import JoinJudge, confirm_kernels
from engine.fusion.stitching.cost_cache import Assessor
from engine.fusion.stitching.horizontal_fusion import pack_kernels
from engine.fusion.stitching.kernel_graph import Joins, KernelGraph
from engine.fusion.stitching.nodes import NONE, STITCH, XLA, CandidateKernel, Why
from engine.fusion.stitching.rematerialize import read_stored_values
from engine.fusion.stitching.repair import split_unsupported
from engine.fusion.stitching.search import stitch_kernels
from engine.fusion.stitching.xla_rules import xla_kernels
from engine.support.grouping import group_by, reachable

APART = {NONE: "the policy none makes a kernel of each operator", XLA: "the rules of the policy xla do not join them"}
"""Why kernels that could be one are two, where nothing is explored."""


@dataclass(frozen=True, slots=True)
class ChosenKernels:
    """The kernels of a plan, which can say why they are not fewer."""

    assessor: Assessor
    graph: KernelGraph
    joins: Joins
    """Of the kernels as they are: none is joined to another."""
    policy: str = STITCH

    def why(self, first: int, second: int) -> Why:
        """Why two kernels are not one."""
        pair = (first, second)
        parts = [self.graph.kernels[n] for n in pair]
        whole = self.graph.merge(pair)
        if reason := self._between(first, second) if self.joins.closes_cycle(pair) else self.assessor.because(whole):
            return Why(False, reason, None)
        gain = self.assessor.gain(parts, whole)
        closed = next(filter(None, map(self.assessor.why_closed, parts)), "")
        if closed or self.policy != STITCH:
            return Why(True, closed or APART[self.policy], gain)
        if gain is None or gain.microseconds > 0:
            return Why(True, "another plan saves more: its other reader or producer was joined first", gain)
        return Why(True, f"one kernel would be slower: {gain}", gain)

    def _between(self, first: int, second: int) -> str:
        """What needs the first kernel and feeds the second."""
        place = self.graph.place
        span = range(place[first], place[second] + 1)

        def within(edges: Sequence[Sequence[int]]) -> Callable[[int], list[int]]:
            return lambda n: [other for other in edges[n] if place[other] in span]

        behind, before = reachable(first, within(self.graph.consumers)), reachable(second, within(self.graph.producers))
        names = [
            step.statements[-1].operator if step.statements else "an operator without a kernel"
            for n in sorted((behind & before) - {first, second}, key=place.__getitem__)
            for step in [self.graph.flow.steps[max(self.graph.kernels[n].members)]]
        ]
        return f"{names[0]} lies between them and is another kernel" if names else "too far apart to look between them"


def choose(assessor: Assessor, policy: str, pays: JoinJudge, packing: bool) -> ChosenKernels:
    """The kernels of a policy.  pays: what confirms joined ones.  packing: whether independent ones share a launch."""
    flow = assessor.flow
    if policy == NONE:
        graph = _by_operator(assessor)
    else:
        graph = KernelGraph(flow, split_unsupported(assessor, xla_kernels(flow)))
    if policy == STITCH:
        # The rules copy freely: the first pass drops copies that cost more than a load, the second those of the search.
        apart = read_stored_values(assessor, graph)
        joined = confirm_kernels(assessor, apart, stitch_kernels(assessor, apart), pays)
        graph = read_stored_values(assessor, joined)
        graph = pack_kernels(assessor, graph, pays) if packing else graph
    return ChosenKernels(assessor, graph, Joins(graph), policy)


def _by_operator(assessor: Assessor) -> KernelGraph:
    """A kernel for each operator, or one for each of its steps where they do not fit one."""
    flow = assessor.flow
    alone = [CandidateKernel(frozenset((n,)), frozenset((n,)), step.closed) for n, step in enumerate(flow.steps)]
    joins = Joins(KernelGraph(flow, alone))

    def operator(n: int) -> str:
        (member,) = joins.graph.kernels[n].members
        return flow.steps[member].statements[-1].operator

    for members in group_by((n for n, k in enumerate(joins.graph.kernels) if not k.closed), operator).values():
        if len(members) > 1 and assessor.cost(joins.graph.merge(members)) is not None:
            joins.join(members)
    return joins.joined_graph()
