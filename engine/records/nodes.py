"""Values of the records file: trials, and the runs that tried them.

A trial is a result (a time with its origin, or a failure with its kind) and everything that it depends on; a run keeps
every attempt and every decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.execution.nodes import MEASURED, PREDICTED, SYNTHETIC, Failure, Timing
from engine.support.cache import digest

ORIGINS = (MEASURED, PREDICTED, SYNTHETIC)


@dataclass(frozen=True, slots=True)
class Subject:
    """Everything that a result depends on: two trials with equal subjects are one.

    Group names, recipes and reasons are left out, and so are clocks and temperatures, which belong to the environment
    of a time.
    """

    kernel: str
    """Digest of the kernel's text."""
    launch: str
    """Grid, block and shared bytes, as text."""
    inputs: str
    """Shapes and element types of the arrays, and the seed of their values."""
    target: str
    """Name of the GPU description."""
    compiler: str
    """Name and version of what compiled the text, or of the model that predicted it."""
    flags: tuple[str, ...] = ()

    @staticmethod
    def of(text: str, launch: str, inputs: str, target: str, compiler: str, flags: tuple[str, ...] = ()) -> Subject:
        """The subject of a kernel given by its text."""
        return Subject(digest(text), launch, inputs, target, compiler, flags)

    @property
    def key(self) -> str:
        """Digest of all fields, by which a trial is found."""
        parts = (self.kernel, self.launch, self.inputs, self.target, self.compiler, *self.flags)
        return digest(*parts)


@dataclass(frozen=True, slots=True)
class Trial:
    """One result, identified by subject and origin."""

    subject: Subject
    origin: str
    """"measured", "predicted" or "synthetic": of a time, or of what would have given it."""
    outcome: Timing | Failure
    group: str = ""
    """Name of the group it was run for: for people."""
    recipe: str = ""
    """JSON of the recipe that gave the kernel; "" where it is not known."""
    because: str = ""
    """Why it was tried."""

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise ValueError(f"{self.origin!r} is no origin of a time")
        if isinstance(self.outcome, Timing) and self.outcome.origin != self.origin:
            raise ValueError(f"a {self.outcome.origin} time among {self.origin} trials")

    @property
    def microseconds(self) -> float | None:
        """The time; None for a failure."""
        return self.outcome.microseconds if isinstance(self.outcome, Timing) else None


RUNNING, PAUSED, STOPPED, FINISHED, INTERRUPTED = "running", "paused", "stopped", "finished", "interrupted"
"""States of a run: the last three ended.  A run that was killed still says "running": see `Run.state_at`."""
GO, PAUSE, STOP = "run", "pause", "stop"
"""Requests of the user to a run: continue, pause, stop."""
WISHES = (GO, PAUSE, STOP)
IMPORTED = "imported"
"""The runner of a run that another tuner made: its log was read."""
NEW, REUSED, FAILED = "new", "reused", "failed"
"""States of an attempt: run now, known before, or without a time (of which a known failure is one)."""
BEAT, SILENCE = 0.5, 5.0
"""Seconds between heartbeats of a run, and without one after which it counts as dead."""

SEARCHED, CHECKED, TIMED_AGAIN = "search", "check", "again"
"""Kinds of rounds: trials of a group, the comparison of candidates with the reference, the last interleaved timing."""


@dataclass(frozen=True, slots=True)
class Request:
    """Arguments of a run: enough to start it again."""

    source: str
    """The file, or the row of a suite."""
    target: str
    strategy: str
    runner: str
    """"predicted", "measured", "replayed" or "imported"."""
    origin: str
    """Of every time of the run."""
    trials: int
    """For each group on average; 0 where that is not known."""
    minutes: float | None = None
    seed: int = 0
    groups: tuple[str, ...] = ()
    """Names of the groups that the search is asked for; `Run.skipped` has those that turned out to have no choices."""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    """Sizes of symbolic dimensions."""
    recipe: str = ""
    """JSON of the recipe that the search starts from."""
    start: str = ""
    """Path of the recipe or of the records whose programs are tried first; "" for none."""

    @property
    def method(self) -> str:
        """The strategy, and the name of what it starts from: "learned", or "learned from night.db"."""
        return " from ".join(filter(None, (self.strategy, Path(self.start).name)))


@dataclass(frozen=True, slots=True)
class Dropped:
    """Programs of one task that one pruning rule removed."""

    rule: str
    because: str
    count: int
    example: str
    """Its figures for the first one; "" where it dropped none."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One task of a run: its search space, and how many programs pruning left."""

    group: str
    mapping: str
    dimensions: Mapping[str, tuple[int | str, ...]]
    """Name -> its ordered choices."""
    total: int
    sieved: tuple[Dropped, ...]
    """In the order in which the rules were asked."""
    left: int
    before: float
    """Microseconds of the group under the recipe that the search started from, of the run's origin; inf if unknown."""
    instances: int = 1
    """Launches of the group in the model."""


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A mapping of a group that a run does not search."""

    group: str
    mapping: str
    because: str
    count: int
    """Mappings of this name that are refused for this reason; 0 where an intrinsic has none at all."""


@dataclass(frozen=True, slots=True)
class Run:
    """One search, as its process keeps it up to date."""

    number: int
    started: str
    """UTC; "" for a log of another tuner."""
    state: str
    wish: str
    host: str
    pid: int
    heartbeat: float
    """Seconds since 1970 at the last heartbeat."""
    request: Request
    tasks: tuple[TaskRecord, ...]
    skipped: Mapping[str, str]
    """Groups that are not searched, and why."""
    message: str
    """Why it ended; "" while it runs."""
    refused: tuple[RefusedRecord, ...] = ()
    """Mappings of groups that are searched which are not, and why."""

    def state_at(self, now: float) -> str:
        """The state at a time (seconds since 1970): a run without a heartbeat for SILENCE was interrupted."""
        is_silent = self.state in (RUNNING, PAUSED) and now - self.heartbeat > SILENCE
        return INTERRUPTED if is_silent else self.state


@dataclass(frozen=True, slots=True)
class Attempt:
    """One program that a run tried: a row of its table, without the recipe."""

    number: int
    """From 1 in each run."""
    trial: int | None
    """Number of the kept trial; None where there is no kernel, or nothing was recorded."""
    group: str
    mapping: str
    values: tuple[tuple[str, int | str], ...]
    """Of each open dimension."""
    promised: float
    """Microseconds by the analytical model, before anything was compiled; infinite where it has no estimate."""
    state: str
    """"new", "reused" or "failed"."""
    microseconds: float | None
    """The time, of the run's origin; None for a failure."""
    failure: str
    """Its kind; "" for a time."""
    message: str
    """Of the failure, or where the time is noisy why."""
    seconds: float
    """Of the run, without pauses, when it finished."""
    worker: str = ""
    """Which process ran it; "" for the run's own."""
    low: float | None = None
    """20th percentile of the samples that `microseconds` is the median of; None where it has none."""
    high: float | None = None
    """80th percentile."""


@dataclass(frozen=True, slots=True)
class Round:
    """One decision of a run, with the figures that it is based on."""

    number: int
    """From 1 in each run."""
    kind: str
    """"search", "check" or "again"."""
    group: str
    mapping: str
    """"" where the decision was about the whole group."""
    reason: str
    figures: Mapping[str, float]
    """By name; infinite where there is none yet."""
    best: float
    """Of the group after the round, in microseconds; infinite while nothing ran."""
    attempts: int = 0
    """How many it took."""
    seconds: float = 0.0
    """Of the run, when it ended."""
