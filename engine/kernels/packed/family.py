"""Packed kernels: parts that no value connects, each in a range of the blocks of one launch."""

from __future__ import annotations

from engine.fusion.kinds import PACKED
from engine.fusion.nodes import FusionGroup
from engine.kernels.family import KernelFamily, Setting
from engine.kernels.gemm.space import refused_mappings
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.packed.advise import pack_group
from engine.kernels.packed.lower import lower_packed
from engine.kernels.packed.space import packed_tasks
from engine.kernels.space import Space
from engine.kernels.stitched.advise import with_own_schemes
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.tile.nodes import TileProgram


class PackedFamily(KernelFamily):
    """Parts that no value connects share a launch: each has a range of its blocks.

    y = relu(x) over 4096 elements;  m = row sums of z    ->    blocks 0 to 3 make y, blocks 4 to 35 make m
    """

    name = "packed"
    kinds = frozenset((PACKED.name,))

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """As `KernelFamily` says."""
        advice = pack_group(group, setting.machine)
        return (with_own_schemes(advice, group, setting, compile_group),)

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says."""
        return lower_packed(group, tree, setting.machine)

    def space(self, group: FusionGroup, kernel: Kernel, compile_group: Compile) -> Space:
        """As `KernelFamily` says."""
        return Space(tuple(packed_tasks(group, kernel)), tuple(refused_mappings(group, kernel.recipe)))


PACKED_FAMILY = PackedFamily()
