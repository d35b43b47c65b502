"""Set up a search: check what is asked, build the space of the first group, and start or resume a run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.fusion.nodes import FusionGroup
from engine.recipe import Recipe
from engine.records.nodes import RUNNING, Request
from engine.records.runs import RunLog
from engine.records.store import RecordStore
from engine.support.errors import BadInput, Unsupported
from engine.tuning.known_starts import read_starts
from engine.tuning.search import Search
from engine.tuning.searched_groups import Observer, SearchedGroups
from engine.tuning.settings import SearchSettings, SearchTools
from engine.tuning.strategies import STRATEGIES


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
    notice = ""
    if settings.resume and not settings.start:
        settings, notice = _with_own_start(settings, store)
    searched = SearchedGroups(groups, recipe, store, settings, observe)
    if searched.add_next() is None:
        raise _nothing(settings.source or "the plan", searched.skipped)
    limits, runner = settings.limits, settings.runner
    request = Request(
        settings.source, recipe.target, settings.strategy, runner.name, runner.origin, limits.trials,
        minutes=None if math.isinf(limits.minutes) else limits.minutes, seed=settings.seed,
        groups=tuple(group.name for group in groups), dimensions=recipe.dimensions, recipe=json.dumps(recipe.to_json()),
        start=settings.start,
    )  # fmt: skip
    log = _taken_over(store, request) if settings.resume else RunLog.start(store, request)
    search = Search(recipe, searched, log, settings, tools)
    if notice:
        log.set_state(RUNNING, notice)
        search.first_notice = notice
    return search


def _with_own_start(settings: SearchSettings, store: RecordStore) -> tuple[SearchSettings, str]:
    """The settings with the start of the run to continue, and what to tell where its file cannot be read any more.

    Such a run goes on without: a start matters for the first rounds alone.
    """
    start = RunLog.last(store).request.start
    settings = replace(settings, start=start)
    if not start:
        return settings, ""
    try:
        return replace(settings, starts=read_starts(start)), ""
    except BadInput as error:
        return settings, f"{start}, which this run started from, {error.reason}; it goes on without it"


def _nothing(subject: str, skipped: Mapping[str, str]) -> Unsupported:
    if len(skipped) == 1:
        ((name, why),) = skipped.items()
        return Unsupported("tune", name, f"has nothing to search: {why}")
    reasons = "; ".join(f"{name}: {why}" for name, why in list(skipped.items())[:3])
    return Unsupported("tune", subject, "has nothing to search", reasons)


def _taken_over(store: RecordStore, request: Request) -> RunLog:
    """Resume the last run of the store if it is of the same plan; strategy, start, seed and limits may differ."""
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
