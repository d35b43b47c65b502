"""What a search is told."""

from __future__ import annotations

import math
from dataclasses import dataclass

DEFAULT_STRATEGY = "model"
"""What the model of the pipeline promises most is tried first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a search ends."""

    trials: int = 64
    """For each subgraph on average."""
    minutes: float = math.inf
    patience: int = 8
    """Rounds without gain after which a subgraph gets no more."""
