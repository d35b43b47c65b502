"""The groups of a search: the space of each is built when its first round is due, not before the search begins.

    8 groups of BERT: the first trial runs after the space of one is built (1 s), not after those of all (7 s)
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from engine.execution.nodes import PREDICTED
from engine.fusion.nodes import FusionGroup
from engine.kernels.large_spaces import UNSEEN
from engine.kernels.space import Dropped, Task
from engine.recipe import Recipe
from engine.records.nodes import RefusedRecord, TaskRecord
from engine.records.store import RecordStore
from engine.support.errors import Unsupported
from engine.tuning.problem import BEFORE_SEARCH, SearchProblem, problem
from engine.tuning.progress import Progress, TaskProgress
from engine.tuning.runner import ReplayedRunner
from engine.tuning.settings import SearchSettings
from engine.tuning.strategies import make_strategy

Observer = Callable[[str, int, int], None]
"""Called with (group, groups before it, groups) when the space of a group is about to be built."""


class SearchedGroups:
    """The groups of a search in the order of the plan: those with a space, those skipped, and those to come."""

    def __init__(
        self,
        groups: Sequence[FusionGroup],
        recipe: Recipe,
        store: RecordStore,
        settings: SearchSettings,
        observe: Observer | None = None,
    ) -> None:
        """recipe: what the search starts from.  store: of the trials that a replay is restricted to."""
        self.progress: dict[str, Progress] = {}
        """Those whose spaces are built, by name."""
        self.skipped: dict[str, str] = {}
        """Those that cannot be searched, and why."""
        self._groups, self._pending = tuple(groups), deque(groups)
        self._recipe, self._store, self._settings, self._observe = recipe, store, settings, observe

    @property
    def pending(self) -> tuple[str, ...]:
        """Names of those to come."""
        return tuple(group.name for group in self._pending)

    @property
    def count(self) -> int:
        """Those that are searched or may yet be."""
        return len(self.progress) + len(self._pending)

    def add_next(self) -> Progress | None:
        """Build the space of the next group that can be searched; None where there is none left."""
        while self._pending:
            group = self._pending.popleft()
            if self._observe is not None:
                self._observe(group.name, len(self._groups) - len(self._pending) - 1, len(self._groups))
            found = self._problem(group)
            if isinstance(found, SearchProblem):
                self.progress[group.name] = one = _progress(found, self._settings)
                return one
            self.skipped[group.name] = found
        return None

    def tasks(self) -> tuple[TaskRecord, ...]:
        """The mappings of those whose spaces are built, as they are kept with the run."""
        return tuple(task for one in self.progress.values() for task in one.record())

    def refusals(self) -> tuple[RefusedRecord, ...]:
        """Their mappings that cannot be searched, as they are kept with the run."""
        return tuple(
            RefusedRecord(name, one.mapping, one.because, one.count)
            for name, progress in self.progress.items()
            for one in progress.problem.refused
        )

    def _problem(self, group: FusionGroup) -> SearchProblem | str:
        """The search problem of a group, or why it has none."""
        try:
            found = problem(group, self._recipe)
            if isinstance(found, SearchProblem) and isinstance(self._settings.runner, ReplayedRunner):
                return _recorded_alone(found, self._store, self._settings.runner.origin)
        except Unsupported as error:
            return f"{error.reason}" + (f" ({error.hint})" if error.hint else "")
        return found


def _recorded_alone(problem: SearchProblem, store: RecordStore, origin: str) -> SearchProblem:
    """The problem with only those programs that have recorded trials.

    Raises Unsupported where there are none.
    """
    names = {trial.because for trial in store.trials(origin, problem.group.name)}
    if BEFORE_SEARCH in names and problem.advised is not None:
        names.add(str(problem.advised))
    tasks = tuple(task for one in problem.tasks if (task := _restrict(one, names)).programs)
    if not tasks:
        reason = f"has no {origin} trials in {store.path} that are programs of this search"
        raise Unsupported("tune", problem.group.name, reason, "measure first, or use --runner predicted")
    return replace(problem, tasks=tasks)


def _restrict(task: Task, names: Set[str]) -> Task:
    """A task with the programs whose text is among `names`; what goes is counted as a rule's."""
    listed = tuple(program for program in task.programs if str(program) in names)
    named = filter(None, map(task.program_named, sorted(names - set(map(str, listed)))))
    joined = tuple(program for program in named if task.time_of_unseen(program) is not None)
    gone = Dropped("recorded", "only what was run can be replayed", len(task.programs) - len(listed), "")
    before = (replace(d, count=d.count - len(joined)) if d.rule == UNSEEN else d for d in task.funnel.dropped)
    funnel = replace(task.funnel, left=(*listed, *joined), dropped=(*before, gone))
    return replace(task, funnel=funnel, unseen=None)


def _progress(found: SearchProblem, settings: SearchSettings) -> Progress:
    """The state of a group before any trial."""
    before = found.before if settings.runner.origin == PREDICTED else float("inf")
    tasks = {task.name: _task(found.group.name, task, settings) for task in found.tasks}
    return Progress(found, tasks, before, list(settings.starts(found)))


def _task(group: str, task: Task, settings: SearchSettings) -> TaskProgress:
    # A random stream for each task, so that proposals do not depend on other tasks or on the order of results.
    rng = random.Random(f"{settings.seed} {group} {task.name}")
    return TaskProgress(task, make_strategy(settings.strategy, task, rng), min(map(task.rank, task.programs)))
