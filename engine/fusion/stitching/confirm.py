"""Kernels that the estimate confirms: what the search joined falls apart again where that is quicker.

    s = sum(j) x[i, j];   y[i, j] = x[i, j] - s[i]     of 4 rows: one kernel has 4 blocks, two use the whole GPU

The search's model knows no bandwidth of few blocks, nothing of blocks of one launch that share a reduction's terms, and
not how the threads of a stitched kernel walk its loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.fusion.shape import reduction_kind
from engine.fusion.stitching.cost_cache import Assessor
from engine.fusion.stitching.kernel_graph import KernelGraph
from engine.fusion.stitching.latency import launch_of
from engine.fusion.stitching.nodes import CandidateKernel
from engine.target.hardware import WARP

JoinJudge = Callable[[Sequence[CandidateKernel], CandidateKernel], bool]
"""Whether one kernel in the place of several is quicker, by the estimate of what they compile to."""


def confirm_kernels(assessor: Assessor, before: KernelGraph, after: KernelGraph, pays: JoinJudge) -> KernelGraph:
    """The kernels `after` a search, doubtful ones as they were `before` where that is quicker."""
    if after is before:
        return after
    kept: list[CandidateKernel] = []
    known = set(before.kernels)
    homes = {root: kernel for kernel in before.kernels for root in kernel.roots}
    for whole in after.kernels:
        parts = list(dict.fromkeys(homes[m] for m in sorted(whole.members) if m in homes))
        is_made_of_parts = frozenset[int]().union(*(part.members for part in parts)) == whole.members
        if whole in known or not is_made_of_parts or not _is_doubtful(assessor, whole) or pays(parts, whole):
            kept.append(whole)
        else:
            kept += parts
    return after if len(kept) == len(after.kernels) else KernelGraph(after.flow, kept)


def _is_doubtful(assessor: Assessor, kernel: CandidateKernel) -> bool:
    """Whether the search's model may be wrong about a kernel: about any stitched one, and about one that keeps rows to
    so few blocks that their SMs' ports to L2 cost more than a launch."""
    cost, machine = assessor.cost(kernel), assessor.target
    if cost is None or not cost.fit.shape.kind.keeps_rows:
        return cost is not None and cost.fit.shape.kind.hands_over
    statements = assessor.flow.statements(assessor.first(kernel).members)
    beside = WARP if reduction_kind(statements).combines_warps else 1
    busy = min(1.0, launch_of(cost.fit, machine).blocks / beside / machine.sms.value)
    moved, brought = cost.bytes_read + cost.bytes_written, machine.l2_bandwidth.value * busy
    return moved / brought - moved / machine.dram_bandwidth.value > machine.empty_kernel
