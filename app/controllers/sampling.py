"""One run of samples as it grows, and what it says beside another."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.documents.model import Time
from engine.execution.statistics import TimeSummary, compare, in_rounds, summarise
from views.timing.live import GpuReading, SampleComparison, Series

GROWTH = 1.05
"""A run is summed up anew once it has grown so much: summing up takes longer the longer it is."""
NOTHING = TimeSummary(0.0, 0.0, 0.0, "")


@dataclass
class SampleRun:
    """Samples of one kernel on one device, in the order in which they come."""

    title: str
    row: str
    """What is measured; runs of one row may be compared."""
    origin: str
    device: str = ""
    date: str = ""
    rounds: int = 0
    """Of equal length, once all samples have come; 0 where it is not known."""
    total: int = 0
    """Samples that will have come in the end; 0 where nobody knows."""
    samples: array[float] = field(default_factory=lambda: array("d"))
    looks: list[GpuReading] = field(default_factory=list)
    _summed: tuple[int, TimeSummary] = (0, NOTHING)

    @classmethod
    def of(cls, title: str, row: str, time: Time, looks: tuple[GpuReading, ...] = ()) -> SampleRun:
        """A whole run."""
        run = cls(title, row, time.origin, time.device, time.date, time.rounds, len(time.samples))
        run.samples.extend(time.samples)
        run.looks.extend(looks)
        return run

    @property
    def is_whole(self) -> bool:
        """Whether all samples have come."""
        return 0 < self.total <= len(self.samples)

    def look(self, clock: float, temperature: float) -> None:
        """Notes the state of the GPU after the samples so far."""
        self.looks.append(GpuReading(len(self.samples), clock, temperature))

    def series(self) -> Series:
        """The run as the window shows it now."""
        found = self._summary()
        return Series(
            self.title, self.origin, self.device, self.date, self.samples, found.median, found.low, found.high,
            found.noise, tuple(self.looks), self.total,
        )  # fmt: skip

    def against(self, baseline: SampleRun) -> SampleComparison | None:
        """What this run changes; None where the two cannot be compared: of other origins or devices, or empty."""
        same = (self.origin, self.device) == (baseline.origin, baseline.device)
        if not (same and self.samples and baseline.samples):
            return None
        together = self.row == baseline.row and self.rounds > 0 and self.date == baseline.date
        sides = (baseline._in_rounds(), self._in_rounds())
        found = compare(*sides, interleaved=together and self.is_whole)
        return SampleComparison(1 - found.ratio, found.verdict, found.because)

    def _in_rounds(self) -> list[Sequence[float]]:
        return in_rounds(self.samples, self.rounds if self.is_whole else 0)

    def _summary(self) -> TimeSummary:
        """Summed up when the run has grown enough, and when it is whole."""
        count, known = self._summed
        now = len(self.samples)
        if now and (now > count * GROWTH or (self.is_whole and now > count)):
            known = summarise(self.samples, [look.clock for look in self.looks])
            self._summed = now, known
        return known
