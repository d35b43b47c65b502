"""What the panels of a tuning run show besides its trials: plain values, ready to paint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.documents.comparison import GroupComparison
from engine.documents.model import ProblemDoc

RUNNING, PAUSED, STOPPED, FINISHED, INTERRUPTED = "running", "paused", "stopped", "finished", "interrupted"
STARTING, STOPPING = "starting", "stopping"
"""States that only the window knows: the process has not answered yet."""


@dataclass(frozen=True, slots=True)
class Status:
    """The run itself: what it does, how far it is, what can be asked of it."""

    title: str
    """ "Tuning bert_tiny"."""
    state: str
    done: int
    """Trials."""
    total: int
    """Trials allowed; 0 where it is unknown."""
    left: str
    """ "about 12 min left", or ""."""
    facts: tuple[tuple[str, str], ...]
    """(name, value): strategy, runner, records, process."""
    problem: ProblemDoc | None = None
    """Why it ended, where it did not end by itself."""
    message: str = ""
    """Why it ended, in the words of its process."""
    is_last: bool = True
    """Of its file: only the last run can be started again."""

    @property
    def is_live(self) -> bool:
        """Whether a process works for it or waits to."""
        return self.state in (RUNNING, PAUSED, STARTING, STOPPING)


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """One group of the run in a line."""

    title: str
    origin: str
    """ "predicted", "measured" or "synthetic": of every time of the run."""
    before: float
    """Microseconds under the recipe that the run began with; 0 where it is not known."""
    best: float
    """Microseconds; infinite while nothing ran."""
    number: int
    """Of the best trial; 0 while there is none."""
    trials: int
    rounds: int
    failed: int

    @property
    def gain(self) -> float:
        """Part of the time before that the best trial saves."""
        return 1 - self.best / self.before if self.before and self.number else 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    """One step of the funnel: what is left after a rule."""

    rule: str
    left: int
    because: str = ""
    """What the rule is about."""
    example: str = ""
    """The first of what it took."""


@dataclass(frozen=True, slots=True)
class TrialShare:
    """Where rounds went: one group, or one mapping inside a group."""

    key: str
    title: str
    rounds: tuple[int, ...]
    """Their numbers in the run."""
    gain: float
    """Part of the time before that was saved."""
    because: tuple[str, ...] = ()
    """The last decisions, with the figures that they were made of."""
    parts: tuple[TrialShare, ...] = ()
    """The mappings of a group, those that are not searched last."""
    refused: str = ""
    """Why a mapping is not searched; "" where it is."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Failures of one kind."""

    kind: str
    count: int
    example: str
    wrong: bool = False
    """Whether a kernel gave a wrong result: the only failures that are coloured."""


@dataclass(frozen=True, slots=True)
class Importance:
    """How much of the spread of the times one dimension explains."""

    dimension: str
    part: float
    """0..1, of the variance of the logarithm of the time."""
    best: str
    """Value of the best trial."""
    values: int
    """Values that were tried."""


@dataclass(frozen=True, slots=True)
class RunChoice:
    """A run that may be shown, or compared with."""

    number: int
    """In its file; 0 where it is of another file than the others."""
    text: str
    """ "Run 3, 29 Nov 2026 18:59, evolution, finished"."""


@dataclass(frozen=True)
class RunCurve:
    """What one run found of one group in the course of its trials."""

    name: str
    """Of the run: "run 3"."""
    origin: str
    best: NDArray[np.float64]
    """The fastest so far after each trial, microseconds; NaN until there is one."""
    reached: int | None
    """Number of the trial that was as fast as the slower of both runs' bests; None where they do not compare."""


@dataclass(frozen=True, slots=True)
class ComparedGroup:
    """A group of one run beside that of another."""

    key: str
    title: str
    found: GroupComparison
