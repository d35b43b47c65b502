"""The families of kernels for CPUs, and which of them makes a schedule's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.cpu.gemm import lower_gemm
from engine.cpu.general import GENERAL, lower_general
from engine.cpu.nodes import CppProgram
from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import is_contraction
from engine.poly.nodes import Dependence
from engine.recipe import FAMILY, Advice
from engine.scheduling.nodes import Band, Member, ScheduleTree, walk
from engine.support.errors import Unsupported
from engine.target.cpu import CpuTarget


def advise_cpu(group: FusionGroup, machine: CpuTarget) -> tuple[Advice, ...]:
    """What the analyses propose for a group."""
    return ()


def lower_cpu(
    group: FusionGroup, tree: ScheduleTree, needed: Sequence[Dependence], machine: CpuTarget
) -> CppProgram:
    """The kernel of a group under a schedule: the first family's that fits; Unsupported where none follows it."""
    asked = next((m.value for one in _members(tree) for m in one.marks if m.name == FAMILY), "")
    if not any(map(is_contraction, group.program.statements)) or asked == GENERAL:
        return lower_general(group, tree, needed, machine)
    try:
        return lower_gemm(group, tree, machine)
    except Unsupported as misfit:
        return replace(lower_general(group, tree, needed, machine), misfit=f"gemm: {misfit.reason}")


def _members(tree: ScheduleTree) -> list[Member]:
    return [member for node in walk(tree.root) if isinstance(node, Band) for member in node.members]
