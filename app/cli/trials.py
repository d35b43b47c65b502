"""What `loomscope trials` prints about a file of records: its runs, what they found, and what mattered."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.cli import output
from app.cli.two_runs import RunTrials, comparison_document, comparisons, other_run, show_comparisons
from engine import BadInput
from engine.records.export import export
from engine.records.nodes import IMPORTED, ORIGINS, Attempt, Round, Run
from engine.records.reader import RunReader
from engine.records.tables import MAKE_HINT
from engine.support.files import check_place
from engine.support.serialization import to_json
from engine.tuning.statistics import rank_correlation, variance_explained
from views.format import duration, figure, percent, plural

Kept = Mapping[str, tuple[int, Mapping[str, int]]]
"""Origin -> how many times of it the records hold, and how many failures of each kind."""


@dataclass(frozen=True)
class MappingResult:
    """What one run found out about one mapping of one group."""

    group: str
    mapping: str
    attempts: int
    failures: dict[str, int]
    best: Attempt | None
    correlation: float
    """Of promised and other times by rank; NaN where there are too few."""
    importance: dict[str, float]
    """Dimension -> part of the variance of the logarithm of the times that it explains by itself."""


def trials(
    records: Path, number: int | None, against: str | None, table: Path | None, origin: str | None, json: bool
) -> None:
    """List the runs of a file and tell of one of them; write the trials as a table where one is asked for.

    against: number of another run of the file, or another file, whose last run is compared.
    """
    if table is not None:
        check_place(table, "command line")
    with RunReader(records) as reader:
        runs = reader.runs()
        chosen = reader.run(number) if runs or number is not None else None
        attempts = reader.attempts(chosen.number) if chosen else ()
        rounds = reader.rounds(chosen.number) if chosen else ()
        kept = reader.counts()
        if table is not None:
            export(reader, _origin(origin, chosen, tuple(kept)), table)
    found = _mapping_results(attempts)
    own = RunTrials(records, chosen, attempts) if chosen else None
    if against is not None and own is None:
        raise BadInput("records", str(records), "holds no run to compare", MAKE_HINT)
    other = other_run(own, against) if own and against is not None else None
    compared = comparisons(own, other) if own and other else ()
    if json:
        beside = {"against": comparison_document(other, compared)} if other else {}
        output.document(**_document(runs, chosen, found, rounds, kept), **beside)
        return
    _show_runs(runs, kept)
    if chosen is not None:
        _show(chosen, found, rounds)
    if own and other:
        show_comparisons(own, other, compared)


def _origin(asked: str | None, run: Run | None, kept: Sequence[str]) -> str:
    """Which origin a table is of: those of several are never in one."""
    if asked is not None and asked not in ORIGINS:
        raise BadInput("command line", f"--origin {asked}", "is no origin of times", f"one of {', '.join(ORIGINS)}")
    if run is not None and run.request.runner == IMPORTED:
        raise BadInput("command line", "--export", f"no trial of {run.request.strategy} is kept: its log has them all")
    if asked is None and run is None and len(kept) > 1:
        hint = f"name one with --origin: {', '.join(kept)}"
        raise BadInput("command line", "--export", "would mix times of several origins", hint)
    return asked or (run.request.origin if run else next(iter(kept), ORIGINS[0]))


def _mapping_results(attempts: Sequence[Attempt]) -> list[MappingResult]:
    """By group and mapping, in the order in which they were first tried."""
    by_mapping: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.mapping:
            by_mapping[attempt.group, attempt.mapping].append(attempt)
    return [_of_mapping(*name, mine) for name, mine in by_mapping.items()]


def _of_mapping(group: str, mapping: str, attempts: Sequence[Attempt]) -> MappingResult:
    timed = [one for one in attempts if one.microseconds is not None and not one.failure]
    times = np.array([one.microseconds for one in timed], float)
    promised = np.array([one.promised for one in timed], float)
    programs = [dict(one.values) for one in timed]
    importance = {}
    for name in dict.fromkeys(name for one in attempts for name, _ in one.values):
        codes: dict[int | str | None, int] = {}
        values = [codes.setdefault(program.get(name), len(codes)) for program in programs]
        importance[name] = variance_explained(times, np.array(values, np.int32)) if timed else 0.0
    failures = Counter(one.failure for one in attempts if one.failure)
    best = min(timed, key=lambda one: (one.microseconds, one.number), default=None)
    correlation = rank_correlation(promised, times)
    return MappingResult(group, mapping, len(attempts), dict(failures), best, correlation, importance)


def _document(
    runs: Sequence[Run], chosen: Run | None, found: Sequence[MappingResult], rounds: Sequence[Round], kept: Kept
) -> dict[str, Any]:
    now = time.time()
    return {
        "trials": {origin: {"times": times, "failures": failures} for origin, (times, failures) in kept.items()},
        "runs": [
            {
                "number": run.number, "started": run.started, "state": run.state_at(now), "message": run.message,
                "source": run.request.source, "target": run.request.target, "strategy": run.request.strategy,
                "runner": run.request.runner, "origin": run.request.origin, "start": run.request.start,
            }
            for run in runs
        ],
        "run": chosen.number if chosen else None,
        "mappings": [
            {
                "group": one.group, "mapping": one.mapping, "attempts": one.attempts, "failures": one.failures,
                "microseconds": one.best.microseconds if one.best else None,
                "low": one.best.low if one.best else None, "high": one.best.high if one.best else None,
                "program": dict(one.best.values) if one.best else None, "trial": one.best.trial if one.best else None,
                "rank_correlation": to_json(one.correlation), "importance": one.importance,
            }
            for one in found
        ],
        "rounds": to_json(tuple(rounds)),
        "tasks": to_json(chosen.tasks) if chosen else [],
        "refused": to_json(chosen.refused) if chosen else [],
    }  # fmt: skip


def _show_runs(runs: Sequence[Run], kept: Kept) -> None:
    for origin, (times, failures) in kept.items():
        failed = ", ".join(f"{count} {kind}" for kind, count in failures.items())
        output.say(f"{plural(times, 'time')} {origin}" + (f"; failures: {failed}" if failed else ""))
    if not runs:
        output.say("no run is kept")
        return
    now = time.time()

    def cells(run: Run) -> tuple[str, ...]:
        request, state = run.request, (run.started, run.state_at(now))
        what = Path(request.source).name, request.target, request.method, request.runner
        return str(run.number), *state, *what, run.message

    columns = ("run>", "started", "state", "file", "target", "strategy", "runner", "ended")
    output.table("", columns, map(cells, runs))


def _show(run: Run, found: Sequence[MappingResult], rounds: Sequence[Round]) -> None:
    columns = ("group", "mapping", "attempts>", "failed>", "best>", "rank>", "what explains the times")
    title = f"Run {run.number}: {run.request.origin} times"
    if run.request.runner == IMPORTED:  # of which nothing was promised, and no rounds are known
        output.table(title, columns[:5] + columns[6:], (row[:5] + row[6:] for row in map(_cells, found)))
        return
    output.table(f"{title}, rank correlation with the promised", columns, map(_cells, found))
    if run.refused:
        rows = ((one.group, one.mapping, str(one.count), one.because) for one in run.refused)
        output.table("Mappings that are not searched", ("group", "mapping", "count>", "because"), rows)
    spent = Counter[str]()
    for one in rounds:
        spent[one.group] += one.attempts
    where = ", ".join(f"{name} {count}" for name, count in spent.most_common())
    output.say(f"{plural(len(rounds), 'round')}; attempts of each group: {where}" if where else "no round ended")


def _cells(one: MappingResult) -> tuple[str, ...]:
    """A row about one mapping, with the three dimensions that explain most of its times."""
    correlation = "" if math.isnan(one.correlation) else f"{one.correlation:.2f}"
    dearest = sorted(one.importance.items(), key=lambda each: -each[1])[:3]
    importance = ", ".join(f"{name} {percent(part)}" for name, part in dearest if part > 0)
    failed = str(sum(one.failures.values()))
    return one.group, one.mapping, str(one.attempts), failed, _best(one.best), correlation, importance


def _best(best: Attempt | None) -> str:
    """ "12.4 µs", with the 20th and 80th percentile where it was measured: "12.4 µs (12.1 to 13.0)"."""
    if best is None or best.microseconds is None:
        return ""
    spread = f" ({figure(best.low)} to {figure(best.high)})" if best.low and best.high else ""
    return duration(best.microseconds) + spread
