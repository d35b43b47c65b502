"""Every strategy by the name that a user gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from engine.tuning.evolution import evolutionary
from engine.tuning.learned import gaussian_process
from engine.tuning.strategy import ProgramSpace, Strategy, at_random, by_model, exhaustive

STRATEGIES: Mapping[str, Callable[[ProgramSpace, random.Random], Strategy]] = {
    "learned": gaussian_process,
    "model": by_model,
    "evolution": evolutionary,
    "random": at_random,
    "exhaustive": exhaustive,
}
"""The default first."""
