"""What a search is told."""

from __future__ import annotations

import math
from dataclasses import dataclass

DEFAULT_STRATEGY = "learned"
"""The model first, then what trials taught."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """When a search ends."""

    trials: int = 64
    """For each subgraph on average."""
    minutes: float = math.inf
    round: int = 16
    """Trials of one round, at most: what is learned after it decides where the next goes."""
    patience: int = 8
    """Rounds without gain after which a subgraph gets no more."""
