"""The search problem of one group: its tasks with their programs, and the recipe of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.compilation import compile_for, compile_group, predict_kernel
from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.cpu.space import cpu_tasks
from engine.fusion.nodes import FusionGroup
from engine.kernels.families import family_of
from engine.kernels.general.family import GENERAL_FAMILY
from engine.kernels.large_spaces import UNSEEN
from engine.kernels.nodes import Kernel
from engine.kernels.space import Dropped, Program, Refused, Task
from engine.kernels.tuned_entries import with_tuned_entries
from engine.recipe import Recipe
from engine.scheduling.nodes import HONOURED
from engine.support.errors import EngineError, Unsupported

BEFORE_SEARCH = "the recipe before the search"
"""What the trial of a group's own recipe is recorded for, in place of a program."""


@dataclass(frozen=True, slots=True)
class SearchProblem:
    """One group with its search space."""

    group: FusionGroup
    recipe: Recipe
    """That of the user and the advisers."""
    tasks: tuple[Task, ...]
    """Its mappings that have programs, that of the advisers first."""
    flops: float
    """Of one launch."""
    before: float
    """Predicted time under `recipe`, in microseconds."""
    advised: Program | None = None
    """The program that `recipe` gives; None where it is not in the search space."""
    refused: tuple[Refused, ...] = ()
    """Mappings that cannot be searched, and why."""
    arrays: str = ""
    """Of its kernel under `recipe`, as `arrays_of` tells them."""

    @property
    def programs(self) -> tuple[Program, ...]:
        """Those of all tasks."""
        return tuple(program for task in self.tasks for program in task.programs)

    @property
    def total(self) -> int:
        """Programs before pruning."""
        return sum(task.funnel.total for task in self.tasks)

    def task(self, program: Program) -> Task:
        """The task that a program is of; KeyError where there is none."""
        return {task.name: task for task in self.tasks}[program.mapping]

    def rank(self, program: Program) -> float:
        """Modelled microseconds of a program, before it is compiled."""
        return self.task(program).rank(program)

    def recipe_of(self, program: Program) -> Recipe:
        """The recipe of one program: entries of author `tune` in place of the advisers', the user's untouched."""
        template = self.task(program).template
        return with_tuned_entries(self.recipe, self.group, template.decided, template.entries(program))


def why_not_followed(kernel: AnyKernel) -> str:
    """Entries of author `tune` that a kernel does not follow, and what became of them; "" where it follows all."""
    wanted = (v for v in kernel.verdicts if v.placed.author == "tune" and v.outcome != HONOURED)
    return "; ".join(f"{v.placed.entry}: {v.because or v.outcome}" for v in wanted)


def arrays_of(kernel: AnyKernel) -> str:
    """Element types, names and shapes of a kernel's arrays, as a trial keeps them: "float32 x[128, 768], int64 y[128]".
    """
    return ", ".join(map(str, kernel.program.arrays.values()))


def problem(group: FusionGroup, recipe: Recipe) -> SearchProblem | str:
    """The search problem of a group, or why there is nothing to search.

    The user's entries stay fixed.  Raises Unsupported where pruning leaves no program, with the rule that
    drops most.
    """
    try:
        kernel = compile_for(group, recipe)
    except EngineError as error:
        return error.reason
    refused: tuple[Refused, ...] = ()
    if isinstance(kernel, CpuKernel):
        found, flops = cpu_tasks(kernel), kernel.facts.flops
    else:
        found, refused = _tasks(group, kernel)
        flops = kernel.facts.tensor_flops + kernel.facts.flops
    if not found:
        return "; ".join(dict.fromkeys(one.because for one in refused if one.count)) or "its kernel has no choices"
    left = tuple(task for task in found if task.programs)
    if not left:
        raise _nothing_left(group, found)
    empty = tuple(Refused(task.name, _dropped_most(task)) for task in found if not task.programs)
    before = predict_kernel(kernel).microseconds
    stands = next((p for task in left if (p := task.template.program_of(kernel)) is not None), None)
    return SearchProblem(group, recipe, left, flops, before, stands, (*refused, *empty), arrays_of(kernel))


def _tasks(group: FusionGroup, kernel: Kernel) -> tuple[tuple[Task, ...], tuple[Refused, ...]]:
    """What may be chosen of a group's kernel: of its own family and, where the kernel is another's, of that one."""
    own = family_of(group)
    if kernel.family == own.name:
        space = own.space(group, kernel, compile_group)
        return space.tasks, space.refused
    found = GENERAL_FAMILY.space(group, kernel, compile_group)
    try:
        kernel = compile_group(group, with_tuned_entries(kernel.recipe, group, (), ()))
    except EngineError as error:
        return found.tasks, (Refused(own.name, error.reason),)
    if kernel.family != own.name:
        return found.tasks, (Refused(own.name, kernel.tile.misfit),)
    space = own.space(group, kernel, compile_group)
    return (*found.tasks, *space.tasks), space.refused


def _nothing_left(group: FusionGroup, tasks: Sequence[Task]) -> Unsupported:
    reason, worst = _what_drops(tasks)
    return Unsupported("tune", group.name, reason, worst.example)


def _dropped_most(task: Task) -> str:
    reason, worst = _what_drops((task,))
    return f"{reason} ({worst.example})"


def _what_drops(tasks: Sequence[Task]) -> tuple[str, Dropped]:
    """Which rule leaves no program of some tasks, and what it says; programs that were not looked at broke none."""
    total = sum(task.funnel.total for task in tasks)
    every = [dropped for task in tasks for dropped in task.funnel.dropped]
    seen = total - sum(dropped.count for dropped in every if dropped.rule == UNSEEN)
    worst = max((one for one in every if one.rule != UNSEEN), key=lambda dropped: dropped.count)
    of = f"{total:,}" if seen == total else f"{seen:,} that were looked at, of {total:,}"
    return f"no program is left of {of}: {worst.rule} drops {worst.count:,}", worst
