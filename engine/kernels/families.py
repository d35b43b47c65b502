"""The families of kernels, and which of them a fusion group belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.cost.estimate import least_microseconds, model_microseconds
from engine.cost.nodes import Work
from engine.fusion.nodes import FusionGroup
from engine.kernels.attention.family import ATTENTION_FAMILY
from engine.kernels.elementwise.family import ELEMENTWISE_FAMILY
from engine.kernels.family import KernelFamily, Setting
from engine.kernels.gemm.family import GEMM_FAMILY
from engine.kernels.general.family import GENERAL_FAMILY
from engine.kernels.marks import precedence
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.packed.family import PACKED_FAMILY
from engine.kernels.recurrence.family import RECURRENCE_FAMILY
from engine.kernels.reduction.family import REDUCTION_FAMILY
from engine.kernels.scan.family import SCAN_FAMILY
from engine.kernels.scatter.family import SCATTER_FAMILY
from engine.kernels.stitched.family import STITCHED_FAMILY
from engine.kernels.tuned_entries import without_decided
from engine.kernels.window.family import WINDOW_FAMILY
from engine.recipe import FAMILY, Advice, Recipe, with_entries
from engine.scheduling.nodes import Band, Member, ScheduleTree, walk
from engine.scheduling.tiling import fold_tiles
from engine.support.errors import OverBudget, Unsupported
from engine.target.hardware import MAX_GRID
from engine.target.registers import MAX_PRIVATE
from engine.tensor.numerics import with_arithmetic
from engine.tensor.traffic import compulsory_bytes, flop_counts
from engine.tile.nodes import Note, TileProgram

FAMILIES: tuple[KernelFamily, ...] = (
    SCAN_FAMILY, SCATTER_FAMILY, WINDOW_FAMILY, ELEMENTWISE_FAMILY, REDUCTION_FAMILY, GEMM_FAMILY, ATTENTION_FAMILY,
    STITCHED_FAMILY, PACKED_FAMILY, RECURRENCE_FAMILY,
)  # fmt: skip
"""One that recognises some groups of another's kind stands before it."""

QUICKER, MUCH_QUICKER, FAR_QUICKER = 0.95, 0.85, 0.8
"""Part of the advised kernel's predicted time that another may take to be advised in its place: one that the family's
own estimate promises; such a one where alternatives are offered, which it takes away; and one of the general family.
None is looked for where the machine asks for more than the last."""


def family_of(group: FusionGroup) -> KernelFamily:
    """The family that makes a group's kernel: the first that recognises it."""
    return next(family for family in FAMILIES if family.recognises(group))


def maker_of(kernel: Kernel) -> KernelFamily:
    """The family that made a kernel: its group's, or the general one."""
    return GENERAL_FAMILY if kernel.family == GENERAL_FAMILY.name else family_of(kernel.group)


def advise(
    group: FusionGroup, setting: Setting, compile_group: Compile
) -> tuple[tuple[Advice, ...], Kernel | None]:
    """What the analyses propose for a group, in order of precedence, and the kernel of that; None where there is none.

    That is what the group's family advises; where another kernel is predicted to be far quicker, that one's marks.
    compile_group: by the family that a recipe asks for, else the group's own.
    """
    family, machine = family_of(group), setting.machine
    group = replace(group, program=with_arithmetic(group.program, setting.numerics))
    advice = family.advise(group, setting, compile_group)

    def compile_advice(given: tuple[Advice, ...]) -> tuple[float, Kernel]:
        recipe = Recipe(machine.name, numerics=setting.numerics, groups={group.name: given})
        kernel = compile_group(group, recipe)
        return model_microseconds(kernel.facts, machine), kernel

    try:
        own, kernel = compile_advice(advice)
    except (Unsupported, OverBudget):  # whoever compiles the advice is told why it has no kernel
        return advice, None
    moved, (flops, special) = sum(compulsory_bytes(group.program)), flop_counts(group.program)
    if least_microseconds(moved, flops, special, machine) > FAR_QUICKER * own:
        return advice, kernel
    best, chosen = own, advice
    enough = MUCH_QUICKER if any(one.scenario.alternatives for one in advice) else QUICKER
    for decided, entries, promised in family.rivals(group, kernel):
        kept, most = without_decided(advice, decided), (enough if promised else FAR_QUICKER) * best
        if promised >= most:
            continue
        try:
            time, _ = compile_advice(with_entries(kept, "map", entries))
        except (Unsupported, OverBudget):
            continue
        if time < most:
            because = f"{time:.3g} µs predicted, {own:.3g} for what the family {family.name} would choose else"
            best, chosen = time, with_entries(kept, "map", [replace(one, because=because) for one in entries])
    return chosen, kernel if chosen is advice else compile_advice(chosen)[1]


def advised_work(group: FusionGroup, setting: Setting) -> Work | None:
    """What the kernel does that `advise` makes, where that is known without it; None where only the kernel tells.

    Raises Unsupported where nothing can be advised.
    """
    return family_of(group).work(replace(group, program=with_arithmetic(group.program, setting.numerics)), setting)


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
    refusal = f"its kernels are of the family {family_of(group).name}, or {GENERAL_FAMILY.name}"
    asked = sorted((m for one in _members(tree) for m in one.marks if m.name == FAMILY), key=precedence)
    if asked and asked[0].value == GENERAL_FAMILY.name:
        try:
            tile = _general(group, tree, setting)
            refusal = "" if fitting_only else why_not(tile)
            if not refusal:
                return tile
        except Unsupported as refused:
            refusal = refused.reason
    tile = _fitting(group, tree, setting, fitting_only, why_not)
    if not asked:
        return tile  # the object that `why_not` was asked about: its pipeline is known
    note = Note(refusal, FAMILY, tile.family)
    return replace(tile, notes={**tile.notes, **{m.path: note for m in asked if m.value != tile.family}})


def _fitting(
    group: FusionGroup, tree: ScheduleTree, setting: Setting, fitting_only: bool, why_not: Callable[[TileProgram], str]
) -> TileProgram:
    """As `lower`, where nothing asks for a family."""
    own, family, folded = None, family_of(group), fold_tiles(tree)
    try:
        _refuse_tiles(group, folded)
        own = replace(_check_limits(family.lower(group, folded, setting)), family=family.name)
        misfit = "" if fitting_only else why_not(own)
        if not misfit:
            return own
    except Unsupported as refused:
        if fitting_only:
            raise
        misfit = refused.reason
    try:
        tile = replace(_general(group, tree, setting), misfit=f"{family.name}: {misfit}")
        if own is None or not why_not(tile):
            return tile
    except Unsupported:
        if own is None:
            raise
    return own


def _general(group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
    return replace(_check_limits(GENERAL_FAMILY.lower(group, tree, setting)), family=GENERAL_FAMILY.name)


def _refuse_tiles(group: FusionGroup, tree: ScheduleTree) -> None:
    """Unsupported where tiles were moved, marked or split again: families make tiles of whole dimensions themselves."""
    for member in _members(tree):
        if member.tiling is not None:
            reason = f"the tiles of {member.tiling.whole.name} have loops of their own in the schedule"
            raise Unsupported("codegen", f"schedule of {group.name}", reason, "split dimensions in place only")


def _members(tree: ScheduleTree) -> list[Member]:
    return [member for node in walk(tree.root) if isinstance(node, Band) for member in node.members]


def _check_limits(tile: TileProgram) -> TileProgram:
    """The program, unless a launch would have too many blocks, or a thread keep more than its registers hold."""
    for launch in tile.launches:
        if launch.grid > MAX_GRID:
            reason = f"has {launch.grid:,} blocks, a launch has {MAX_GRID:,} at most"
            raise Unsupported("codegen", tile.name, reason, "cut the operator into parts")
    for buffer in (one for launch in tile.launches for one in launch.buffers.values()):
        if buffer.scope == "register" and buffer.registers > MAX_PRIVATE:
            reason = f"a thread would keep {buffer.elements:,} elements, in registers it keeps {MAX_PRIVATE} at most"
            hint = "ask for more threads, or for smaller tiles of a thread"
            raise Unsupported("codegen", f"{buffer.name} of {tile.name}", reason, hint)
    return tile
