"""From a fusion group and a recipe to C++ for a CPU, by the stages that kernels for GPUs go through up to the schedule.

rewrites -> dependences -> constraint tree -> schedule -> legality -> C++ -> facts
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.cpu.families import advise_cpu, lower_cpu
from engine.cpu.nodes import CppProgram, CpuKernel
from engine.fusion.nodes import FusionGroup
from engine.poly.dependences import dependences
from engine.recipe import Recipe
from engine.rewrite.apply import rewritten
from engine.scheduling.compose import compose
from engine.scheduling.nodes import HONOURED, RELAXED, WHOLE, Options, ScheduleTree, Verdict
from engine.scheduling.solve import schedule
from engine.scheduling.untaken_entries import NoKernel, not_taken
from engine.support.errors import Unsupported
from engine.target.machines import cpu


def default_cpu_recipe(group: FusionGroup, target: str) -> Recipe:
    """The recipe of a group with what the analyses advise."""
    return Recipe(target, groups={group.name: advise_cpu(group, cpu(target))})


Observer = Callable[[str, object, object], None]
"""Called with (stage, value before, value after) as each stage finishes."""


def compile_cpu(
    group: FusionGroup, recipe: Recipe | None = None, observe: Observer | None = None, options: Options = WHOLE
) -> CpuKernel:
    """Compile a group for the CPU that a recipe names; by default what the analyses advise for the plan's.

    Raises Conflict when required entries cannot hold together, Illegal when no order keeps all dependences, NoKernel
    (Unsupported, with the schedule) when no kernel follows any legal one or takes what is required.
    """
    recipe = recipe or default_cpu_recipe(group, group.target)
    machine = cpu(recipe.target)
    timings: list[tuple[str, float]] = []
    begun = time.perf_counter()

    def tell(stage: str, before: object, after: object) -> None:
        nonlocal begun
        now = time.perf_counter()
        timings.append((stage, (now - begun) * 1e3))
        if observe:
            observe(stage, before, after)
        begun = time.perf_counter()

    advice = recipe.groups.get(group.name, ())
    made = rewritten(group.program, advice)
    own = replace(group, program=made.program)
    tell("rewrites", group.program, made.program)
    needed = dependences(made.program)
    tell("dependences", made.program, needed)
    tree = compose(advice, made.program, made.verdicts)
    tell("constraint tree", recipe, tree)
    found: list[_Made] = []

    def why_not(one: ScheduleTree, verdicts: tuple[Verdict, ...]) -> str:
        try:
            lowered: CppProgram | Unsupported = lower_cpu(own, one, needed, machine)
        except Unsupported as refused:
            lowered = refused
        found.append(_Made(one, lowered))
        if isinstance(lowered, Unsupported):
            return lowered.reason
        final = [_final(verdict, lowered) for verdict in verdicts]
        missed = not_taken(final)
        because = next((v.because for v in final if v.placed in missed), "")
        return f"“{missed[0].entry}”: {because}" if missed else ""

    solved = schedule(made.program, needed, tree, options, lower=why_not)
    lowered = next(one.lowered for one in found if one.tree is solved.tree)
    tell("schedule", tree, solved.tree)
    if isinstance(lowered, Unsupported):
        raise NoKernel(lowered, made.program, solved) from lowered
    verdicts = tuple(_final(verdict, lowered) for verdict in solved.verdicts)
    if missed := not_taken(verdicts):
        because = next(v.because for v in verdicts if v.placed in missed)
        refused = Unsupported("codegen", str(missed[0].entry), because, "leave out “required”")
        raise NoKernel(refused, made.program, replace(solved, verdicts=verdicts))
    tell("C++", solved.tree, lowered.source)
    return CpuKernel(
        group, recipe, made.program, needed, solved.tree, verdicts, solved.log, lowered, tuple(timings)
    )


@dataclass(frozen=True, slots=True)
class _Made:
    tree: ScheduleTree
    lowered: CppProgram | Unsupported


def _final(verdict: Verdict, lowered: CppProgram) -> Verdict:
    """A verdict after lowering: what the kernel could not take as given is relaxed."""
    note = lowered.notes.get(verdict.placed.path)
    if note is None or verdict.outcome != HONOURED:
        return verdict
    return replace(verdict, outcome=RELAXED, because=str(note))
