"""The families of kernels for CPUs, and which of them makes a schedule's."""

from __future__ import annotations

from collections.abc import Sequence

from engine.cpu.general import lower_general
from engine.cpu.nodes import CppProgram
from engine.fusion.nodes import FusionGroup
from engine.poly.nodes import Dependence
from engine.recipe import Advice
from engine.scheduling.nodes import ScheduleTree
from engine.target.cpu import CpuTarget


def advise_cpu(group: FusionGroup, machine: CpuTarget) -> tuple[Advice, ...]:
    """What the analyses propose for a group."""
    return ()


def lower_cpu(
    group: FusionGroup, tree: ScheduleTree, needed: Sequence[Dependence], machine: CpuTarget
) -> CppProgram:
    """The kernel of a group under a schedule; Unsupported where none follows it."""
    return lower_general(group, tree, needed, machine)
