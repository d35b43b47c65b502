"""Steps of a recurrence in one launch."""

from __future__ import annotations

from engine.fusion.kinds import RECURRENCE
from engine.fusion.nodes import FusionGroup
from engine.kernels.family import KernelFamily, Setting
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.recurrence.advise import recurrence_advice
from engine.kernels.recurrence.lower import lower_recurrence
from engine.kernels.recurrence.space import recurrence_tasks
from engine.kernels.space import Space
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.tile.nodes import TileProgram


class RecurrenceFamily(KernelFamily):
    """Steps run one after the other in a launch whose blocks all meet in between, by a counter in global memory.

    h1 = f(h0 @ r);  h2 = f(h1 @ r)    ->    every block makes its part of h1, waits for all of h1, makes its part of h2
    """

    name = "recurrence"
    kinds = frozenset((RECURRENCE.name,))

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """As `KernelFamily` says."""
        return (recurrence_advice(group, setting, compile_group),)

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says."""
        return lower_recurrence(group, tree, setting)

    def space(self, group: FusionGroup, kernel: Kernel, compile_group: Compile) -> Space:
        """As `KernelFamily` says."""
        return Space(tuple(recurrence_tasks(group, kernel)))


RECURRENCE_FAMILY = RecurrenceFamily()
