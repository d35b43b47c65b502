"""Axes of the plots: round ticks, and where a sample stands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
FEWEST = 20
"""Samples that the axis has room for from the start."""
INSET = 8.0
"""Pixels between the ends of the axis and the outermost dots."""


@dataclass(frozen=True, slots=True)
class SampleAxis:
    """Samples by number, from left to right."""

    left: float
    width: float
    room: int
    """Samples that fit."""

    def x(self, number: float) -> float:
        """Where a sample stands."""
        return self.left + INSET + number / max(self.room - 1, 1) * (self.width - 2 * INSET)


def sample_axis(area: QRectF, count: int, total: int) -> SampleAxis:
    """An axis for `count` samples of `total`; where the total is unknown, it doubles its room when it is full."""
    room = max(total, FEWEST)
    while not total and room < count:
        room *= 2
    return SampleAxis(area.x(), area.width(), max(room, count))


def round_step(span: float, most: int) -> float:
    """The smallest step of 1, 2, 2.5 or 5 times a power of ten that cuts `span` into at most `most` parts."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(step * power for step in STEPS if step * power * most >= span * (1 - 1e-9))


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round values between `low` and `high`, at most `most` + 1 of them."""
    step = round_step(high - low, most)
    first = math.ceil(low / step - 1e-9)  # a tick that falls on the border but for rounding is kept
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def limits(values: Sequence[float]) -> tuple[float, float]:
    """A range with some air around all values; never empty, never below zero."""
    low, high = min(values), max(values)
    spread = max(high - low, high * 0.02, 0.01)
    return max(low - spread * 0.3, 0.0), high + spread * 0.3


def columns(samples: Sequence[float], most: int) -> list[tuple[int, float]]:
    """The (number, sample) pairs that are drawn: all, or of each of many columns its first, lowest and highest.

    Extremes are never left out, so that an outlier is seen however many samples there are.
    """
    if len(samples) <= 3 * most:
        return list(enumerate(samples))
    shown: list[tuple[int, float]] = []
    for column in range(most):
        first, last = len(samples) * column // most, len(samples) * (column + 1) // most
        part = samples[first:last]
        low, high = min(part), max(part)
        shown += {(first, part[0]), (first + part.index(low), low), (first + part.index(high), high)}
    return shown
