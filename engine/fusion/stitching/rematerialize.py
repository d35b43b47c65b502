"""Load a value that another kernel stores anyway, if that moves fewer bytes than recomputing it."""

from __future__ import annotations

from collections.abc import Sequence

from engine.fusion.stitching.cost_cache import Assessor
from engine.fusion.stitching.kernel_graph import KernelGraph
from engine.fusion.stitching.nodes import CandidateKernel


def read_stored_values(assessor: Assessor, graph: KernelGraph) -> KernelGraph:
    """The kernels without copies that cost more than reading their result, and without results that nobody reads."""
    home = {
        root: n
        for n, kernel in enumerate(graph.kernels)
        for root in kernel.roots
        if graph.readers[n][root] or not assessor.flow.outputs.isdisjoint(assessor.flow.steps[root].made)
    }
    found = [
        _without_copies(assessor, graph, n, {m for m in kernel.members - kernel.roots if m in home}, home)
        for n, kernel in enumerate(graph.kernels)
    ]
    kernels = tuple(_with_needed_roots(assessor, found))
    return graph if kernels == graph.kernels else KernelGraph(assessor.flow, kernels)


def _without_copies(
    assessor: Assessor, graph: KernelGraph, n: int, copies: set[int], home: dict[int, int]
) -> CandidateKernel:
    """Kernel `n` with as many of its copies read instead as saves bytes."""
    flow = assessor.flow
    kernel = graph.kernels[n]
    for copy in sorted(copies, key=lambda m: -flow.order[m]):
        if copy not in kernel.members or graph.place[home[copy]] >= graph.place[n]:
            continue
        less = _without(assessor, kernel, copy)
        # Bytes alone decide: what is computed again here is memory-bound.
        old, new = assessor.cost(kernel), assessor.cost(less)
        if old and new and new.bytes_read + new.bytes_written <= old.bytes_read + old.bytes_written:
            kernel = less
    return kernel


def _without(assessor: Assessor, kernel: CandidateKernel, copy: int) -> CandidateKernel:
    """A kernel without a step, and without what it computed for that step alone."""
    flow = assessor.flow
    left = set(kernel.members) - {copy}
    for member in sorted(left - kernel.roots, key=lambda m: -flow.order[m]):
        if left.isdisjoint(flow.consumers[member]):
            left.discard(member)
    return CandidateKernel(frozenset(left), kernel.roots, kernel.closed)


def _with_needed_roots(assessor: Assessor, kernels: Sequence[CandidateKernel]) -> list[CandidateKernel]:
    """The kernels with those roots that the program gives out or another kernel reads."""
    flow = assessor.flow
    read = {
        source
        for kernel in kernels
        for member in kernel.members
        for source in flow.producers[member]
        if source not in kernel.members
    }
    needed = read | {n for n, step in enumerate(flow.steps) if not step.made.isdisjoint(flow.outputs)}
    return [
        kernel if kernel.closed else CandidateKernel(kernel.members, kernel.roots & needed)
        for kernel in kernels
        if kernel.closed or kernel.roots & needed
    ]
