"""From a schedule to a tile program: which kind of kernel a nest becomes."""

from __future__ import annotations

from engine.codegen.contraction import lower_contraction
from engine.codegen.elementwise import lower_elementwise
from engine.codegen.nest import Nest, loop_nest
from engine.codegen.reduction import lower_reduction
from engine.codegen.tile import TileProgram
from engine.codegen.transpose import lower_transpose, transposed_read
from engine.fuse.nodes import FusionGroup
from engine.schedule.nodes import ScheduleTree


def lower(group: FusionGroup, tree: ScheduleTree) -> TileProgram:
    """The tile program of a group under a schedule; Unsupported where no kernel of ours follows that order."""
    nest = loop_nest(group.program, tree)
    if group.kind == "contraction":
        return lower_contraction(group, nest)
    if any(s.reduction for s in group.program.statements):
        return lower_reduction(group, nest, by_row=_reduces_by_row(group, nest))
    if _wants_tiles(nest) and transposed_read(group.program, nest) is not None:
        return lower_transpose(group, nest)
    return lower_elementwise(group, nest)


def _reduces_by_row(group: FusionGroup, nest: Nest) -> bool:
    """`lane` marks ask for threads along the reduced elements, `warp` marks for threads along the kept ones."""
    if any(True for _ in nest.marks("lane")):
        return True
    if any(True for _ in nest.marks("warp")):
        return False
    return group.kind != "column reduction"


def _wants_tiles(nest: Nest) -> bool:
    return any(True for _ in nest.marks("tile"))
