"""The families of kernels, and which of them a fusion group belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.fusion.nodes import FusionGroup
from engine.kernels.attention.family import ATTENTION_FAMILY
from engine.kernels.elementwise.family import ELEMENTWISE_FAMILY
from engine.kernels.family import KernelFamily, Setting
from engine.kernels.gemm.family import GEMM_FAMILY
from engine.kernels.general.family import GENERAL_FAMILY
from engine.kernels.packed.family import PACKED_FAMILY
from engine.kernels.reduction.family import REDUCTION_FAMILY
from engine.kernels.scan.family import SCAN_FAMILY
from engine.kernels.stitched.family import STITCHED_FAMILY
from engine.scheduling.nodes import Band, Member, ScheduleTree, walk
from engine.scheduling.tiling import fold_tiles
from engine.support.errors import Unsupported
from engine.target.registers import MAX_PRIVATE
from engine.tile.nodes import TileProgram

FAMILIES: tuple[KernelFamily, ...] = (
    SCAN_FAMILY, ELEMENTWISE_FAMILY, REDUCTION_FAMILY, GEMM_FAMILY, ATTENTION_FAMILY, STITCHED_FAMILY, PACKED_FAMILY,
)  # fmt: skip
"""One that recognises some groups of another's kind stands before it."""

MOST_ELEMENTS = 2**31 - 2**20
"""Elements of an array whose positions fit an int, with room for the threads past its end."""


def family_of(group: FusionGroup) -> KernelFamily:
    """The family that makes a group's kernel: the first that recognises it."""
    return next(family for family in FAMILIES if family.recognises(group))


def lower(
    group: FusionGroup,
    tree: ScheduleTree,
    setting: Setting,
    fitting_only: bool = False,
    why_not: Callable[[TileProgram], str] = lambda tile: "",
) -> TileProgram:
    """The tile program of a group under a schedule: its family's, or the general one where that does not fit.

    fitting_only: Unsupported where its own family makes none, as who compares configurations of a family wants it.
    why_not: what a program lacks of what is required, "" where it has all; may raise Unsupported.  Where no family's
    has all, the own one's is returned.
    """
    outside = {*group.program.inputs, *group.program.outputs}
    largest = max((group.program.arrays[name] for name in outside), key=lambda array: array.elements)
    if largest.elements > MOST_ELEMENTS:
        raise Unsupported("codegen", f"array {largest.name}", f"has {largest.elements} elements, an index is an int")
    own, family, folded = None, family_of(group), fold_tiles(tree)
    try:
        _refuse_tiles(group, folded)
        own = replace(_check_registers(family.lower(group, folded, setting)), family=family.name)
        misfit = why_not(own)
        if not misfit or fitting_only:
            return own
    except Unsupported as refused:
        if fitting_only:
            raise
        misfit = refused.reason
    try:
        tile = _check_registers(GENERAL_FAMILY.lower(group, tree, setting))
        tile = replace(tile, family=GENERAL_FAMILY.name, misfit=f"{family.name}: {misfit}")
        if own is None or not why_not(tile):
            return tile
    except Unsupported:
        if own is None:
            raise
    return own


def _refuse_tiles(group: FusionGroup, tree: ScheduleTree) -> None:
    """Unsupported where tiles were moved, marked or split again: families make tiles of whole dimensions themselves."""
    for member in _members(tree):
        if member.tiling is not None:
            reason = f"the tiles of {member.tiling.whole.name} have loops of their own in the schedule"
            raise Unsupported("codegen", f"schedule of {group.name}", reason, "split dimensions in place only")


def _members(tree: ScheduleTree) -> list[Member]:
    return [member for node in walk(tree.root) if isinstance(node, Band) for member in node.members]


def _check_registers(tile: TileProgram) -> TileProgram:
    """The program, unless a thread would keep more than its registers hold."""
    for buffer in (one for launch in tile.launches for one in launch.buffers.values()):
        if buffer.scope == "register" and buffer.elements > MAX_PRIVATE:
            reason = f"a thread would keep {buffer.elements:,} elements, in registers it keeps {MAX_PRIVATE} at most"
            hint = "ask for more threads, or for smaller tiles of a thread"
            raise Unsupported("codegen", f"{buffer.name} of {tile.name}", reason, hint)
    return tile
