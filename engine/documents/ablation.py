"""Results of an ablation: each entry of a recipe removed in turn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlipDoc:
    """One entry taken back: the one that stood there before comes again, or none."""

    entry: str
    author: str
    because: str
    before: str
    """The entry that comes again; "" where there was none."""
    microseconds: float | None
    """Without the entry; None where no kernel follows then."""
    gain: float | None
    """Microseconds that the entry saves; negative where it costs some."""
    why_not: str
    """Why there is no kernel without it."""


@dataclass(frozen=True, slots=True)
class AblationDoc:
    """Every entry of one group's recipe taken back in turn, the most worthwhile first."""

    group: str
    origin: str
    """Of all times."""
    microseconds: float
    """With all entries."""
    flips: tuple[FlipDoc, ...]
