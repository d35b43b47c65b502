"""The runner that replays recorded trials: kernels without one have no time, and nothing runs."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from engine.execution.nodes import MEASURED, PREDICTED, Failure
from engine.fusion.nodes import FusionGroup
from engine.kernels.space import Dropped, Task
from engine.recipe import Recipe
from engine.records.store import RecordStore
from engine.support.errors import Unsupported
from engine.tuning.measured_runner import measured_subject
from engine.tuning.problem import SearchProblem
from engine.tuning.runner import (
    NOT_RECORDED,
    Outcome,
    PredictedRunner,
    Prepared,
    compile_tuned,
    recipe_of,
    this_process,
)


@dataclass(frozen=True, slots=True)
class ReplayedRunner:
    """Gives recorded times; kernels without one fail with `NOT_RECORDED`."""

    origin: str = MEASURED
    name: str = "replayed"
    needs_graph: bool = False

    def prepare(self, group: FusionGroup, recipe: Recipe) -> Prepared:
        """Compile, to find the subject that its trial was kept under."""
        if self.origin == PREDICTED:
            found = PredictedRunner().prepare(group, recipe)
            return found if found.subject is None else replace(found, outcome=None)
        kernel = compile_tuned(group, recipe)
        if isinstance(kernel, Failure):
            return Prepared(None, "", kernel, this_process())
        return Prepared(measured_subject(kernel), recipe_of(kernel), None, this_process())

    def finish(self, group: FusionGroup, recipe: Recipe) -> Outcome:
        """Fail: recorded trials were found before."""
        return Failure(NOT_RECORDED, "no trial of this kernel is kept")


def recorded_alone(problem: SearchProblem, store: RecordStore, origin: str) -> SearchProblem:
    """The problem with only those programs that have recorded trials.

    Raises Unsupported where there are none.
    """
    names = frozenset(trial.because for trial in store.trials(origin, problem.group.name))
    tasks = tuple(task for one in problem.tasks if (task := _restrict(one, names)).programs)
    if not tasks:
        reason = f"has no {origin} trials in {store.path} that are programs of this search"
        raise Unsupported("tune", problem.group.name, reason, "measure first, or use --runner predicted")
    return replace(problem, tasks=tasks)


def _restrict(task: Task, names: Set[str]) -> Task:
    """A task with the programs whose text is among `names`; what goes is counted as a rule's."""
    left = tuple(program for program in task.programs if str(program) in names)
    gone = Dropped("recorded", "only what was run can be replayed", len(task.programs) - len(left), "")
    return replace(task, funnel=replace(task.funnel, left=left, dropped=(*task.funnel.dropped, gone)))
