"""The whole compiler on one screen: from a fusion group and a recipe to CUDA text; `engine.cpu.compile` is its twin
for CPUs.

rewrites -> dependences -> constraint tree -> schedule -> legality -> tile program -> pipeline -> CUDA text -> facts
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace

from engine.cost.calibration import calibration_stamp
from engine.cost.estimate import estimate, model_microseconds
from engine.cost.nodes import Prediction, Work
from engine.cpu.compile import compile_cpu, default_cpu_recipe
from engine.cpu.estimate import CpuPrediction, estimate_cpu
from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.fusion.group_programs import structure_of
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.fusion.partition import FusionRequest
from engine.fusion.stitching.nodes import Fixed
from engine.kernels import families
from engine.kernels.advised import AdvisedKernels, keep_last
from engine.kernels.families import family_of, lower
from engine.kernels.family import Setting
from engine.kernels.general.family import GENERAL_FAMILY
from engine.kernels.nodes import Kernel
from engine.pipeline.transform import pipeline_loops
from engine.poly.dependences import dependences
from engine.poly.nodes import Dependence
from engine.recipe import Advice, Recipe
from engine.rewrite.apply import rewritten
from engine.scheduling.compose import compose
from engine.scheduling.integer import Deadline
from engine.scheduling.nodes import HONOURED, RELAXED, WHOLE, Conflict, Leaf, Options, Scheduled, ScheduleTree, Verdict
from engine.scheduling.solve import schedule
from engine.scheduling.tiling import fold_tiles
from engine.scheduling.untaken_entries import NoKernel, not_taken, refusal
from engine.support.errors import EngineError, Fault, Illegal, Unsupported
from engine.target import Target
from engine.target import target as find_target
from engine.target.cpu import CpuTarget
from engine.target.machines import is_cpu, refuse_cpu
from engine.tensor.nodes import TensorProgram
from engine.tensor.numerics import default_numerics, is_opmath, with_arithmetic
from engine.tensorize.numerics import check_numerics
from engine.tile.check import check_tile
from engine.tile.nodes import TileProgram
from engine.tile.opmath import compute_in_float32
from engine.tile.printer import print_cuda
from engine.tile.work import work_of_tile

Observer = Callable[[str, object, object], None]
"""Called with (stage, value before, value after) as each stage finishes."""
MOST_WORKS = 4096
"""Structures whose `default_work` is cached: more than the largest models have."""
_works: dict[tuple[Hashable, ...], Work | None] = {}
"""(structure, target, its calibration, numerics) -> the work of the default kernel."""
_kernels = AdvisedKernels()
"""Those of the default recipes, which are compiled next."""


def default_recipe(
    what: FusionGroup | FusionPlan, target: str | None = None, numerics: Mapping[str, str] | None = None
) -> Recipe:
    """The recipe of a group, or of every group of a plan, with the entries of all advisers.

    >>> recipe = engine.default_recipe(engine.fuse(engine.load("suite:alcop/MM_RN50_FC")))
    >>> sorted({advice.author for advice in recipe.groups["matmul_0"]})
    ['pipeline', 'tensorize']

    target: another machine than the plan was made for.  numerics: as in `Recipe`, beside what the plan was made with:
    {"tensor_cores": "tf32"} lets float32 contractions round their operands, {"arithmetic": "faithful"} rounds 16-bit
    floats behind every operator.
    """
    groups = what.groups if isinstance(what, FusionPlan) else (what,)
    numerics = {**what.numerics, **(numerics or {})}
    if is_cpu(target or what.target):
        name = target or what.target
        found = {group.name: default_cpu_recipe(group, name).groups[group.name] for group in groups}
        return Recipe(target=name, numerics=numerics, groups=found)
    setting = Setting(find_target(target or what.target), numerics)
    found = {group.name: _advise(group, setting)[0] for group in groups}
    return Recipe(target=setting.machine.name, numerics=setting.numerics, groups=found)


def _stamp(target: str, numerics: Mapping[str, str]) -> tuple[Hashable, ...]:
    """What a kernel depends on beside its group and advice: some families choose among theirs by calibrated times."""
    return target, calibration_stamp(target), tuple(sorted(numerics.items()))


def default_work(group: FusionGroup) -> Work | None:
    """What one launch of a group's kernel does under its advisers' recipe; None where they advise none that there is.

    Cached by the structure of the group's program, for predictions of the plan and further fusions of the graph.
    """
    key = structure_of(group.program, group.kind), *_stamp(group.target, group.numerics)
    if key not in _works:
        setting = Setting(find_target(group.target), group.numerics)
        try:
            work = families.advised_work(group, setting)
            if work is None:
                kernel = _advise(group, setting)[1]
                work = None if kernel is None else kernel.facts
        except Unsupported:  # its family has no kernel of it
            work = None
        keep_last(_works, key, work, MOST_WORKS)
    return _works[key]


def _advise(group: FusionGroup, setting: Setting) -> tuple[tuple[Advice, ...], Kernel | None]:
    """What the advisers say of a group and what they make of it: once for all groups of one program."""
    stamp = _stamp(setting.machine.name, setting.numerics)
    return _kernels.alike(group, stamp, lambda: families.advise(group, setting, _compile_for_advice))


def default_microseconds(group: FusionGroup) -> float:
    """What one launch of a group's kernel is predicted to take under its advisers' recipe; infinite without a kernel.

    By the figures of its target's description: what is fused never depends on a user's calibration.
    """
    if is_cpu(group.target):
        try:
            return predict_kernel(compile_cpu(group, options=Options(repairing=0.0))).microseconds
        except EngineError:
            return math.inf
    work = default_work(group)
    # One candidate that cannot be had is no reason to fuse nothing.
    return math.inf if work is None else model_microseconds(work, find_target(group.target))


def fusion_request(
    program: TensorProgram, machine: Target | CpuTarget, policy: str, fixed: Fixed | None,
    numerics: Mapping[str, str] | None,
) -> FusionRequest:  # fmt: skip
    """What kernels a lowered graph is to be partitioned into, judged by what their default ones take.

    Raises BadInput for numerics that no stage follows.
    """
    is_gpu = isinstance(machine, Target)
    described = machine if isinstance(machine, Target) else machine.for_fusion()
    if numerics is None:
        numerics = default_numerics(program) if is_gpu else {}
    check_numerics(numerics, "numerics")
    return FusionRequest(policy, described, default_microseconds, fixed or Fixed(), numerics, packing=is_gpu)


def schedule_group(group: FusionGroup, recipe: Recipe | None = None) -> Scheduled:
    """The schedule that `compile_group` follows, or why there is none, without CUDA text.

    `legal` speaks of dependences and required entries alone; where a legal schedule has no kernel, `because` says why.
    Raises nothing for a wish that cannot be; BadInput for entries that say nothing about the group.
    """
    recipe = recipe or default_recipe(group)
    try:
        found = _search(group, recipe, options=Options(repairing=0.0))  # repairs are no part of what is returned
    except Illegal as illegal:  # a Conflict among them
        return _without_schedule(group, illegal)
    return found.solved


def _without_schedule(group: FusionGroup, illegal: Illegal) -> Scheduled:
    """What is said of a group that no legal order was found for."""
    names = tuple(s.name for s in group.program.statements)
    verdicts = illegal.verdicts if isinstance(illegal, Conflict) else ()
    because = f"{illegal.subject}: {illegal.reason}"
    return Scheduled(ScheduleTree(Leaf(names)), verdicts, legal=False, because=because)


def schedule_for(group: FusionGroup, recipe: Recipe | None = None) -> Scheduled:
    """As `schedule_group`, for the machine that the recipe names, by default the plan's."""
    if not is_cpu(recipe.target if recipe else group.target):
        return schedule_group(group, recipe)
    try:
        kernel = compile_cpu(group, recipe, options=Options(repairing=0.0))
    except NoKernel as refused:
        return refused.scheduled
    except Illegal as illegal:
        return _without_schedule(group, illegal)
    return Scheduled(kernel.schedule, kernel.verdicts, kernel.milliseconds, log=kernel.log)


def compile_for(
    group: FusionGroup, recipe: Recipe | None = None, observe: Observer | None = None, options: Options = WHOLE
) -> AnyKernel:
    """Compile a group for the machine that its recipe names, by default the plan's: a GPU or a CPU.

    Raises what `compile_group` does.
    """
    if is_cpu(recipe.target if recipe else group.target):
        return compile_cpu(group, recipe, observe, options)
    return compile_group(group, recipe, observe, options)


def predict_kernel(kernel: AnyKernel) -> Prediction | CpuPrediction:
    """The modelled time of one launch, by the model of its machine."""
    if isinstance(kernel, CpuKernel):
        return estimate_cpu(kernel.facts, kernel.target)
    return estimate(kernel.facts, kernel.target)


def compile_group(
    group: FusionGroup, recipe: Recipe | None = None, observe: Observer | None = None, options: Options = WHOLE
) -> Kernel:
    """Compile a group under a recipe (by default its advisers').  options: the limits of the search.

    A recipe without advice for the group leaves every choice to the scheduler and the lowering's defaults.
    Raises Conflict when required entries cannot hold together, NotTaken when no kernel takes one as given,
    Illegal when no order keeps all dependences, NoKernel (Unsupported, with the schedule) when no kernel follows any
    legal one, OverBudget when the search has found nothing within its limits, Unsupported for a CPU (`compile_for`).
    """
    target = recipe.target if recipe else group.target
    refuse_cpu(group.name, target)
    recipe = recipe or default_recipe(group)
    advised = _kernels.find(recipe.groups.get(group.name, ()), group, _stamp(recipe.target, recipe.numerics))
    if advised is not None and observe is None:  # advisers require nothing that it could lack
        return _with_text(replace(advised, group=group, recipe=recipe))
    kernel = _compile_unchecked(group, recipe, observe, options=options)
    if not not_taken(kernel.verdicts):
        return kernel
    deadline = Deadline(options.repairing, group.name, options.should_stop)

    def verdicts_under(advice: tuple[Advice, ...]) -> tuple[Verdict, ...]:
        deadline.seconds_left()
        return _compile_unchecked(group, recipe.with_group(group.name, advice), options=options).verdicts

    raise refusal(
        kernel.program,
        Scheduled(kernel.schedule, kernel.verdicts, kernel.milliseconds, log=kernel.log),
        kernel.advice,
        {path: note.value for path, note in kernel.tile.notes.items()},
        verdicts_under if options.repairing else None,
    )


def _compile_unchecked(
    group: FusionGroup, recipe: Recipe, observe: Observer | None = None, fitting_only: bool = False,
    options: Options = WHOLE,
) -> Kernel:  # fmt: skip
    """The kernel, whether or not it takes every required entry as given.

    fitting_only: as in `lower`, and without text, which nobody who compares configurations reads.
    """
    stages = _Stages(observe)
    found = _search(group, recipe, stages, fitting_only, options)
    program, solved = found.program, found.solved
    if isinstance(found.tile, Unsupported):
        raise NoKernel(found.tile, program, solved) from found.tile
    registers = family_of(group).registers(program, found.tile, find_target(recipe.target))
    kernel = Kernel(
        group, recipe, program=program, dependences=found.dependences, schedule=solved.tree, log=solved.log,
        tile=found.tile, verdicts=solved.verdicts, facts=work_of_tile(program, found.tile, registers),
        timings=tuple(stages.timings),
    )  # fmt: skip
    return kernel if fitting_only else _with_text(kernel, observe)


def _with_text(kernel: Kernel, observe: Observer | None = None) -> Kernel:
    """The kernel with its CUDA text, which only a program without faults becomes."""
    wrong = check_tile(kernel.tile)
    if wrong:
        raise Fault("codegen", kernel.group.name, wrong[0], "the code generator is wrong: report it")
    stages, source = _Stages(observe), print_cuda(kernel.tile)
    stages.tell("cuda", kernel.tile, source)
    return replace(kernel, source=source, timings=(*kernel.timings, *stages.timings))


@dataclass(frozen=True, slots=True)
class _Found:
    """The outcome of a search: a schedule, and the kernel that follows it."""

    program: TensorProgram
    dependences: tuple[Dependence, ...]
    solved: Scheduled
    """With the verdicts after lowering."""
    tile: TileProgram | Unsupported
    """The error where no kernel follows the schedule."""


def _search(
    group: FusionGroup, recipe: Recipe, stages: _Stages | None = None, fitting_only: bool = False,
    options: Options = WHOLE,
) -> _Found:  # fmt: skip
    """The first path through the constraint tree that has a kernel; else the first legal one.

    Raises Conflict, Illegal, OverBudget, BadInput.
    """
    stages = stages or _Stages(None)
    advice = recipe.groups.get(group.name, ())
    made = rewritten(group.program, advice)
    program = with_arithmetic(made.program, recipe.numerics)
    stages.tell("rewrites", group.program, program)

    needed = dependences(program)
    stages.tell("dependences", program, needed)

    tree = compose(advice, program, made.verdicts)
    stages.tell("constraint tree", recipe, tree)

    setting = Setting(find_target(recipe.target), recipe.numerics)
    codegen = _Codegen(replace(group, program=program), setting, fitting_only)
    solved = schedule(program, needed, tree, options, lower=codegen.why_not)
    stages.tell("schedule", tree, solved.tree, solved.milliseconds)
    stages.tell("legality", solved.tree, (), solved.checking)

    tile, piped = codegen.program_of(solved.tree)
    if isinstance(piped, Unsupported):
        return _Found(program, needed, solved, piped)
    stages.tell("tile program", solved.tree, tile, codegen.lowering * 1e3)
    stages.tell("pipeline", tile, piped, codegen.pipelining * 1e3)
    # Who makes tiles of whole dimensions itself has them as marks.
    order = solved.tree if piped.family == GENERAL_FAMILY.name else fold_tiles(solved.tree)
    verdicts = tuple(_final(v, piped) for v in solved.verdicts)
    return _Found(program, needed, replace(solved, tree=order, verdicts=verdicts), piped)


class _Stages:
    """Times the stages and tells an observer of each."""

    def __init__(self, observe: Observer | None) -> None:
        self._observe = observe
        self.timings: list[tuple[str, float]] = []
        """(stage, milliseconds)."""
        self._start = time.perf_counter()

    def tell(self, stage: str, before: object, after: object, spent: float | None = None) -> None:
        """A stage has finished.  spent: milliseconds; by default since the last one did."""
        self.timings.append((stage, (time.perf_counter() - self._start) * 1e3 if spent is None else spent))
        if self._observe:
            self._observe(stage, before, after)
        self._start = time.perf_counter()


class _Codegen:
    """Lowers the schedules that a search comes to, each once."""

    def __init__(self, group: FusionGroup, setting: Setting, fitting_only: bool) -> None:
        self._group, self._setting, self._fitting_only = group, setting, fitting_only
        self._made: list[tuple[ScheduleTree, TileProgram | None, TileProgram | Unsupported]] = []
        self.lowering = self.pipelining = 0.0
        """Seconds."""

    def why_not(self, tree: ScheduleTree, verdicts: tuple[Verdict, ...]) -> str:
        """Why no kernel follows a schedule, or takes what is required; "" where one does."""

        def untaken(tile: TileProgram) -> str:
            final = [_final(verdict, self._pipeline(tile)) for verdict in verdicts]
            missed = not_taken(final)
            because = next((v.because for v in final if v.placed in missed), "")
            return f"“{missed[0].entry}”: {because}" if missed else ""

        begin, before = time.perf_counter(), self.pipelining
        self._pipelines: list[tuple[TileProgram, TileProgram]] = []
        tile: TileProgram | None = None
        try:
            tile = lower(self._group, tree, self._setting, self._fitting_only, untaken)
            piped = self._pipeline(tile)
            because = "" if self._fitting_only else untaken(tile)
            self._made.append((tree, tile, piped))
        except Unsupported as refused:
            because = refused.reason
            self._made.append((tree, tile, refused))
        self.lowering += time.perf_counter() - begin - (self.pipelining - before)
        return because

    def program_of(self, tree: ScheduleTree) -> tuple[TileProgram | None, TileProgram | Unsupported]:
        """The program of a schedule before and after the pipeline pass, or the error."""
        return next((tile, piped) for each, tile, piped in self._made if each is tree)

    def _pipeline(self, tile: TileProgram) -> TileProgram:
        piped = next((after for before, after in self._pipelines if before is tile), None)
        if piped is None:
            begin = time.perf_counter()
            piped = pipeline_loops(tile, self._setting.machine)
            if is_opmath(self._setting.numerics):
                piped = compute_in_float32(piped, self._group.program.approximates)
            self._pipelines.append((tile, piped))
            self.pipelining += time.perf_counter() - begin
        return piped


def _compile_for_advice(group: FusionGroup, recipe: Recipe) -> Kernel:
    """The kernel of a recipe by the family that it asks for, without text; it may not take every required entry."""
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
