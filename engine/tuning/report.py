"""What a search came to, as plain values: of each group, of all, and as text, JSON and HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.kernels.space import Program, Task
from engine.records.nodes import INTERRUPTED
from engine.support.html import html_table
from engine.support.serialization import to_json
from engine.support.text_table import text_table
from engine.tuning.final_validation import AGREES
from engine.tuning.progress import Progress, program_of
from engine.tuning.search import Search

NOT_BEGUN = "no round came to it"
"""What is told of a group that a search ended before, or has not reached."""


@dataclass(frozen=True, slots=True)
class TunedGroup:
    """What a search found for one group."""

    group: str
    before: float | None
    """Microseconds of one launch under the recipe that the search started from; None where that failed."""
    best: float | None
    """Microseconds of the fastest program; None where none ran."""
    program: Program | None
    """That program."""
    note: str
    """What its comparison with the reference said; "" without one."""
    trials: int
    reused: int
    """Trials whose results the records held."""
    failures: Mapping[str, int]
    """By their kind."""
    funnels: Mapping[str, Mapping[str, Any]]
    """Of each mapping: programs in "total", what each rule "dropped", programs "left"."""

    @property
    def is_faster(self) -> bool:
        """Whether the fastest program beats the recipe that the search started from."""
        return self.best is not None and (self.before is None or self.best < self.before)

    @property
    def time(self) -> float | None:
        """Microseconds under the recipe that the search gives: never more than before."""
        return self.best if self.is_faster else self.before

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Mappings, their programs, and those that were left after pruning."""
        funnels = self.funnels.values()
        return len(self.funnels), sum(one["total"] for one in funnels), sum(one["left"] for one in funnels)


@dataclass(frozen=True, slots=True)
class TuningReport:
    """What a search found, how it ended, and where its trials are kept.  Prints as a table.

    Times are of one launch of each group, all of one origin.
    """

    run: int
    """Its number in the records."""
    origin: str
    """Of the times: "predicted" by the model, or "measured" on a GPU."""
    ended: str
    """Why nothing more is tried; "" while the search goes on."""
    trials: int
    repeated: int
    """Trials that were run though another process had kept them meanwhile."""
    records: str
    groups: Mapping[str, TunedGroup]
    skipped: Mapping[str, str]
    """Groups that are not searched, and why."""

    @property
    def failures(self) -> Counter[str]:
        """Failed attempts of all groups, by their kind."""
        return sum((Counter(one.failures) for one in self.groups.values()), Counter[str]())

    @property
    def reused(self) -> int:
        """Attempts whose results the records held."""
        return sum(one.reused for one in self.groups.values())

    @property
    def notes(self) -> dict[str, str]:
        """What is to be said of the best of each group that became faster, where it is not that it was found right."""
        faster = {name: one.note or "not checked" for name, one in self.groups.items() if one.is_faster}
        return {name: note for name, note in faster.items() if note != AGREES}

    def to_json(self) -> dict[str, Any]:
        """Plain data, as `loomscope tune --json` prints it."""
        best = {name: self._best(one) for name, one in self.groups.items() if one.program is not None}
        return {
            "run": self.run, "origin": self.origin, "ended": self.ended or "interrupted", "best": best,
            "trials": self.trials, "failures": dict(self.failures), "reused": self.reused, "repeated": self.repeated,
            "funnels": {name: dict(one.funnels) for name, one in self.groups.items()}, "skipped": dict(self.skipped),
            "unchecked": {name: note for name, note in self.notes.items() if "not checked" in note},
            "records": self.records,
        }  # fmt: skip

    def _best(self, one: TunedGroup) -> dict[str, Any]:
        return {
            "microseconds": one.best, "before": one.before, "origin": self.origin, "program": to_json(one.program),
            "is_faster": one.is_faster, "note": one.note,
        }  # fmt: skip

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """(group, trials, microseconds before, microseconds now, program) of each group, for a table."""
        return [
            (one.group, str(one.trials), _figure(one.before), _figure(one.time),
             str(one.program) if one.is_faster else "as it was")
            for one in self.groups.values()
        ]  # fmt: skip

    @property
    def columns(self) -> tuple[str, ...]:
        """Of a table of `rows`."""
        return "group", "trials>", f"before, µs ({self.origin})>", f"best, µs ({self.origin})>", "program"

    @property
    def ending(self) -> str:
        """How it ended, and where its trials are."""
        return f"{self.ended or 'going on'}: run {self.run} in {self.records}"

    def __str__(self) -> str:
        lines = [text_table(self.columns, self.rows())]
        lines += [f"{name}: {why}" for name, why in (*self.notes.items(), *self.skipped.items())]
        return "\n".join([*lines, self.ending])

    def _repr_html_(self) -> str:
        rows = self.rows()
        return html_table(self.ending, self.columns, rows, len(rows))


def report_of(search: Search) -> TuningReport:
    """The state of a search now."""
    # A runner that needs the graph compared every trial with the reference before its time counted.
    compared = AGREES if search.runner.needs_graph else ""
    groups = {name: _tuned_group(name, one, compared) for name, one in search.progress.items()}
    store, ended = search.log.store, INTERRUPTED if search.was_interrupted else search.why_ended
    return TuningReport(
        search.log.number, search.runner.origin, ended, search.spent, search.repeated, str(store.path),
        groups, search.skipped | dict.fromkeys(search.pending, NOT_BEGUN),
    )  # fmt: skip


def _tuned_group(name: str, one: Progress, compared: str) -> TunedGroup:
    winner = one.winner
    return TunedGroup(
        name, _finite(one.before), _finite(one.time), None if winner is None else program_of(winner),
        one.note or (compared if winner else ""), one.trials, one.reused, dict(one.failures),
        {task.name: _funnel(task) for task in one.problem.tasks},
    )  # fmt: skip


def _funnel(task: Task) -> dict[str, Any]:
    dropped = {d.rule: d.count for d in task.funnel.dropped}
    return {"total": task.funnel.total, "dropped": dropped, "left": len(task.programs)}


def _finite(microseconds: float) -> float | None:
    return microseconds if microseconds < float("inf") else None


def _figure(microseconds: float | None) -> str:
    return "failed" if microseconds is None else f"{microseconds:.2f}"
