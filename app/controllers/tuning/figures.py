"""What the panels say of a run: summaries, funnels, shares of the rounds, causes, importance."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from engine.records.nodes import SEARCHED, RefusedRecord, Round, Run, TaskRecord
from engine.tuning.comparison import GroupTrials
from engine.tuning.statistics import variance_explained
from views.format import figure, moment, plural
from views.tuning.nodes import Cause, Cut, GroupProgress, Importance, RunChoice, TrialShare
from views.tuning.trials import NONE, Rows, Trials

TOLD = 6
"""Decisions about a group, the last ones, that are told with their figures."""
WRONG = "wrong"
"""In the kind of a failure whose kernel gave other values than the reference."""


def groups_of(run: Run) -> tuple[str, ...]:
    """The groups that the search has come to, in the order of the file."""
    return tuple(dict.fromkeys(task.group for task in run.tasks))


def run_choices(runs: Sequence[Run], now: float) -> tuple[RunChoice, ...]:
    """The runs of a file to choose from, the newest first.  now: seconds since 1970."""
    return tuple(RunChoice(run.number, run_title(run, now)) for run in reversed(runs))


def run_title(run: Run, now: float, file: str = "") -> str:
    """A run among others: "Run 3, 29 Nov 2026 18:59, evolution, finished".  file: its name, where others are of others.
    """
    name = f"Run {run.number} of {file}" if file else f"Run {run.number}"
    return ", ".join(filter(None, (name, moment(run.started), run.request.method, run.state_at(now))))


def group_trials(trials: Trials, group: str, origin: str) -> GroupTrials:
    """What a run tried of a group, with the program of its best trial."""
    rows = trials.rows_of(group)
    best = trials.best(rows)
    said = {name: trials.text(name, best) for name in trials.dimensions} if best != NONE else {}
    program = {name: value for name, value in said.items() if value}
    mapping = {"mapping": trials.text("mapping", best)} if best != NONE else {}
    return GroupTrials(origin, trials.microseconds[rows], {**mapping, **program})


def summary(run: Run, trials: Trials, rows: Rows, rounds: Sequence[Round], group: str, title: str) -> GroupProgress:
    """One group in a line."""
    best = trials.best(rows)
    before = next((task.before for task in run.tasks if task.group == group and math.isfinite(task.before)), 0.0)
    return GroupProgress(
        title, run.request.origin, before,
        float(trials.microseconds[best]) if best != NONE else math.inf,
        int(trials.number[best]) if best != NONE else 0,
        len(rows), sum(each.group == group for each in rounds), int(np.isnan(trials.microseconds[rows]).sum()),
    )  # fmt: skip


def cuts(tasks: Iterable[TaskRecord], tried: int) -> tuple[Cut, ...]:
    """The funnel of some tasks together: all combinations, what each rule left, what was tried."""
    tasks = tuple(tasks)
    if not tasks:
        return ()
    left = sum(task.total for task in tasks)
    found = [Cut("All programs", left, plural(len(tasks), "mapping") if len(tasks) > 1 else "")]
    removed: dict[str, int] = defaultdict(int)
    said: dict[str, tuple[str, str]] = {}
    for task in tasks:
        for sieved in task.sieved:
            removed[sieved.rule] += sieved.count
            if sieved.count:
                said.setdefault(sieved.rule, (sieved.because, sieved.example))
    for rule, count in removed.items():
        left -= count
        if count:
            found.append(Cut(rule, left, *said[rule]))
    # Neighbours of what was fast join where not all of a space was looked at.
    joined = f"{tried - left:,} joined" if tried > left else "all of them"
    return (*found, Cut("Tried", tried, f"{left - tried:,} waiting" if tried < left else joined))


def shares(run: Run, rounds: Sequence[Round], trials: Trials, title: Mapping[str, str]) -> tuple[TrialShare, ...]:
    """Where the rounds of the search went: groups in the order of the file, their mappings under them."""
    found = []
    for group in groups_of(run):
        mine = [each for each in rounds if each.group == group and each.kind == SEARCHED]
        rows = trials.rows_of(group)
        gain = summary(run, trials, rows, (), group, "").gain
        names = dict.fromkeys(each.mapping for each in mine if each.mapping)
        of = {name: [each for each in mine if each.mapping == name] for name in names}
        parts = tuple(_share(name, name, of[name], _gain_of(run, trials, rows, group, name)) for name in names)
        refused = tuple(_refusal_row(place, each) for place, each in enumerate(run.refused) if each.group == group)
        found.append(_share(group, title.get(group, group), mine, gain, (*parts, *refused)))
    return tuple(found)


def causes(trials: Trials, rows: Rows, examples: Mapping[tuple[str, str], str], group: str) -> tuple[Cause, ...]:
    """Failures of a group by kind."""
    kinds = trials.column("kind")[rows]
    counts = np.bincount(kinds[kinds != NONE].astype(np.int64), minlength=1)
    return tuple(
        Cause(kind, int(counts[code]), examples.get((group, kind), ""), WRONG in kind)
        for code, kind in enumerate(trials.words.kinds.texts[: len(counts)])
        if counts[code]
    )


def importance(trials: Trials, rows: Rows) -> tuple[Importance, ...]:
    """How much of the spread of a group's times each dimension explains."""
    known = rows[np.isfinite(trials.microseconds[rows])]
    best = trials.best(known)
    if best == NONE:
        return ()
    times = trials.microseconds[known]
    found = []
    for name in trials.dimensions:
        values = trials.value(name)[known]
        if (values != NONE).any() and trials.text(name, best):
            count = len(np.unique(values[values != NONE]))
            found.append(Importance(name, variance_explained(times, values), trials.text(name, best), count))
    return tuple(found)


def _refusal_row(place: int, one: RefusedRecord) -> TrialShare:
    many = f" ({one.count:,} of them)" if one.count > 1 else ""
    return TrialShare(f"refused {place}", one.mapping, (), 0.0, refused=f"not searched: {one.because}{many}")


def _share(
    key: str, title: str, rounds: Sequence[Round], gain: float, parts: tuple[TrialShare, ...] = ()
) -> TrialShare:
    numbers = tuple(each.number for each in rounds)
    return TrialShare(key, title, numbers, gain, tuple(map(_because, rounds[-TOLD:])), parts)


def _because(decision: Round) -> str:
    """A decision with the figures that it was made of."""
    figures = ", ".join(f"{name} {figure(value)}" for name, value in decision.figures.items() if math.isfinite(value))
    reason = f"round {decision.number}: {decision.reason}"
    return f"{reason} ({figures})" if figures else reason


def _gain_of(run: Run, trials: Trials, rows: Rows, group: str, mapping: str) -> float:
    """What the best program of one mapping saves; 0 where none is faster."""
    mine = rows[trials.column("mapping")[rows] == trials.words.mappings.find(mapping)]
    return max(summary(run, trials, mine, (), group, "").gain, 0.0)
