"""Stitched kernels: several loop nests over common rows, intermediates in registers or shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from engine.fusion.kinds import STITCHED
from engine.fusion.nodes import FusionGroup
from engine.kernels.family import KernelFamily, Rival, Setting, general_rival
from engine.kernels.gemm.mapping_tasks import refused_mappings
from engine.kernels.loop_nest import block_nest
from engine.kernels.marks import Marks
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.space import Space
from engine.kernels.stitched.advise import stitch_scenarios
from engine.kernels.stitched.lower import lower_stitched
from engine.kernels.stitched.space import stitched_tasks
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.tile.nodes import TileProgram


class StitchedFamily(KernelFamily):
    """Parts of different shapes run one after the other in a block, which hands over what lies between them.

    s[i] = sum(k) x[i,k];  y[i,k,c] = x[i,k] / s[i] * w[c]    ->    block i: reduce to s, barrier, then walk (k, c)
    """

    name = "stitched"
    kinds = frozenset((STITCHED.name,))

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """As `KernelFamily` says."""
        return (stitch_scenarios(group, setting, compile_group),)

    def rivals(self, group: FusionGroup, kernel: Kernel) -> Iterator[Rival]:
        """As `KernelFamily` says: the general one."""
        return general_rival()

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says."""
        nest = block_nest(group.program, tree)
        return lower_stitched(group, nest, Marks(nest), setting.machine)

    def space(self, group: FusionGroup, kernel: Kernel, compile_group: Compile) -> Space:
        """As `KernelFamily` says."""
        return Space(tuple(stitched_tasks(group, kernel)), tuple(refused_mappings(group, kernel.recipe)))


STITCHED_FAMILY = StitchedFamily()
