"""The family of sliding windows."""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.cost.calibration import calibrated_target
from engine.cost.estimate import estimate_microseconds, least_microseconds
from engine.fusion.kinds import COLUMN_REDUCTION, ROW_REDUCTION
from engine.fusion.nodes import FusionGroup
from engine.kernels.family import KernelFamily, MarkMenu, Setting
from engine.kernels.loop_nest import loop_nest
from engine.kernels.marks import Marks
from engine.kernels.nodes import Compile
from engine.kernels.reduction.advise import BUSY
from engine.kernels.reduction.family import REDUCTION_FAMILY
from engine.kernels.window.lower import WindowConfig, lower_windows, widest_lanes
from engine.kernels.window.match import Windows, match_windows
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.support.errors import Unsupported
from engine.target import DEVICES, Target
from engine.target.hardware import MAX_THREADS, WARP
from engine.tensor.nodes import TensorProgram
from engine.tensor.traffic import compulsory_bytes, flop_counts
from engine.tile.nodes import TileProgram
from engine.tile.work import work_of_tile

MOST_VALUES = 96
"""Values of a thread in registers."""
LONGEST_STRIP, MOST_ROWS = 16, 4
THREADS = 128
"""Of a block, where nobody asks: strips are few."""
ADDRESSES = 32
"""Registers of a thread beside its values."""
OF_REDUCTIONS = ("lane", "warp", "unroll", "split", "split_k", "turns")
"""Marks that say how threads share the terms of a result."""


class WindowFamily(KernelFamily):
    """A thread makes a strip of results from registers, where windows overlap.

    y[i,j] = sum(r) w[r] x[i,j+r]    ->    a thread loads x[i, 8t .. 8t+9] once and makes y[i, 8t .. 8t+7]
    """

    name = "window"

    def recognises(self, group: FusionGroup) -> bool:
        """By what the statements compute, where a strip has several results, and results are as many as threads."""
        if group.kind not in (ROW_REDUCTION.name, COLUMN_REDUCTION.name):
            return False
        windows, machine = match_windows(group.program), DEVICES.get(group.target.lower())
        if windows is None or machine is None:
            return False
        results = math.prod(i.extent for i in windows.statement.parallel)
        return results >= machine.sm_count * BUSY and any(_configs(group.program, windows, THREADS))

    def advise(self, group: FusionGroup, setting: Setting, compile_group: Compile) -> tuple[Advice, ...]:
        """Nothing: any order of the loops gives the same kernel."""
        return ()

    def lower(self, group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
        """As `KernelFamily` says: of the strips that fit registers those with the shortest estimate; the kernel of a
        reduction where marks say who shares its terms."""
        program = group.program
        windows = match_windows(program)
        if windows is None:
            raise Unsupported("codegen", program.name, "reduces no window that slides")
        nest = loop_nest(program, tree)
        marks = Marks(nest)
        if marks.first(*OF_REDUCTIONS) is not None:
            return REDUCTION_FAMILY.lower(group, tree, setting)
        threads = marks.number("block", THREADS, lambda n: min(-(-n // WARP) * WARP, MAX_THREADS), "whole warps")
        best, shortest = None, math.inf
        floor = _floor(program, setting.machine)
        for config in _configs(program, windows, threads):
            tile = lower_windows(group, windows, config)
            time = self._microseconds(program, tile, setting.machine)
            if time < shortest:
                best, shortest = tile, time
            if shortest <= floor:
                break
        if best is None:
            raise Unsupported("codegen", program.name, "has no strip that divides its results and fits registers")
        assert best.config is not None
        return marks.describe(best.with_registers(setting.machine.sm_count), best.config)

    def _microseconds(self, program: TensorProgram, tile: TileProgram, machine: Target) -> float:
        return estimate_microseconds(work_of_tile(program, tile, self.registers(program, tile, machine)), machine)

    def registers(self, program: TensorProgram, tile: TileProgram, machine: Target) -> int | None:
        """As `KernelFamily` says."""
        windows = match_windows(program)
        if windows is None or not isinstance(tile.config, WindowConfig):
            return None
        return tile.config.values(windows) + ADDRESSES

    def menu(self, group: FusionGroup) -> MarkMenu:
        """As `KernelFamily` says."""
        return MarkMenu({"block": "Threads per block"}, ("block",))


def _floor(program: TensorProgram, machine: Target) -> float:
    """What no strips take less than, but for the last bits of the sum."""
    moved, (flops, special) = sum(compulsory_bytes(program)), flop_counts(program)
    return least_microseconds(moved, flops, special, calibrated_target(machine)) * (1 + 1e-12)


def _configs(program: TensorProgram, windows: Windows, threads: int) -> Iterator[WindowConfig]:
    """Strips that divide the results and fit registers: the longest, the longest whole vectors, and where images are
    small single results; none where only these fit."""
    down, widest = windows.down, widest_lanes(program, windows)
    strips = [n for n in range(2, LONGEST_STRIP + 1) if windows.along.kept.extent % n == 0]
    rows = [n for n in (1, 2, MOST_ROWS) if down is not None and down.kept.extent % n == 0] or [1]
    found: list[WindowConfig] = []
    for vector in dict.fromkeys((widest, max(1, widest // 2))):
        for count in rows:
            fitting = [s for s in strips if WindowConfig(threads, count, s, vector).values(windows) <= MOST_VALUES]
            longest = fitting[-1:] + [s for s in fitting if not s & (s - 1)][-1:]
            found += [WindowConfig(threads, count, strip, vector) for strip in dict.fromkeys(longest)]
        found += [WindowConfig(threads, 1, 1, vector)] if found else []
    yield from found


WINDOW_FAMILY = WindowFamily()
