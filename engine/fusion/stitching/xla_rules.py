"""The rules of XLA's fusion passes for GPUs as XLA documents them, without its cost models: the policy to compare with.

Instruction fusion, consumers before producers:
  - an element-wise or layout operation is fused into all that read it, or into none; a reduction only ends a kernel,
    unless it reduces fewer than `SMALL` terms and is computed like an element;
  - a cheap one is copied into several readers; an expensive one is fused only where no copy arises and no reader needs
    its elements more than once;
  - what must be written in any case is copied into readers only where it reads at most one array of its own size.
Multi-output fusion, afterwards:
  - a kernel whose result a kernel over the same elements reads is joined with it and writes both results;
  - two kernels over the same elements that read one array are joined.
No join closes a cycle.  Division, roots and exponentials of floating-point numbers count as cheap on GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from engine.fusion.stitching.dataflow import Flow, FlowStep
from engine.fusion.stitching.kernel_graph import Joins, KernelGraph
from engine.fusion.stitching.nodes import MOST_STATEMENTS, CandidateKernel
from engine.tensor.nodes import Apply, Scalar

SMALL = 32
"""Terms of a reduction below which XLA computes it element by element: a warp would be idle in part."""
ONCE = frozenset("log tanh erf sigmoid pow sin cos atan mod".split())
"""Functions that XLA neither copies nor computes several times for one element."""


def xla_kernels(flow: Flow) -> list[CandidateKernel]:
    """The kernels that the rules make of the open steps; closed steps stay as they are."""
    return joined_outputs(flow, instruction_fusion(flow))


def instruction_fusion(flow: Flow) -> list[CandidateKernel]:
    """Producers go into their readers; each kernel has one root."""
    members: dict[int, set[int]] = {}
    """Root -> the steps of its kernel."""
    inside: dict[int, set[int]] = {}
    """Step -> the roots of the kernels that it is in."""
    for n in sorted(range(len(flow.steps)), key=lambda n: -flow.order[n]):
        step = flow.steps[n]
        if step.closed:
            members[n], inside[n] = {n}, {n}
            continue
        readers = [c for c in flow.consumers[n] if not step.made.isdisjoint(flow.steps[c].reads)]
        takers = {root for reader in readers for root in inside[reader] if not flow.steps[root].closed}
        needed = _is_needed(flow, n)
        if _may_go(flow, n, takers, members, needed):
            inside[n] = takers
            for root in takers:
                members[root].add(n)
        else:
            inside[n] = set()
            needed = True
        if needed:
            inside[n] = inside[n] | {n}
            members[n] = {n}
    return [CandidateKernel(frozenset(m), frozenset((root,)), flow.steps[root].closed) for root, m in members.items()]


def _is_needed(flow: Flow, n: int) -> bool:
    """Whether an open step must be written whatever is fused: the program gives it out, or a closed kernel reads it."""
    step = flow.steps[n]
    return (
        not step.made.isdisjoint(flow.outputs)
        or not flow.consumers[n]
        or any(flow.steps[c].closed for c in flow.consumers[n])
    )


def _may_go(flow: Flow, n: int, takers: set[int], members: dict[int, set[int]], needed: bool) -> bool:
    """Whether a step is fused into all the kernels that read it."""
    step = flow.steps[n]
    if not takers or not _is_loop(flow, step):
        return False
    if step.made & flow.inputs:
        return False  # an update in place is done once
    if any(len(members[root]) >= MOST_STATEMENTS for root in takers):
        return False
    costly = any(is_computed_once(s.expression) for s in step.statements)
    if costly and (needed or len(takers) > 1 or _is_reused(flow, n)):
        return False
    return not needed or _is_unary(flow, step)


def _is_loop(flow: Flow, step: FlowStep) -> bool:
    """Whether any element can be computed alone, where it is read."""
    if any(len(flow.makers[array]) > 1 for array in step.made):
        return False
    return all(s.reduction is None or math.prod(i.extent for i in s.reduced) < SMALL for s in step.statements)


def _is_reused(flow: Flow, n: int) -> bool:
    """Whether a reader needs an element more than once."""
    own = _points(flow.steps[n])
    return any(_points(flow.steps[c]) > own for c in flow.consumers[n])


def _points(step: FlowStep) -> int:
    return max((s.points for s in step.statements), default=0)


def _is_unary(flow: Flow, step: FlowStep) -> bool:
    """Whether the step reads at most one array that is not much smaller than what it writes."""
    own = sum(flow.program.arrays[a].elements for a in step.made)
    large = [a for a in step.reads if a in flow.program.arrays and flow.program.arrays[a].elements * 2 > own]
    return len(large) <= 1


def is_computed_once(value: Scalar) -> bool:
    """Whether XLA avoids to compute the value twice."""
    return isinstance(value, Apply) and (value.function in ONCE or any(map(is_computed_once, value.operands)))


def joined_outputs(flow: Flow, kernels: Sequence[CandidateKernel]) -> list[CandidateKernel]:
    """Multi-output fusion: kernels over the same elements with a result or an input in common."""
    graph = KernelGraph(flow, kernels)
    joins = Joins(graph)
    over = [() if kernel.closed else _elements(flow, kernel) for kernel in graph.kernels]
    reduces = {
        n
        for n, kernel in enumerate(graph.kernels)
        if not kernel.closed and not all(_is_loop(flow, flow.steps[root]) for root in kernel.roots)
    }

    def join(a: int, b: int) -> None:
        """Make one kernel of two that run over the same elements, where neither waits for a reduction of the other."""
        if over[a] != over[b] or graph.kernels[a].closed or graph.kernels[b].closed or b in joins.group(a):
            return
        both = joins.group(a) | joins.group(b)
        if sum(len(graph.kernels[n].members) for n in both) > MOST_STATEMENTS:
            return
        if both.isdisjoint(c for n in both & reduces for c in graph.consumers[n]):
            joins.join(both)

    for n in reversed(graph.in_order):
        for consumer in graph.consumers[n]:
            join(n, consumer)
    for readers in _siblings(flow, graph):
        for a, b in pairwise(readers):
            join(a, b)
    return joins.kernels()


def _elements(flow: Flow, kernel: CandidateKernel) -> tuple[int, ...]:
    """What the loops of a kernel run over: the extents of its widest root, reduced ones included."""
    roots = [s for root in kernel.roots for s in flow.steps[root].statements]
    widest = max(roots, key=lambda s: s.points)
    return tuple(sorted(extent for extent in widest.extents.values() if extent > 1))


def _siblings(flow: Flow, graph: KernelGraph) -> list[list[int]]:
    """Open kernels that read one array, for each array."""
    readers: dict[str, dict[int, None]] = {}
    for n, kernel in enumerate(graph.kernels):
        if not kernel.closed:
            made = {a for m in kernel.members for a in flow.steps[m].made}
            for member in sorted(kernel.members):
                for array in sorted(flow.steps[member].reads - made):
                    readers.setdefault(array, {})[n] = None
    return [list(found) for found in readers.values() if len(found) > 1]
