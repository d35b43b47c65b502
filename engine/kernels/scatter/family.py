"""The family of scatters."""

from __future__ import annotations

from engine.fusion.nodes import FusionGroup
from engine.kernels.family import KernelFamily, Setting
from engine.kernels.loop_nest import loop_nest
from engine.kernels.marks import Marks
from engine.kernels.nodes import Compile
from engine.kernels.scatter.config import fitting_config
from engine.kernels.scatter.lower import lower_scatter
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.support.errors import Unsupported
from engine.tensor.scatter import match_scatter
from engine.tile.nodes import TileProgram


class ScatterFamily(KernelFamily):
    """Updates take places in bins of their destinations, then each destination joins those of its bin.

    y[k] = sum(u) (index[u] == k ? update[u] : 0)    ->    y[index[u]] += update[u]
    """

    name = "scatter"

    def recognises(self, group: FusionGroup) -> bool:
        """By what the statements compute, where bins can hold the updates."""
        scatter = match_scatter(group.program)
        return scatter is not None and fitting_config(group.program, scatter) is not None

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """Nothing: any order of the loops gives the same kernel."""
        return ()

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says."""
        scatter = match_scatter(group.program)
        config = None if scatter is None else fitting_config(group.program, scatter)
        if scatter is None or config is None:
            raise Unsupported("codegen", group.program.name, "is no scatter whose updates bins can hold")
        marks = Marks(loop_nest(group.program, tree))
        return marks.describe(lower_scatter(group, scatter, config), config)


SCATTER_FAMILY = ScatterFamily()
