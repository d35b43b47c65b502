"""Stitched kernels: several loop nests over common rows, intermediates in registers or shared memory."""

from __future__ import annotations

from dataclasses import replace

from engine.fusion.nodes import FusionGroup
from engine.fusion.stitched import KIND
from engine.kernels.family import Setting
from engine.kernels.gemm.mappings import refused_mappings
from engine.kernels.loop_nest import block_nest
from engine.kernels.marks import Marks
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.space import Space
from engine.kernels.stitched.advise import stitch_group, with_own_schemes
from engine.kernels.stitched.lower import lower_stitched
from engine.kernels.stitched.space import stitched_tasks
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.tile.nodes import TileProgram


class StitchedFamily:
    """Implements `engine.kernels.family.KernelFamily`."""

    name = "stitched"
    kinds = frozenset((KIND,))

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """As the protocol says."""
        advice = stitch_group(group, setting.machine)
        return (with_own_schemes(advice, group, setting, compile_group),)

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As the protocol says."""
        nest = block_nest(group.program, tree)
        marks = Marks(nest)
        return replace(lower_stitched(group, nest, marks, setting.machine), notes=marks.unread())

    def space(self, group: FusionGroup, kernel: Kernel, compile_group: Compile) -> Space:
        """As the protocol says."""
        return Space(tuple(stitched_tasks(group, kernel)), tuple(refused_mappings(group, kernel.recipe)))


STITCHED_FAMILY = StitchedFamily()
