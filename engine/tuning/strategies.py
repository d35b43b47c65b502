"""Every strategy by the name that a user gives."""

from __future__ import annotations

import random
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.tuning.strategy import ProgramSpace, Strategy

STRATEGIES: Mapping[str, str] = {
    "learned": "engine.tuning.learned:gaussian_process",
    "model": "engine.tuning.strategy:by_model",
    "evolution": "engine.tuning.evolution:evolutionary",
    "random": "engine.tuning.strategy:at_random",
    "exhaustive": "engine.tuning.strategy:exhaustive",
}
"""Name -> the function that makes it, imported when it is used, as the window lists only names.  The default first."""

BLIND = ("random", "exhaustive")
"""Those that ask no model: they try what they are given, whatever is promised of the rest."""


def make_strategy(name: str, space: ProgramSpace, rng: random.Random) -> Strategy:
    """The strategy of that name in a space of programs."""
    module, _, function = STRATEGIES[name].partition(":")
    made: Strategy = getattr(import_module(module), function)(space, rng)
    return made
