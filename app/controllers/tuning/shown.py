"""A tuning run as far as it has been read, and the texts that the panels show of it."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from app.controllers.tuning.figures import groups_of, summary
from app.controllers.tuning.follower import Follower, RunUpdate
from engine.documents.model import ModelDoc, ProblemDoc
from engine.records.nodes import IMPORTED, PAUSED, RUNNING, Round, Run
from views.format import plural
from views.hierarchy import group_title
from views.tuning.nodes import STARTING, STOPPING, GroupProgress, Status
from views.tuning.trials import Rows, Trials

RECENT = 40
"""Looks at a run over which its pace is taken."""


@dataclass(slots=True)
class Shown:
    """Grows with every update; `overlay` is a state that only the window knows."""

    path: Path
    follower: Follower
    trials: Trials
    run: Run | None = None
    runs: tuple[Run, ...] = ()
    """All of its file, the oldest first."""
    rounds: list[Round] = field(default_factory=list)
    examples: dict[tuple[str, str], str] = field(default_factory=dict)
    condemned: int = 0
    """Trials that proved wrong after they had been timed."""
    overlay: str = ""
    problem: ProblemDoc | None = None
    is_complete: bool = False
    """Whether everything that was written has been read."""
    _pace: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RECENT))

    @staticmethod
    def of(path: Path, follower: Follower) -> Shown:
        """A run of which nothing is known yet."""
        return Shown(path, follower, Trials(follower.words))

    def take(self, update: RunUpdate) -> None:
        """Takes in what came."""
        self.run, self.runs = update.run, update.runs
        self.trials.append(update.batch)
        for row, kind in update.condemned:
            self.trials.condemn(row, kind)
        self.condemned = len(update.condemned)
        self.rounds += update.rounds
        self.examples = update.examples
        self.is_complete = update.is_complete
        self._pace.append((time.monotonic(), len(self.trials)))
        state = update.run.state_at(time.time())
        has_stopped, has_started = state not in (RUNNING, PAUSED), state == RUNNING
        if (self.overlay == STOPPING and has_stopped) or (self.overlay == STARTING and has_started):
            self.overlay = ""

    @property
    def name(self) -> str:
        """What it is called beside other runs of its file."""
        return f"run {self.follower.number}"

    @property
    def is_last(self) -> bool:
        """Whether no run of its file is newer."""
        return not self.runs or self.follower.number >= self.runs[-1].number

    def is_same(self, other: Shown) -> bool:
        """Whether the other is this run."""
        return self.follower.number == other.follower.number and self.path.absolute() == other.path.absolute()

    @property
    def state(self) -> str:
        """What the run does, as far as the window knows."""
        return self.overlay or (self.run.state_at(time.time()) if self.run else STARTING)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that the search has come to, in the order of the plan."""
        return groups_of(self.run) if self.run else ()

    @property
    def searched(self) -> frozenset[str]:
        """The groups that are searched, or will be."""
        return frozenset(self.run.request.groups) - self.run.skipped.keys() if self.run else frozenset()

    @property
    def total(self) -> int:
        """Trials that are allowed."""
        return self.run.request.trials * len(self.searched) if self.run else 0

    def busiest(self) -> str:
        """The group that the last round went to, else the first; "" where there is none."""
        last = next((each.group for each in reversed(self.rounds) if each.group in self.groups), "")
        return last or next(iter(self.groups), "")

    def summary(self, group: str, rows: Rows, model: ModelDoc | None) -> GroupProgress:
        """One group in a line."""
        assert self.run is not None
        return summary(self.run, self.trials, rows, self.rounds, group, group_title(group, model))

    def trial(self, row: int) -> tuple[str, int, str]:
        """A trial's group, where its recipe is kept (0 for nowhere), and what it is called."""
        trials = self.trials
        return trials.text("group", row), int(trials.column("trial")[row]), f"Trial {int(trials.number[row]):,}"

    def status(self) -> Status:
        """The run in the panel's words."""
        run = self.run
        if run is None:
            return Status("Tuning", STARTING, 0, 0, "", (), self.problem)
        request = run.request
        facts = [("Strategy", request.strategy), ("Times", request.origin), ("Records", self.path.name)]
        if request.runner == IMPORTED:
            facts[0] = ("Tuner", request.strategy)
            facts += [("Target", request.target)] if request.target else []
        else:
            facts.append(("Process", f"{run.pid} on {run.host}"))
        facts += [("Start from", Path(request.start).name)] if request.start else []
        title, count = f"Tuning {Path(request.source).stem}", len(self.trials)
        return Status(
            title, self.state, count, self.total, self._time_left(), tuple(facts), self.problem, run.message,
            self.is_last,
        )  # fmt: skip

    def _time_left(self) -> str:
        """How long it will take at the present pace; "" where it cannot be estimated."""
        if self.state != RUNNING or len(self._pace) < 2 or self.run is None:
            return ""
        (first, before), (last, now) = self._pace[0], self._pace[-1]
        if now <= before or last <= first:
            return ""
        seconds = max(self.total - now, 0) * (last - first) / (now - before)
        return f"about {_rough_duration(seconds)} left" if math.isfinite(seconds) else ""


def _rough_duration(seconds: float) -> str:
    """ "12 min", "40 s"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return plural(round(seconds / 60), "min").removesuffix("s") if seconds < 5400 else f"{seconds / 3600:.1f} h"
