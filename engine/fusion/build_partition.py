"""The kernels of a program under a policy: the partition, then attentions, and products with the reductions of their
rows, as one kernel where that pays."""

from __future__ import annotations

from collections.abc import Sequence

from engine.fusion.attention_groups import with_attention
from engine.fusion.group_times import GroupTime
from engine.fusion.partition import Partition, partition
from engine.fusion.row_groups import with_rows
from engine.fusion.stitching.nodes import STITCH, Fixed
from engine.graph.nodes import Operator
from engine.target import Target
from engine.tensor.nodes import TensorProgram


def build_partition(
    program: TensorProgram, without_kernel: Sequence[Operator], policy: str, target: Target, fixed: Fixed,
    time_of: GroupTime,
) -> Partition:
    """The kernels of a program whose layout statements are folded.

    without_kernel: operators of the graph that the program lacks.  fixed: what a person decided about groups; it stays.
    time_of: what a kernel takes.  Raises BadInput, naming operators and figures, where that cannot be.
    """
    parts = partition(program, without_kernel, policy, target, fixed, time_of)
    return with_rows(with_attention(parts, parts.program, fixed), parts, fixed) if policy == STITCH else parts
