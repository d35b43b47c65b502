"""The family that makes a kernel of every legal schedule tree, where no faster one fits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.cost.estimate import estimate_microseconds
from engine.fusion.nodes import FusionGroup
from engine.kernels.family import GENERAL, KernelFamily, MarkMenu, Setting
from engine.kernels.general.config import GeneralConfig
from engine.kernels.general.launches import LaunchPart, fastest, join, launch_parts
from engine.kernels.general.lower import emit_general
from engine.kernels.general.mark_requests import MarkRequests, read_marks
from engine.kernels.general.paths import Dimension, loops_of, paths
from engine.kernels.general.places import ValuePlace
from engine.kernels.general.plans import GridPlanner
from engine.kernels.general.space import general_task
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.space import Space
from engine.poly.dependences import dependences
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.support.errors import Unsupported
from engine.tile.nodes import TileProgram
from engine.tile.work import work_of_tile


class GeneralFamily(KernelFamily):
    """Threads or blocks run the schedule at their own points of dimensions that no dependence crosses.

    band t = 2 i, band j: S[i, j]    ->    t, j = divmod(point of the thread, 64); if (t % 2 == 0) S[t / 2, j]
    """

    name = GENERAL

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """Nothing: it takes the schedule as it is."""
        return ()

    def menu(self, group: FusionGroup) -> MarkMenu:
        """As `KernelFamily` says."""
        return MarkMenu({"block": "Points per block", "thread": "Threads per block"}, ("thread", "block", "vector"))

    def space(self, group: FusionGroup, kernel: Kernel, compile_group: Compile) -> Space:
        """As `KernelFamily` says."""
        return Space((general_task(group, kernel),))

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says: of the plans that lack least of what marks ask for, the one that takes least time."""
        program = group.program
        nest = loops_of(program, tree.root)
        loops = list(dict.fromkeys(d for path in paths(nest).values() for d in path))
        marks, requests = read_marks(program, loops)
        for dimension in loops:
            taken = [factor for _, factor in dimension.parts]
            marks.accept("split", (1, *taken), "the dimension is split otherwise already", (dimension.member,))
        made: dict[tuple[int, int], tuple[float, TileProgram]] = {}
        lacking: dict[int, dict[Dimension | str, str]] = {}
        for part in launch_parts(group, nest, dependences(program)):
            planner = GridPlanner(part.group.program, part.nest, part.dependences, requests, setting.machine)
            for config, where in planner.plans():
                try:
                    tile = replace(emit_general(part.group, part.nest, where, config), config=config)
                except Unsupported:
                    if config.vector > 1:
                        continue  # the same plan without vectors comes later
                    raise
                missed = missed_requests(requests, part, config, where)
                is_plain = bool(requests.vectors) and config.vector == 1
                work = work_of_tile(part.group.program, tile)
                time = estimate_microseconds(work, setting.machine)
                time += _MISSED_MARK * len(missed) + _NO_VECTORS * is_plain
                known = made.get((part.first, part.end))
                if known is None or time < known[0]:
                    made[part.first, part.end] = time, tile
                    lacking[id(tile)] = missed
        chosen = fastest(made)
        for tile in chosen:
            for what, because in lacking[id(tile)].items():
                if isinstance(what, Dimension):
                    marks.refuse({"lane": because, "warp": because}, (what.member,))
                else:
                    marks.refuse_mark(requests.scopes[what], because)
        tile = join(group, chosen)
        assert tile.config is not None
        return marks.describe(tile, tile.config)


_NO_VECTORS, _MISSED_MARK = 1e9, 1e12
"""Microseconds that stand for what was asked for: vectors before speed, and everything else before vectors."""


def missed_requests(
    requests: MarkRequests, part: LaunchPart, config: GeneralConfig, where: Mapping[str, ValuePlace]
) -> dict[Dimension | str, str]:
    """Dimensions that no threads share and statements whose values lie elsewhere than asked -> why."""
    loops = {d for path in paths(part.nest).values() for d in path}
    inside = {d for loops in config.shared.values() for d in loops}
    mapped = {d for own in config.mapping.dimensions for d in own.of.values()}
    found: dict[Dimension | str, str] = {}
    for dimension in requests.beside:
        if dimension in loops - inside - mapped and dimension.extent > 1:
            found[dimension] = f"one thread runs {dimension.name} in order: its iterations need one another"
    for name, mark in requests.scopes.items():
        if name not in where:
            continue
        passed = part.group.program.statement(name).write.array in part.group.program.outputs
        has = config.placed.get(name, "global") if where[name].in_memory or passed else "register"
        if mark.value != has:
            found[name] = f"its value lies in {has} memory: {_WHY[str(mark.value)]}"
    return found


_WHY = {
    "register": "other loops or threads read it",
    "shared": "it does not pass between threads of a block that has room for it",
    "global": "nothing reads it from there",
}


GENERAL_FAMILY = GeneralFamily()
