"""The family that makes a kernel of every legal schedule tree, where no faster one fits it."""

from __future__ import annotations

from dataclasses import replace

from engine.cost.estimate import estimate_microseconds
from engine.fusion.nodes import FusionGroup
from engine.kernels.family import KernelFamily, Setting
from engine.kernels.general.launches import fastest, join, launch_parts
from engine.kernels.general.lower import emit_general
from engine.kernels.general.paths import loops_of, paths
from engine.kernels.general.plans import plans
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks
from engine.kernels.nodes import Compile
from engine.poly.dependences import dependences
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.target.hardware import MAX_THREADS, WARP
from engine.tile.nodes import TileProgram
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
        marks = Marks(Nest(tuple(d.member for d in loops), ()))
        needs = f"whole warps, up to {MAX_THREADS} threads"
        threads = marks.number("thread", 0, lambda n: min(-(-n // WARP) * WARP, MAX_THREADS), needs) or None
        unrolled = frozenset(d for d in loops if marks.is_written_out(d.extent, False, (d.member,)))
        for dimension in loops:
            taken = [factor for _, factor in dimension.parts]
            marks.accept("split", (1, *taken), "the dimension is split otherwise already", (dimension.member,))
        made: dict[tuple[int, int], tuple[float, TileProgram]] = {}
        for part in launch_parts(group, nest, dependences(program)):
            for config, where in plans(part.group.program, part.nest, part.dependences, threads):
                config = replace(config, unrolled=unrolled)
                tile = replace(emit_general(part.group, part.nest, where, config), config=config)
                time = estimate_microseconds(work_of_tile(part.group.program, tile), setting.machine)
                known = made.get((part.first, part.end))
                if known is None or time < known[0]:
                    made[part.first, part.end] = time, tile
        tile = join(group, fastest(made))
        assert tile.config is not None
        return marks.describe(tile, tile.config)


GENERAL_FAMILY = GeneralFamily()
