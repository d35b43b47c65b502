"""The family that makes a kernel of every legal schedule tree, where no faster one fits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.cost.estimate import estimate_microseconds
from engine.fusion.nodes import FusionGroup
from engine.kernels.family import KernelFamily, Setting
from engine.kernels.general.lower import GeneralConfig, emit_general
from engine.kernels.general.paths import Dimension, loops_of, paths
from engine.kernels.general.places import Place
from engine.kernels.general.plans import Planner
from engine.kernels.general.wishes import Wishes, read_marks
from engine.kernels.nodes import Compile
from engine.poly.dependences import dependences
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.support.errors import Unsupported
from engine.target.hardware import SECTOR
from engine.tile.nodes import TileProgram
from engine.tile.printer import print_cuda
from engine.tile.work import work_of_tile


class GeneralFamily(KernelFamily):
    """Threads or blocks run the schedule at their own points of dimensions that no dependence crosses.

    band t = 2 i, band j: S[i, j]    ->    t, j = divmod(point of the thread, 64); if (t % 2 == 0) S[t / 2, j]
    """

    name = "general"

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """Nothing: it takes the schedule as it is."""
        return ()

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says: of all plans the one with the shortest estimate."""
        program = group.program
        nest = loops_of(program, tree.root)
        loops = list(dict.fromkeys(d for path in paths(nest).values() for d in path))
        marks, wishes = read_marks(program, loops)
        made: list[tuple[tuple[int, bool], float, GeneralConfig, TileProgram, dict[Dimension | str, str]]] = []
        for config, where in Planner(program, nest, dependences(program), wishes, setting.machine).plans():
            try:
                tile = emit_general(group, nest, where, config)
            except Unsupported:
                if config.vector > 1:
                    continue  # the same plan without vectors comes later
                raise
            work = work_of_tile(program, tile, print_cuda(tile))
            # Whole sectors come from L2, however little of each the lanes of a warp want.
            work = replace(work, l2_bytes=max(work.l2_bytes, work.global_sectors * SECTOR))
            missed = missed_wishes(wishes, config, where)
            lacks = len(missed), bool(wishes.vectors) and config.vector == 1
            made.append((lacks, estimate_microseconds(work, setting.machine), config, tile, missed))
        _, _, config, tile, missed = min(made, key=lambda plan: plan[:2])
        for what, because in missed.items():
            if isinstance(what, Dimension):
                marks.refuse({"lane": because, "warp": because}, (what.member,))
            else:
                marks.refuse_mark(wishes.scopes[what], because)
        return marks.describe(tile, config)


def missed_wishes(
    wishes: Wishes, config: GeneralConfig, where: Mapping[str, Place]
) -> dict[Dimension | str, str]:
    """Dimensions that no threads share and statements whose values lie elsewhere than asked -> why."""
    inside = {d for loops in config.shared.values() for d in loops}
    mapped = {d for own in config.mapping.dimensions for d in own.of.values()}
    found: dict[Dimension | str, str] = {}
    for dimension in wishes.beside:
        if dimension not in inside | mapped and dimension.extent > 1:
            found[dimension] = f"one thread runs {dimension.name} in order: its iterations need one another"
    for name, mark in wishes.scopes.items():
        has = config.placed.get(name, "global") if where[name].in_memory else "register"
        if mark.value != has:
            found[name] = f"its value lies in {has} memory: {_WHY[str(mark.value)]}"
    return found


_WHY = {
    "register": "other loops or threads read it",
    "shared": "it does not pass between threads of a block that has room for it",
    "global": "nothing reads it from there",
}


GENERAL_FAMILY = GeneralFamily()
