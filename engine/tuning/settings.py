"""Settings of a search, and what it works with."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from engine.tuning.control import Clock
from engine.tuning.executors import Workers, here
from engine.tuning.final_validation import Judge
from engine.tuning.nodes import DEFAULT_STRATEGY, SearchLimits
from engine.tuning.runner import PredictedRunner, Runner


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


@dataclass(frozen=True, slots=True)
class SearchTools:
    """What runs and judges programs."""

    workers: Workers = field(default_factory=here)
    judge: Judge = field(default_factory=Judge)
    clock: Clock = time.monotonic
