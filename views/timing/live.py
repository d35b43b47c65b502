"""What the live page shows: one series of samples, the baseline beside it, and what came of comparing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One look at the GPU while it worked."""

    at: int
    """Samples that had been taken before it."""
    clock: float
    """Of the SMs, MHz."""
    temperature: float
    """Degrees Celsius."""


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one kernel on one device, and what they say so far."""

    title: str
    origin: str
    """ "measured" or "synthetic"; a series never mixes them."""
    device: str
    date: str
    samples: Sequence[float]
    """Microseconds, in the order in which they came."""
    median: float
    low: float
    """20th percentile."""
    high: float
    """80th percentile."""
    noise: str = ""
    """Why the samples say little; "" for a quiet run."""
    looks: Sequence[GpuReading] = ()
    total: int = 0
    """Samples that will have come in the end; 0 where nobody knows."""


@dataclass(frozen=True, slots=True)
class SampleComparison:
    """A series against its baseline."""

    gain: float
    """Part of the baseline's time that is saved; negative for a loss."""
    verdict: str
    """ "faster", "slower", "no significant change" or "too few samples"."""
    because: str

    @property
    def is_sure(self) -> bool:
        """Whether there is a difference worth a sign."""
        return self.verdict in ("faster", "slower")


@dataclass(frozen=True, slots=True)
class Live:
    """One moment of the live page."""

    series: Series
    baseline: Series | None = None
    baseline_title: str = ""
    """What the baseline is: "step 2 of the history", "these samples' first run"."""
    comparison: SampleComparison | None = None


@dataclass(frozen=True, slots=True)
class Deck:
    """The replay controls: what plays, how fast, how far."""

    file: str
    rows: tuple[str, ...]
    row: int
    speed: int
    """Samples a second."""
    playing: bool
    position: int
    """Samples that have been shown."""
    total: int
