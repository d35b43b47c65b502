"""The families of kernels, and which of them a fusion group belongs to."""

from __future__ import annotations

from dataclasses import replace

from engine.fusion.nodes import FusionGroup
from engine.kernels.attention.family import ATTENTION_FAMILY
from engine.kernels.elementwise.family import ELEMENTWISE_FAMILY
from engine.kernels.family import KernelFamily, Setting
from engine.kernels.gemm.family import GEMM_FAMILY
from engine.kernels.general.family import GENERAL_FAMILY
from engine.kernels.packed.family import PACKED_FAMILY
from engine.kernels.reduction.family import REDUCTION_FAMILY
from engine.kernels.stitched.family import STITCHED_FAMILY
from engine.scheduling.nodes import Band, Member, ScheduleTree, walk
from engine.scheduling.tiling import fold_tiles
from engine.support.errors import Unsupported
from engine.target.registers import MAX_PRIVATE
from engine.tile.nodes import TileProgram

FAMILIES: tuple[KernelFamily, ...] = (
    ELEMENTWISE_FAMILY, REDUCTION_FAMILY, GEMM_FAMILY, ATTENTION_FAMILY, STITCHED_FAMILY, PACKED_FAMILY,
)  # fmt: skip
"""One that recognises some groups of another's kind stands before it."""

MOST_ELEMENTS = 2**31 - 2**20
"""Elements of an array whose positions fit an int, with room for the threads past its end."""


def family_of(group: FusionGroup) -> KernelFamily:
    """The family that makes a group's kernel: the first that recognises it."""
    return next(family for family in FAMILIES if family.recognises(group))


def lower(group: FusionGroup, tree: ScheduleTree, setting: Setting, fitting_only: bool = False) -> TileProgram:
    """The tile program of a group under a schedule: its family's, or the general one where that does not fit.

    fitting_only: Unsupported where its own family makes none, as who compares configurations of a family wants it.
    """
    outside = {*group.program.inputs, *group.program.outputs}
    largest = max((group.program.arrays[name] for name in outside), key=lambda array: array.elements)
    if largest.elements > MOST_ELEMENTS:
        raise Unsupported("codegen", f"array {largest.name}", f"has {largest.elements} elements, an index is an int")
    family = family_of(group)
    folded = fold_tiles(tree)
    try:
        _refuse_tiles(group, folded)
        tile = replace(_checked(family.lower(group, folded, setting)), family=family.name)
        if not fitting_only:
            _refuse_without_splits(group, folded, tile)
        return tile
    except Unsupported as misfit:
        if fitting_only:
            raise
        why = f"{family.name}: {misfit.reason}"
        tile = _checked(GENERAL_FAMILY.lower(group, tree, setting))
        return replace(tile, family=GENERAL_FAMILY.name, misfit=why)


def _refuse_tiles(group: FusionGroup, tree: ScheduleTree) -> None:
    """Unsupported where tiles were moved, marked or split again: families make tiles of whole dimensions themselves."""
    for member in _members(tree):
        if member.tiling is not None:
            reason = f"the tiles of {member.tiling.whole.name} have loops of their own in the schedule"
            raise Unsupported("codegen", f"schedule of {group.name}", reason, "split dimensions in place only")


def _refuse_without_splits(group: FusionGroup, tree: ScheduleTree, tile: TileProgram) -> None:
    """Unsupported where a kernel leaves out a required split."""
    for member in _members(tree):
        for mark in member.marks:
            if mark.name == "split" and mark.required and mark.path in tile.notes:
                what = f"split {mark.value} of {member.name}"
                raise Unsupported("codegen", what, f"it has no {what} ({tile.notes[mark.path]})")


def _members(tree: ScheduleTree) -> list[Member]:
    return [member for node in walk(tree.root) if isinstance(node, Band) for member in node.members]


def _checked(tile: TileProgram) -> TileProgram:
    """The program, unless a thread would keep more than its registers hold."""
    for buffer in (one for launch in tile.launches for one in launch.buffers.values()):
        if buffer.scope == "register" and buffer.elements > MAX_PRIVATE:
            reason = f"a thread would keep {buffer.elements:,} elements, in registers it keeps {MAX_PRIVATE} at most"
            hint = "ask for more threads, or for smaller tiles of a thread"
            raise Unsupported("codegen", f"{buffer.name} of {tile.name}", reason, hint)
    return tile

