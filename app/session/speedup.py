"""What one time saves against another: only within one origin and device, and measured ones only where it is sure."""

from __future__ import annotations

from dataclasses import dataclass

from engine.documents.model import Time
from engine.execution.statistics import FASTER, SLOWER, compare, in_rounds


@dataclass(frozen=True, slots=True)
class Speedup:
    """A part of a time that is saved."""

    part: float
    """Of the time before; negative for a loss."""
    sure: bool
    """Whether the difference is more than noise; a modelled one always is."""
    because: str
    """What the samples say: "-5.0 %, 95 % between -6.0 % and -4.1 %"; "" for a modelled time."""


def speedup(now: Time, before: Time) -> Speedup | None:
    """The gain from `before` to `now`; None where they are of other origins or devices."""
    if (now.origin, now.device) != (before.origin, before.device) or before.microseconds <= 0:
        return None
    part = (before.microseconds - now.microseconds) / before.microseconds
    if not (now.samples and before.samples):
        return Speedup(part, True, "")
    found = compare(in_rounds(before.samples, before.rounds), in_rounds(now.samples, now.rounds))
    return Speedup(part, found.verdict in (FASTER, SLOWER), found.because)
