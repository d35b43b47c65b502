"""What the verbs of tuning print."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import engine
from app import output
from app.job import Job
from engine import BadInput, MissingCapability
from engine.mapping import WRONG, MappingDoc, MappingsDoc
from engine.records.export import export
from engine.records.store import RecordStore
from engine.run.nodes import PREDICTED
from engine.text import to_json
from engine.tune.nodes import Limits
from engine.tune.problem import Problem
from engine.tune.search import Search
from views.format import duration, plural

SHOWN = 5
"""Mappings of one intrinsic that a table shows."""


def mappings(job: Job, check: bool, every: bool, json: bool) -> bool:
    """Mappings of each group; whether no kernel of them is wrong."""
    recipe = job.recipe
    found = [
        engine.mappings(group, recipe, emulate=check) for group in output.track(job.groups, len(job.groups), "mapping")
    ]
    if json:
        output.document(groups=[_document(one) for one in found])
    for one in () if json else found:
        _show(one, every)
    return not any(mapping.state == WRONG for one in found for mapping in one.mappings)


def _document(found: MappingsDoc) -> dict[str, Any]:
    fields: dict[str, Any] = to_json(found)
    return {"name": fields.pop("group"), **fields}


def _show(found: MappingsDoc, every: bool) -> None:
    """A table of the mappings, and a line for each intrinsic that has none."""
    title = f"{found.group}  {found.product}" + (f"  ({found.because})" if found.because else "")
    count = Counter(mapping.intrinsic for mapping in found.mappings)
    shown: list[MappingDoc] = []
    for name in count:
        listed = [mapping for mapping in found.mappings if mapping.intrinsic == name]
        shown += listed if every else listed[:SHOWN]
    output.say(title)
    if shown:
        cells = (
            (m.intrinsic, m.binding, " ".join(m.outer), f"{m.calls:,}", f"{m.padding:.1%}", m.state, m.why_not)
            for m in shown
        )
        columns = ("intrinsic", "axes", "loops around", "calls>", "padding>", "state", "why not")
        output.table("", columns, cells)
    if len(shown) < len(found.mappings):
        totals = ", ".join(f"{plural(number, 'mapping')} to {name}" for name, number in count.items())
        output.say(f"{totals}; all of them with --all")
    reasons: dict[str, list[str]] = {}
    for refused in found.refused:
        reasons.setdefault(refused.because, []).append(refused.intrinsic)
    for because, names in reasons.items():
        output.say(f"none to {', '.join(names)}: {because}")
    output.say("")


@dataclass(frozen=True)
class Wishes:
    """The options of `tune`."""

    records: Path
    trials: int
    minutes: float | None
    strategy: str
    runner: str
    resume: bool
    check: bool
    out: Path | None
    table: Path | None
    seed: int


def tune(job: Job, wishes: Wishes, json: bool) -> None:
    """Search, show what was found, write the best recipe; an interrupt ends the search and nothing is lost."""
    _refuse(wishes)
    recipe = job.recipe
    with RecordStore(wishes.records) as store:
        plan = job.plan if job.only is None else replace(job.plan, groups=job.groups)
        search = engine.tune(plan, recipe, store, wishes.strategy, wishes.seed)
        was_interrupted = _run(search, wishes)
        unchecked = _checked(search) if wishes.check and not was_interrupted else {}
        found = search.recipe()
        if wishes.out is not None:
            engine.write_recipe(found, wishes.out)
        if wishes.table is not None:
            export(store, PREDICTED, wishes.table)
    _report_search(search, wishes, unchecked, json)
    if was_interrupted:
        raise KeyboardInterrupt


def _refuse(wishes: Wishes) -> None:
    """Options that cannot be meant."""
    if wishes.runner != PREDICTED:
        hint = "`loomscope measure` times one kernel on a GPU"
        raise BadInput("command line", f"--runner {wishes.runner}", "is not there: only predicted is", hint)
    if wishes.minutes is not None and not 0 < wishes.minutes < float("inf"):
        raise BadInput("command line", f"--minutes {wishes.minutes:g}", "is no time", "say a number above 0")
    if wishes.resume and not wishes.records.is_file():
        raise BadInput("command line", str(wishes.records), "is not there to go on with", "leave out --resume")


def _run(search: Search, wishes: Wishes) -> bool:
    """Spend the trials; whether a person ended it."""
    limits = Limits(wishes.trials, float("inf") if wishes.minutes is None else wishes.minutes)
    total = wishes.trials * len(search.progress)
    done = 0
    with output.steps("searching") as step:
        try:
            for each in search.rounds(limits):
                done += len(each.results)
                step(f"{each.group} {duration(each.best)}", done, total)
        except KeyboardInterrupt:
            return True
    return False


def _checked(search: Search) -> dict[str, str]:
    """Groups whose best kernel could not be compared or is wrong, and why; wrong ones are not taken."""
    found: dict[str, str] = {}
    for name, one in search.progress.items():
        if one.winner is None or one.gain <= 0:
            continue
        kernel = engine.compile(one.problem.group, one.problem.tuned(one.winner.program))
        try:
            result = engine.check(kernel)
        except MissingCapability as error:
            found[name] = f"not checked: {error.reason}"
            continue
        if result.status != "pass":
            found[name] = f"{result.status}: {result.message}"
            one.winner = None
    return found


def _funnels(problem: Problem) -> dict[str, Any]:
    """What pruning left of each mapping of a group."""
    return {
        task.name: {
            "total": task.funnel.total,
            "dropped": {d.rule: d.count for d in task.funnel.dropped},
            "left": len(task.programs),
        }
        for task in problem.tasks
    }


def _report_search(search: Search, wishes: Wishes, unchecked: dict[str, str], json: bool) -> None:
    best = {
        name: {
            "microseconds": one.winner.microseconds, "before": one.problem.before, "origin": PREDICTED,
            "program": to_json(one.winner.program), "note": unchecked.get(name, ""),
        }
        for name, one in search.progress.items() if one.winner is not None
    }  # fmt: skip
    failures: Counter[str] = Counter()
    for one in search.progress.values():
        failures += one.failures
    trials = sum(one.trials for one in search.progress.values())
    reused = sum(one.reused for one in search.progress.values())
    repeated = sum(one.repeated for one in search.progress.values())
    if json:
        funnels = {name: _funnels(one.problem) for name, one in search.progress.items()}
        output.document(
            best=best, trials=trials, failures=dict(failures), reused=reused, repeated=repeated, funnels=funnels,
            skipped=search.skipped, unchecked=unchecked,
        )  # fmt: skip
        return
    cells = (
        (
            name, f"{one.problem.total:,}", f"{len(one.problem.programs):,}", str(one.trials),
            str(sum(one.failures.values())), duration(one.problem.before),
            duration(min(one.problem.before, *one.best)),
            str(one.winner.program) if one.winner and one.gain > 0 else "as it was",
        )
        for name, one in search.progress.items()
    )  # fmt: skip
    columns = ("group", "programs>", "after pruning>", "trials>", "failed>", "before>", "best>", "program")
    output.table("Predicted times: a model's, not measured", columns, cells)
    for name, why in (*unchecked.items(), *search.skipped.items()):
        output.say(f"{name}: {why}")
    output.say(f"{plural(trials, 'trial')}, {reused} of them known before; kept in {wishes.records}")
