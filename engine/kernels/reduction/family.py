"""Reduction kernels: neighbouring threads share a row, or own columns whose terms the warps of a block share."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

from engine.cost.estimate import model_microseconds
from engine.fusion.kinds import COLUMN_REDUCTION, ROW_REDUCTION
from engine.fusion.nodes import FusionGroup
from engine.kernels.advice import with_content
from engine.kernels.family import KernelFamily, MarkMenu, Rival, Setting, general_rival
from engine.kernels.gemm.mapping_tasks import refused_mappings
from engine.kernels.loop_nest import loop_nest
from engine.kernels.marks import Marks
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.reduction.advise import best_first, map_reduction, vectorize
from engine.kernels.reduction.config import ReductionConfig
from engine.kernels.reduction.lower import lower_reduction
from engine.kernels.reduction.promise import promised_best
from engine.kernels.reduction.space import row_tasks
from engine.kernels.space import Space
from engine.recipe import Advice, Recipe
from engine.scheduling.nodes import ScheduleTree
from engine.support.errors import OverBudget, Unsupported
from engine.tile.nodes import TileProgram


class ReductionFamily(KernelFamily):
    """Neighbouring threads share a row, or own neighbouring columns whose terms the warps of a block share.

    m[i] = max(k) x[i,k]    ->    lanes 0 to 31 take x[i, lane], x[i, lane + 32], ..., a shuffle tree joins their parts
    s[j] = sum(k) x[k,j]    ->    thread (w, j) takes x[w, j], x[w + 8, j], ..., 8 parts meet in shared memory
    """

    name = "reduction"
    kinds = frozenset((ROW_REDUCTION.name, COLUMN_REDUCTION.name))

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """As `KernelFamily` says."""
        by_row = group.kind == ROW_REDUCTION.name
        mapped = map_reduction(group.program, setting.machine, by_row)
        if by_row:
            return with_content(vectorize(group.program), mapped)

        def measure(advice: Advice) -> tuple[int, float]:
            recipe = Recipe(setting.machine.name, numerics=setting.numerics, groups={group.name: (advice,)})
            try:
                facts = compile_group(group, recipe).facts
            except (Unsupported, OverBudget):
                return sys.maxsize, math.inf
            return facts.global_sectors, model_microseconds(facts, setting.machine)

        return with_content(best_first(mapped, measure))

    def rivals(self, group: FusionGroup, kernel: Kernel) -> Iterator[Rival]:
        """As `KernelFamily` says: threads that share a row or a column, and how much of it is written out."""
        config = kernel.tile.config
        # Threads that each make results by themselves, as of a depthwise convolution, need no exchange: they stay.
        is_alone = isinstance(config, ReductionConfig) and config.layout.by_row and config.layout.lanes == 1
        found = None if is_alone else promised_best(group, kernel)
        if found is not None:
            way, program = found
            yield Rival(way.decided, way.entries(program), way.rank(program))
        yield from general_rival()

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says."""
        nest = loop_nest(group.program, tree)
        marks = Marks(nest)
        # On a walked loop `lane` asks for threads along the reduced elements, `warp` for some along the kept ones too.
        wish = marks.first("lane", "warp", members=[m for phase in nest.phases for m in phase.members])
        by_row = wish == "lane" if wish else group.kind == ROW_REDUCTION.name
        return lower_reduction(group, nest, marks, by_row).with_registers(setting.machine.sm_count)

    def menu(self, group: FusionGroup) -> MarkMenu:
        """As `KernelFamily` says."""
        if group.kind == COLUMN_REDUCTION.name:
            return MarkMenu(
                {"warp": "Warps per block", "lane": "Threads per column", "split_k": "Blocks per column"},
                ("vector", "lane"),
            )
        across = "Threads across rows, warps per block"
        marks = {"block": "Rows per block", "lane": "Threads per row", "warp": across, "split_k": "Blocks per row"}
        return MarkMenu(marks, ("vector", "warp"))

    def space(self, group: FusionGroup, kernel: Kernel, compile_group: Compile) -> Space:
        """As `KernelFamily` says."""
        return Space(tuple(row_tasks(group, kernel)), tuple(refused_mappings(group, kernel.recipe)))


REDUCTION_FAMILY = ReductionFamily()
