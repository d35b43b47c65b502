"""What `loomscope trials --against` prints: two runs beside each other, group by group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.cli import output
from engine.documents.comparison import GroupComparison
from engine.records.nodes import Attempt, Run
from engine.records.reader import RunReader
from engine.support.errors import BadInput
from engine.support.serialization import to_json
from engine.tuning.comparison import GroupTrials, Pair, compare, pair_groups
from views.format import duration


@dataclass(frozen=True)
class RunTrials:
    """One run with all that it tried."""

    records: Path
    run: Run
    attempts: Sequence[Attempt]

    @property
    def name(self) -> str:
        """ "run 2 of night.db (evolution, predicted, h100)"."""
        request = self.run.request
        facts = ", ".join(filter(None, (request.method, request.origin, request.target)))
        return f"run {self.run.number} of {self.records.name} ({facts})"


def other_run(own: RunTrials, against: str) -> RunTrials:
    """The run to compare with: a number of one of the same file, or another file, whose last run it is.

    Raises BadInput where there is none, and for the own run itself.
    """
    number = int(against) if against.isdecimal() and not Path(against).exists() else None
    records = own.records if number is not None else Path(against)
    with RunReader(records) as reader:
        run = reader.run(number)
        if run.number == own.run.number and records.resolve() == own.records.resolve():
            hint = "give the number of another run of the file, or another file"
            raise BadInput("command line", f"--against {against}", "would compare a run with itself", hint)
        return RunTrials(records, run, reader.attempts(run.number))


def comparisons(own: RunTrials, other: RunTrials) -> tuple[tuple[Pair, GroupComparison], ...]:
    """Each pair of groups with what the runs found of it."""
    of_own, of_other = _by_group(own), _by_group(other)
    pairs = pair_groups(tuple(of_own), tuple(of_other))
    return tuple((pair, compare(of_own.get(pair[0] or ""), of_other.get(pair[1] or ""))) for pair in pairs)


def _by_group(of: RunTrials) -> dict[str, GroupTrials]:
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    for one in of.attempts:
        attempts[one.group].append(one)
    return {name: _group_trials(of.run.request.origin, mine) for name, mine in attempts.items()}


def _group_trials(origin: str, attempts: Sequence[Attempt]) -> GroupTrials:
    times = np.array([np.nan if one.failure or one.microseconds is None else one.microseconds for one in attempts])
    best = None if np.isnan(times).all() else attempts[int(np.nanargmin(times))]
    program = {"mapping": best.mapping, **{name: str(value) for name, value in best.values}} if best else {}
    return GroupTrials(origin, times, program)


def show_comparisons(own: RunTrials, other: RunTrials, found: Sequence[tuple[Pair, GroupComparison]]) -> None:
    """Print a row for each group, and in what the best programs differ."""
    columns = ("group", "best>", "of>", "other best>", "of>", "other / own>", "trials until the slower best")
    output.table(f"R{own.name[1:]}, and {other.name}", columns, (_cells(pair, one) for pair, one in found))
    rows = ((_title(pair), each.name, each.own, each.other) for pair, one in found for each in one.differences)
    if any(one.differences for _, one in found):
        output.table("Where the best programs differ", ("group", "dimension", "own", "other"), rows)


def _title(pair: Pair) -> str:
    own, other = pair
    return own or other or "" if own == other or None in pair else f"{own}, {other}"


def _cells(pair: Pair, one: GroupComparison) -> tuple[str, ...]:
    sides = (cell for side in (one.own, one.other) for cell in _side(side.best, side.trials))
    if one.ratio is None:
        return _title(pair), *sides, "", one.why_not
    return _title(pair), *sides, f"{one.ratio:.3f}", f"{one.own.reached or '-'} and {one.other.reached or '-'}"


def _side(best: float | None, trials: int) -> Iterator[str]:
    yield duration(best) if best is not None else ""
    yield f"{trials}" if trials else ""


def comparison_document(other: RunTrials, found: Sequence[tuple[Pair, GroupComparison]]) -> dict[str, Any]:
    """The same as plain data."""
    request = other.run.request
    return {
        "records": str(other.records), "run": other.run.number, "strategy": request.strategy, "origin": request.origin,
        "groups": [{"own_group": own, "other_group": their, "found": to_json(one)} for (own, their), one in found],
    }  # fmt: skip
