"""The whole compiler on one screen: from a fusion group and a recipe to CUDA text.

    rewrites -> dependences -> constraint tree -> schedule -> legality -> tile program -> pipeline -> CUDA text -> facts
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from engine.cost.alcop_problem import promise_of
from engine.cost.nodes import Work
from engine.cost.tile_counts import work_of_tile
from engine.fusion.attention import ATTENTION
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.fusion.packing import KIND as PACKED
from engine.fusion.stitched import KIND as STITCHED
from engine.kernels.lower import lower
from engine.pipeline.transform import pipelined
from engine.poly.dependences import dependences
from engine.poly.nodes import Dependence
from engine.recipe import Advice, Recipe
from engine.rewrite.apply import rewritten
from engine.scheduling.advisers.attention import attention_group
from engine.scheduling.advisers.mapping import map_group
from engine.scheduling.advisers.pack import pack_group
from engine.scheduling.advisers.pipeline import pipeline_group
from engine.scheduling.advisers.plans import plans
from engine.scheduling.advisers.row_results import row_pins
from engine.scheduling.advisers.stitch import stitch_group, with_schemes
from engine.scheduling.advisers.tensorize import asked_tile, tensorize_group
from engine.scheduling.advisers.vectorize import vectorize_group
from engine.scheduling.compose import compose
from engine.scheduling.nodes import HONOURED, RELAXED, Scheduled, ScheduleTree, Verdict
from engine.scheduling.solve import schedule
from engine.scheduling.untaken_entries import NoKernel, not_taken, refusal
from engine.support.errors import EngineError, Fault, Unsupported
from engine.target import Target, target
from engine.tensor.nodes import TensorProgram
from engine.tile.check import check_tile
from engine.tile.nodes import TileProgram
from engine.tile.printer import print_cuda
from engine.tile.source import CudaSource

Observer = Callable[[str, object, object], None]
"""Called with (stage, value before, value after) as each stage finishes."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled group, with every value on the way."""

    group: FusionGroup
    """As it was fused: what the kernel is compared with."""
    recipe: Recipe
    program: TensorProgram
    """The group's program after the recipe's rewrites: what was scheduled."""
    dependences: tuple[Dependence, ...]
    schedule: ScheduleTree
    verdicts: tuple[Verdict, ...]
    """What became of each recipe entry."""
    log: tuple[str, ...]
    """The scheduler's decisions."""
    tile: TileProgram
    source: CudaSource
    facts: Work
    timings: tuple[tuple[str, float], ...]
    """(stage, milliseconds) from rewrites to CUDA text."""

    @property
    def milliseconds(self) -> float:
        """What all stages took together."""
        return sum(spent for _, spent in self.timings)

    @property
    def target(self) -> Target:
        """The GPU that the kernel is made for."""
        return target(self.recipe.target)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What the recipe says of the group."""
        return self.recipe.groups.get(self.group.name, ())


def default_recipe(
    what: FusionGroup | FusionPlan, target_name: str | None = None, numerics: Mapping[str, str] | None = None
) -> Recipe:
    """The recipe of a group, or of every group of a plan, with the entries of all advisers.

    target_name: another GPU than the plan was made for.
    numerics: as in `Recipe`; {"tensor_cores": "tf32"} lets float32 contractions round their operands.
    """
    groups = what.groups if isinstance(what, FusionPlan) else (what,)
    machine = target(target_name or what.target)
    chosen = numerics or {}
    return Recipe(
        target=machine.name, numerics=chosen, groups={g.name: advise(g, machine, chosen) for g in groups}
    )


def advise(group: FusionGroup, machine: Target, numerics: Mapping[str, str]) -> tuple[Advice, ...]:
    """What the analyses propose for a group, in order of precedence; authors with nothing to say are left out."""
    if group.kind == ATTENTION:
        return attention_group(group, machine, numerics)
    if group.kind == STITCHED:
        return (_with_schemes(group, stitch_group(group, machine), machine),)
    if group.kind == PACKED:
        return (_with_schemes(group, pack_group(group, machine), machine),)
    ranked = plans(group.program, machine.resident_threads)
    promises = partial(promise_of, machine, group.program)
    tensor = tensorize_group(group, machine, numerics, promises)
    asked = asked_tile(group, tensor)
    proposals = (
        row_pins(group),
        vectorize_group(group, ranked),
        tensor if asked else map_group(group, machine, ranked, promises),
        pipeline_group(group, asked),
    )
    return tuple(a for a in proposals if a.scenario.entries or a.scenario.alternatives)


def _with_schemes(group: FusionGroup, advice: Advice, machine: Target) -> Advice:
    """The advice with what its own kernel says of the intermediates, so that it can be seen and changed."""
    try:
        kernel = _compiled(group, Recipe(machine.name, groups={group.name: (advice,)}), None)
    except EngineError:
        return advice  # whoever compiles it is told why it has no kernel
    return with_schemes(advice, kernel.tile.schemes)


def compile_group(group: FusionGroup, recipe: Recipe | None = None, observe: Observer | None = None) -> Kernel:
    """Compile a group under a recipe (by default its advisers').

    A recipe without advice for the group leaves every choice to the scheduler and the lowering's defaults.
    Raises Conflict when required entries cannot hold together, NotTaken when the kernel cannot take one as given,
    Illegal when no order keeps all dependences, NoKernel (Unsupported, with the schedule) when no kernel follows it.
    """
    recipe = recipe or default_recipe(group)
    kernel = _compiled(group, recipe, observe)
    if not not_taken(kernel.verdicts):
        return kernel
    raise refusal(
        kernel.program,
        Scheduled(kernel.schedule, kernel.verdicts, kernel.milliseconds, 0.0, kernel.log),
        kernel.advice,
        {path: note.value for path, note in kernel.tile.notes.items()},
        lambda advice: _compiled(group, recipe.with_group(group.name, advice), None).verdicts,
    )


def _compiled(group: FusionGroup, recipe: Recipe, observe: Observer | None) -> Kernel:
    """The kernel, whether or not it takes every required entry as given."""
    advice, machine = recipe.groups.get(group.name, ()), target(recipe.target)
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
        tile = lower(replace(group, program=program), solved.tree, machine, recipe.numerics)
        tell("tile program", solved.tree, tile)
        alternating, tile = tile, pipelined(tile, machine)
    except Unsupported as refused:
        raise NoKernel(refused, program, solved) from refused
    wrong = check_tile(tile)
    if wrong:
        raise Fault("codegen", group.name, wrong[0], "the code generator is wrong: report it")
    tell("pipeline", alternating, tile)

    source = print_cuda(tile)
    tell("cuda", tile, source)

    return Kernel(
        group=group,
        recipe=recipe,
        program=program,
        dependences=needed,
        schedule=solved.tree,
        verdicts=tuple(_final(v, tile) for v in solved.verdicts),
        log=solved.log,
        tile=tile,
        source=source,
        facts=work_of_tile(program, tile, source),
        timings=tuple(timings),
    )


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
