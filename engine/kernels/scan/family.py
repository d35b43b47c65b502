"""The family of prefix sums."""

from __future__ import annotations

from engine.cost.estimate import estimate_microseconds
from engine.fusion.nodes import FusionGroup
from engine.kernels.family import KernelFamily, MarkMenu, Setting
from engine.kernels.loop_nest import loop_nest
from engine.kernels.marks import DEFAULT_THREADS, Marks, power_up_to
from engine.kernels.nodes import Compile
from engine.kernels.scan.lower import ScanConfig, lower_scan, widest_vector
from engine.kernels.scan.match import match_scan
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.support.errors import Unsupported
from engine.target.hardware import MAX_THREADS, WARP
from engine.tile.nodes import TileProgram
from engine.tile.work import work_of_tile

MOST_ROUNDS = 64
"""Of a block, where nothing asks for another number of elements."""


class ScanFamily(KernelFamily):
    """Each block joins the elements of a chunk of a row in order; chunks are joined between two launches.

    y[j] = sum(r) x[j - r]    ->    y[j] = y[j - 1] + x[j]
    """

    name = "scan"

    def recognises(self, group: FusionGroup) -> bool:
        """By what the statements compute."""
        return match_scan(group.program) is not None

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """Nothing: any order of the loops gives the same kernel."""
        return ()

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says: of the sizes that the marks leave open those with the shortest estimate."""
        program = group.program
        scan = match_scan(program)
        if scan is None:
            raise Unsupported("codegen", program.name, "is no running sum")
        nest = loop_nest(program, tree)
        marks = Marks(nest)
        widest = widest_vector(program, scan)
        vector = marks.number("vector", widest, power_up_to(widest), f"a power of two up to {widest}")
        default = min(DEFAULT_THREADS, -(-scan.length // vector))
        threads = marks.number("thread", default, lambda n: min(-(-n // WARP) * WARP, MAX_THREADS), "whole warps")
        step = threads * vector
        every = -(-scan.length // step)
        chunk = marks.number("block", 0, lambda n: n and -(-n // step) * step, f"a multiple of {step} elements")
        rounds = [min(chunk // step, every)] if chunk else [*_powers(min(every, MOST_ROUNDS)), every]
        tiles = [lower_scan(group, scan, ScanConfig(threads, vector, number)) for number in dict.fromkeys(rounds)]
        best = min(tiles, key=lambda tile: estimate_microseconds(work_of_tile(program, tile), setting.machine))
        assert best.config is not None
        return marks.describe(best, best.config)

    def menu(self, group: FusionGroup) -> MarkMenu:
        """As `KernelFamily` says."""
        return MarkMenu({"block": "Elements per block"}, ("thread", "vector", "block"))


def _powers(most: int) -> list[int]:
    """Powers of two up to a number."""
    return [1 << n for n in range(most.bit_length())]


SCAN_FAMILY = ScanFamily()
