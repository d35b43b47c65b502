"""The whole compiler on one screen: from a fusion group and a recipe to CUDA text.

    rewrites -> dependences -> constraint tree -> schedule -> legality -> tile program -> pipeline -> CUDA text -> facts
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from engine.cost.estimate import model_microseconds
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.kernels.families import family_of, lower
from engine.kernels.family import Setting
from engine.kernels.general.family import GENERAL_FAMILY
from engine.kernels.nodes import Kernel
from engine.pipeline.transform import pipeline_loops
from engine.poly.dependences import dependences
from engine.recipe import Advice, Recipe
from engine.rewrite.apply import rewritten
from engine.scheduling.compose import compose
from engine.scheduling.nodes import HONOURED, RELAXED, Scheduled, Verdict
from engine.scheduling.solve import schedule
from engine.scheduling.tiling import fold_tiles
from engine.scheduling.untaken_entries import NoKernel, not_taken, refusal
from engine.support.errors import Fault, OverBudget, Unsupported
from engine.target import target as find_target
from engine.tile.check import check_tile
from engine.tile.nodes import TileProgram
from engine.tile.printer import print_cuda
from engine.tile.work import work_of_tile

Observer = Callable[[str, object, object], None]
"""Called with (stage, value before, value after) as each stage finishes."""


def default_recipe(
    what: FusionGroup | FusionPlan, target: str | None = None, numerics: Mapping[str, str] | None = None
) -> Recipe:
    """The recipe of a group, or of every group of a plan, with the entries of all advisers.

    target: another GPU than the plan was made for.  numerics: as in `Recipe`; {"tensor_cores": "tf32"} lets float32
    contractions round their operands; by default none is rounded.
    """
    groups = what.groups if isinstance(what, FusionPlan) else (what,)
    setting = Setting(find_target(target or what.target), numerics or {})
    advice = {group.name: advise(group, setting) for group in groups}
    return Recipe(target=setting.machine.name, numerics=setting.numerics, groups=advice)


def default_microseconds(group: FusionGroup) -> float:
    """What one launch of a group's kernel is predicted to take under its advisers' recipe; infinite without a kernel.

    By the figures of its target's description: what is fused never depends on a user's calibration.
    """
    try:
        kernel = _compile_for_advice(group, default_recipe(group))
    except (Unsupported, OverBudget):  # one candidate that cannot be had is no reason to fuse nothing
        return math.inf
    return model_microseconds(kernel.facts, kernel.target)


def advise(group: FusionGroup, setting: Setting) -> tuple[Advice, ...]:
    """What the analyses propose for a group, in order of precedence; authors with nothing to say are left out."""
    return family_of(group).advise(group, setting, _compile_for_advice)


def compile_group(group: FusionGroup, recipe: Recipe | None = None, observe: Observer | None = None) -> Kernel:
    """Compile a group under a recipe (by default its advisers').

    A recipe without advice for the group leaves every choice to the scheduler and the lowering's defaults.
    Raises Conflict when required entries cannot hold together, NotTaken when the kernel cannot take one as given,
    Illegal when no order keeps all dependences, NoKernel (Unsupported, with the schedule) when no kernel follows it.
    """
    recipe = recipe or default_recipe(group)
    kernel = _compile_unchecked(group, recipe, observe)
    if not not_taken(kernel.verdicts):
        return kernel
    raise refusal(
        kernel.program,
        Scheduled(kernel.schedule, kernel.verdicts, kernel.milliseconds, 0.0, kernel.log),
        kernel.advice,
        {path: note.value for path, note in kernel.tile.notes.items()},
        lambda advice: _compile_unchecked(group, recipe.with_group(group.name, advice)).verdicts,
    )


def _compile_unchecked(
    group: FusionGroup, recipe: Recipe, observe: Observer | None = None, fitting_only: bool = False
) -> Kernel:
    """The kernel, whether or not it takes every required entry as given.  fitting_only: as in `lower`."""
    advice = recipe.groups.get(group.name, ())
    timings: list[tuple[str, float]] = []
    start = time.perf_counter()

    def tell(stage: str, before: object, after: object, spent: float | None = None) -> None:
        nonlocal start
        timings.append((stage, (time.perf_counter() - start) * 1e3 if spent is None else spent))
        if observe:
            observe(stage, before, after)
        start = time.perf_counter()

    made = rewritten(group.program, advice)
    program = made.program
    tell("rewrites", group.program, program)

    needed = dependences(program)
    tell("dependences", program, needed)

    tree = compose(advice, program, made.verdicts)
    tell("constraint tree", recipe, tree)

    solved = schedule(program, needed, tree)  # checks the whole tree, whatever the search believes
    tell("schedule", tree, solved.tree, solved.milliseconds)
    tell("legality", solved.tree, (), solved.checking)

    try:
        setting = Setting(find_target(recipe.target), recipe.numerics)
        tile = lower(replace(group, program=program), solved.tree, setting, fitting_only)
        tell("tile program", solved.tree, tile)
        alternating, tile = tile, pipeline_loops(tile, setting.machine)
    except Unsupported as refused:
        raise NoKernel(refused, program, solved) from refused
    # Who makes tiles of whole dimensions itself has them as marks.
    order = solved.tree if tile.family == GENERAL_FAMILY.name else fold_tiles(solved.tree)
    wrong = check_tile(tile)
    if wrong:
        raise Fault("codegen", group.name, wrong[0], "the code generator is wrong: report it")
    tell("pipeline", alternating, tile)

    source = print_cuda(tile)
    tell("cuda", tile, source)

    return Kernel(
        group, recipe, program=program, dependences=needed, schedule=order, log=solved.log, tile=tile,
        verdicts=tuple(_final(v, tile) for v in solved.verdicts), source=source,
        facts=work_of_tile(program, tile, family_of(group).registers(program, tile, setting.machine)),
        timings=tuple(timings),
    )  # fmt: skip


def _compile_for_advice(group: FusionGroup, recipe: Recipe) -> Kernel:
    """The kernel of a recipe by the group's own family, whether or not it takes every required entry as given."""
    return _compile_unchecked(group, recipe, None, fitting_only=True)


def _final(verdict: Verdict, tile: TileProgram) -> Verdict:
    """A verdict after lowering: what the kernel could not take as given is relaxed."""
    entry = verdict.placed.entry
    taken_as = tile.notes.get(verdict.placed.path)
    note = str(taken_as) if taken_as else None
    walked = ", ".join(tile.sequential)
    if walked and entry.field == "parallel" and entry.value and entry.dimension in (*tile.sequential, "innermost"):
        note = f"the order allows it, but the main loop of this kernel walks {walked} in turn"
    if note is None or verdict.outcome != HONOURED:
        return verdict
    return replace(verdict, outcome=RELAXED, because=note)
