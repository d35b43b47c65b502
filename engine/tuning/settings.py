"""Settings of a search: strategy, runner, limits, and the workers and judge that it uses."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from engine.tuning.control import Clock
from engine.tuning.executors import Workers, here
from engine.tuning.final_validation import Judge
from engine.tuning.known_starts import Starts, no_starts
from engine.tuning.runner import PredictedRunner, Runner

DEFAULT_TRIALS = 64
"""For each subgraph, on average."""
DEFAULT_PATIENCE = 8
"""Rounds without gain after which a subgraph gets no more."""
LEAST_GAIN = 0.001
"""Part of the model's time that groups may leave unsaved together before they get no more rounds."""
DEFAULT_STRATEGY = "learned"
"""Ranked by the model at first, by a correction learned from the trials later."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """When a search ends."""

    trials: int = DEFAULT_TRIALS
    minutes: float = math.inf
    round: int = 16
    """Most trials of one round; the next one is placed by what this one found."""
    patience: int = DEFAULT_PATIENCE
    least_gain: float = 0.0
    """Part of the model's time that further rounds have to promise; 0 where all trials are to be spent."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How programs are chosen and run, and when the search ends."""

    strategy: str = DEFAULT_STRATEGY
    runner: Runner = field(default_factory=PredictedRunner)
    limits: SearchLimits = field(default_factory=SearchLimits)
    seed: int = 0
    source: str = ""
    """The file, shown to whoever reads the run."""
    resume: bool = False
    """Whether to continue the last run of the records."""
    start: str = ""
    """Path of the file that `starts` are read of; "" for none, or for that of the run to continue."""
    starts: Starts = no_starts
    """What is tried first of each group."""


@dataclass(frozen=True, slots=True)
class SearchTools:
    """What runs and judges programs."""

    workers: Workers = field(default_factory=here)
    judge: Judge = field(default_factory=Judge)
    clock: Clock = time.monotonic
