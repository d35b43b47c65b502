"""Element-wise and layout kernels: each thread computes vectors of elements, or a block transposes a tile."""

from __future__ import annotations

from engine.fusion.kinds import ELEMENTWISE, LAYOUT
from engine.fusion.nodes import FusionGroup
from engine.kernels.advice import with_content
from engine.kernels.elementwise.advise import map_threads, vectorize
from engine.kernels.elementwise.lower import lower_elementwise
from engine.kernels.elementwise.plans import plans
from engine.kernels.elementwise.space import element_tasks
from engine.kernels.elementwise.tiles import turned_reads
from engine.kernels.elementwise.transpose import lower_transpose
from engine.kernels.family import KernelFamily, MarkMenu, Setting
from engine.kernels.gemm.mapping_tasks import refused_mappings
from engine.kernels.loop_nest import loop_nest
from engine.kernels.marks import Marks
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.space import Space
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.tile.nodes import TileProgram


class ElementwiseFamily(KernelFamily):
    """Each thread computes vectors of elements, or a block turns a tile in shared memory.

    y[i,j] = relu(x[i,j] + b[j])    ->    element = block * 1024 + thread * 4;  y[element] = relu(x[element] + b[j])
    y[i,j] = x[j,i]                 ->    a tile is read along the rows of x, turned, and written along those of y
    """

    name = "element-wise"
    kinds = frozenset((ELEMENTWISE.name, LAYOUT.name))

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """As `KernelFamily` says."""
        ranked = plans(group.program, setting.machine.resident_threads)
        return with_content(
            vectorize(group.program, setting.machine, ranked), map_threads(group.program, setting.machine, ranked)
        )

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says."""
        nest = loop_nest(group.program, tree)
        marks = Marks(nest)
        is_transposed = marks.first("tile") and turned_reads(group.program, nest) is not None
        return (lower_transpose if is_transposed else lower_elementwise)(group, nest, marks)

    def menu(self, group: FusionGroup) -> MarkMenu:
        """As `KernelFamily` says."""
        titles = {"block": "Elements per block", "thread": "Threads per block"}
        return MarkMenu(titles, ("vector", "block", "tile") if group.kind == LAYOUT.name else ("vector", "block"))

    def space(self, group: FusionGroup, kernel: Kernel, compile_group: Compile) -> Space:
        """As `KernelFamily` says."""
        return Space(tuple(element_tasks(group, kernel)), tuple(refused_mappings(group, kernel.recipe)))


ELEMENTWISE_FAMILY = ElementwiseFamily()
