"""Set up a search: build the search problem of each group, and start or resume a run."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from engine.execution.nodes import PREDICTED
from engine.fusion.nodes import FusionGroup
from engine.kernels.space import Dropped, Task
from engine.recipe import Recipe
from engine.records.nodes import RefusedRecord, Request
from engine.records.runs import RunLog
from engine.records.store import RecordStore
from engine.support.errors import BadInput, Unsupported
from engine.tuning.problem import BEFORE_SEARCH, SearchProblem, problem
from engine.tuning.progress import Progress, TaskProgress
from engine.tuning.runner import ReplayedRunner, Runner
from engine.tuning.search import Search
from engine.tuning.settings import SearchSettings, SearchTools
from engine.tuning.strategies import STRATEGIES, make_strategy

Observer = Callable[[str, int, int], None]
"""Called with (group, groups done, groups) while search problems are built."""


def begin(
    groups: Sequence[FusionGroup],
    recipe: Recipe,
    store: RecordStore,
    settings: SearchSettings,
    tools: SearchTools,
    observe: Observer | None = None,
) -> Search:
    """A search of some groups of a plan, with a run in the store.

    Raises BadInput for an unknown strategy, too few trials, and a run to resume that is not there or is of something
    else; Unsupported where nothing of any group can be searched, with the reasons.
    """
    if settings.strategy not in STRATEGIES:
        raise BadInput("tune", f"strategy {settings.strategy}", "is not known", f"one of {', '.join(STRATEGIES)}")
    if settings.limits.trials < 1:
        reason = "are too few: the first round of each group would have none"
        raise BadInput("tune", f"{settings.limits.trials} trials for each group", reason, "allow at least 1")
    found, skipped = _problems(groups, recipe, store, settings.runner, observe or (lambda group, done, total: None))
    if not found:
        raise _nothing(settings.source or "the plan", skipped)
    limits, runner = settings.limits, settings.runner
    request = Request(
        settings.source, recipe.target, settings.strategy, runner.name, runner.origin, limits.trials,
        minutes=None if math.isinf(limits.minutes) else limits.minutes, seed=settings.seed, groups=tuple(found),
        dimensions=recipe.dimensions, recipe=json.dumps(recipe.to_json()),
    )  # fmt: skip
    progress = {name: _progress(one, settings) for name, one in found.items()}
    tasks = [task for one in progress.values() for task in one.record()]
    reasons = [RefusedRecord(name, r.mapping, r.because, r.count) for name, one in found.items() for r in one.refused]
    # Refusals are worked out again: a newer version may refuse other mappings than the one that started the run.
    if settings.resume:
        log = _taken_over(store, request)
        log.set_refused(reasons)
    else:
        log = RunLog.start(store, request, tasks, skipped, reasons)
    return Search(recipe, progress, skipped, log, settings, tools)


def _problems(
    groups: Sequence[FusionGroup], recipe: Recipe, store: RecordStore, runner: Runner, observe: Observer
) -> tuple[dict[str, SearchProblem], dict[str, str]]:
    """Search problems by group name, and for the other groups the reason why they have none."""
    found: dict[str, SearchProblem] = {}
    skipped: dict[str, str] = {}
    for done, group in enumerate(groups):
        observe(group.name, done, len(groups))
        try:
            one = problem(group, recipe)
            if isinstance(one, SearchProblem) and isinstance(runner, ReplayedRunner):
                one = _recorded_alone(one, store, runner.origin)
        except Unsupported as error:
            one = f"{error.reason}" + (f" ({error.hint})" if error.hint else "")
        if isinstance(one, str):
            skipped[group.name] = one
        else:
            found[group.name] = one
    return found, skipped


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
    left = (*listed, *(program for program in named if task.time_of_unseen(program) is not None))
    gone = Dropped("recorded", "only what was run can be replayed", len(task.programs) - len(listed), "")
    funnel = replace(task.funnel, left=left, dropped=(*task.funnel.dropped, gone))
    return replace(task, funnel=funnel, unseen=None)


def _nothing(subject: str, skipped: Mapping[str, str]) -> Unsupported:
    if len(skipped) == 1:
        ((name, why),) = skipped.items()
        return Unsupported("tune", name, f"has nothing to search: {why}")
    reasons = "; ".join(f"{name}: {why}" for name, why in list(skipped.items())[:3])
    return Unsupported("tune", subject, "has nothing to search", reasons)


def _progress(found: SearchProblem, settings: SearchSettings) -> Progress:
    """The state of a group before any trial."""
    before = found.before if settings.runner.origin == PREDICTED else float("inf")
    tasks = {task.name: _task(found.group.name, task, settings) for task in found.tasks}
    return Progress(found, tasks, before)


def _task(group: str, task: Task, settings: SearchSettings) -> TaskProgress:
    # A random stream for each task, so that proposals do not depend on other tasks or on the order of results.
    rng = random.Random(f"{settings.seed} {group} {task.name}")
    return TaskProgress(task, make_strategy(settings.strategy, task, rng), min(map(task.rank, task.programs)))


def _taken_over(store: RecordStore, request: Request) -> RunLog:
    """Resume the last run of the store if it is of the same plan; strategy, seed and limits may differ."""
    run = RunLog.last(store)
    was = run.request
    compared = {
        "file": (was.source, request.source), "target": (was.target, request.target),
        "runner": (was.runner, request.runner), "origin": (was.origin, request.origin),
        "dimensions": (dict(was.dimensions), dict(request.dimensions)),
        "recipe": (was.recipe, request.recipe), "groups": (was.groups, request.groups),
    }  # fmt: skip
    other = [name for name, (before, now) in compared.items() if before != now]
    if other:
        reason = f"run {run.number}, its last, is of another {' and '.join(other)}"
        raise BadInput("records", str(store.path), reason, "leave out --resume: known trials are reused in any case")
    log = RunLog.resume(store, run.number)
    log.set_request(request)
    return log
