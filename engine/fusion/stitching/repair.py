"""Split kernels of XLA's rules that no kernel family can generate, into as few parts as fit."""

from __future__ import annotations

from collections.abc import Sequence

from engine.fusion.stitching.cost_cache import Assessor
from engine.fusion.stitching.kernel_graph import Joins, KernelGraph
from engine.fusion.stitching.nodes import CandidateKernel


def split_unsupported(assessor: Assessor, kernels: Sequence[CandidateKernel]) -> list[CandidateKernel]:
    """The kernels, those that do not fit grown anew from each of their results, and joined again as far as they fit."""
    together: dict[int, int] = {}
    """Root of a part -> the kernel that asked for it."""
    homes: set[int] = set()
    found: list[CandidateKernel] = []
    for kernel in kernels:
        if kernel.closed or len(kernel.members) == 1 or assessor.cost(kernel) is not None:
            found.append(kernel)
            homes |= kernel.roots
    for number, kernel in enumerate(kernels):
        if kernel.roots <= homes:
            continue
        for part in _grow_parts(assessor, kernel):
            (root,) = part.roots
            if root not in homes:  # what two kernels had to part with is written once
                homes.add(root)
                together[root] = number
                found.append(part)
    return _join_parts(assessor, found, together) if together else found


def _grow_parts(assessor: Assessor, kernel: CandidateKernel) -> list[CandidateKernel]:
    """Consumers before producers: each step goes into the parts that read it, or is the result of one of its own."""
    flow = assessor.flow
    parts: dict[int, CandidateKernel] = {}
    for n in sorted(kernel.members, key=lambda n: -flow.order[n]):
        grown = {
            root: CandidateKernel(part.members | {n}, part.roots)
            for root, part in parts.items()
            if any(c in part.members for c in flow.consumers[n])
        }
        if n not in kernel.roots and grown and all(assessor.cost(part) is not None for part in grown.values()):
            parts |= grown
        else:
            parts[n] = CandidateKernel(frozenset((n,)), frozenset((n,)))
    return list(parts.values())


def _join_parts(
    assessor: Assessor, kernels: Sequence[CandidateKernel], together: dict[int, int]
) -> list[CandidateKernel]:
    """Parts of one kernel joined where they fit."""
    graph = KernelGraph(assessor.flow, kernels)
    joins = Joins(graph)
    seeds: dict[int, list[int]] = {}
    for n in reversed(graph.in_order):
        asked = together.get(min(graph.kernels[n].roots))
        if asked is None:
            continue
        for other in seeds.setdefault(asked, []):
            both = joins.group(n) | joins.group(other)
            if assessor.cost(graph.merge(both)) is not None and joins.join(both):
                break
        else:
            seeds[asked].append(n)
    return joins.kernels()
