"""The best program of each group of a run: the fastest by its last comparable times, without wrong ones.

The running search and readers of its records use the same rules.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.records.nodes import SEARCHED, TIMED_AGAIN, Attempt, Round, Run

FINALISTS = 10
"""Fastest programs of a group that are timed again in the end."""
REPEATED = "attempt "
"""Before the number of an attempt, in the figures of a round that timed several again."""


@dataclass(frozen=True, slots=True)
class Winner:
    """The best of one group that became faster."""

    attempt: Attempt
    microseconds: float
    """The last comparable time, of the run's origin."""
    before: float
    """Under the recipe that the search started from; infinite where that did not run."""


def ranking(timed: Iterable[Attempt], again: Mapping[int, float]) -> list[Attempt]:
    """The best attempts of a group, fastest first.

    timed: those that have a time and did not prove wrong.  again: microseconds of attempts, by number, that were timed
    beside each other; where there are any, only they are comparable.
    """
    if not again:
        return heapq.nsmallest(FINALISTS, timed, key=speed)
    by_number = {one.number: one for one in timed}
    return [by_number[number] for number in sorted(again, key=lambda n: (again[n], n)) if number in by_number]


def speed(attempt: Attempt) -> tuple[float, int]:
    """Faster comes first, of equal ones the earlier."""
    return math.inf if attempt.microseconds is None else attempt.microseconds, attempt.number


def winners(run: Run, attempts: Iterable[Attempt], rounds: Sequence[Round]) -> dict[str, Winner]:
    """Of each group that became faster its best program.

    attempts: at least the FINALISTS fastest of each group.  rounds: all decisions of the run.
    """
    timed: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.mapping and attempt.microseconds is not None and not attempt.failure:
            timed[attempt.group].append(attempt)
    again, before = _repeated_times(rounds), {task.group: task.before for task in run.tasks}
    found: dict[str, Winner] = {}
    for group, was in before.items():
        best = next(iter(ranking(timed[group], again.get(group, {}))), None)
        if best is not None and best.microseconds is not None:
            microseconds = again.get(group, {}).get(best.number, best.microseconds)
            if microseconds < was:
                found[group] = Winner(best, microseconds, was)
    return found


def _repeated_times(rounds: Iterable[Round]) -> dict[str, dict[int, float]]:
    """Times of attempts that were timed again, by group; none where the search of the group went on afterwards."""
    found: dict[str, dict[int, float]] = {}
    for one in rounds:
        if one.kind == TIMED_AGAIN:
            figures = {name.removeprefix(REPEATED): figure for name, figure in one.figures.items()}
            found[one.group] = {int(number): figure for number, figure in figures.items()}
        elif one.kind == SEARCHED:
            found.pop(one.group, None)
    return found
