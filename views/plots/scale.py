"""Scales of axes: ranges with some air, round ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from views.format import figure

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
DECADES = 1.2
"""Logarithmic axes longer than so many decades have ticks at powers of ten, shorter ones at round values."""
LEFT, BOTTOM = 70, 40
"""Pixels of the axes with their titles."""


@dataclass(frozen=True, slots=True)
class AxisScale:
    """One axis as it stands before anybody zooms."""

    title: str
    """What it counts, with its unit: "measured µs"."""
    low: float
    high: float
    whole: bool = False
    """Whether it counts things."""
    inset: float = 0.0
    """Part of the range left free at both ends."""
    named: tuple[tuple[float, str], ...] = ()
    """Ticks of their own instead of round values, where they stand and what they are called."""
    staggered: bool = False
    """Whether names stand in two rows where one has no room for them."""
    tick: Callable[[float], str] = figure
    unit: str = ""
    """What is read off an axis without a title."""

    def range(self, log: bool) -> tuple[float, float]:
        """The ends, or their logarithms."""
        low, high = self.low, self.high
        if log:
            low = low if low > 0 else 1.0 if self.whole else high * 1e-3
            low, high = math.log10(low), math.log10(max(high, low * 1.01))
        air = self.inset * (high - low)
        return low - air, high + air


def round_step(span: float, most: int) -> float:
    """The smallest step of 1, 2, 2.5 or 5 times a power of ten that cuts `span` into at most `most` parts."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(step * power for step in STEPS if step * power * most >= span * (1 - 1e-9))


def ticks(low: float, high: float, most: int, whole: bool = False) -> list[float]:
    """Round values between `low` and `high`, at most `most` + 1, but two where they fit.  whole: integers only."""
    step = round_step(high - low, most)
    if not whole and math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) < 1:
        step /= 2  # one tick alone tells no scale
    if whole and step != round(step):
        step = math.ceil(step)  # 2.5 is no step between trials
    first = math.ceil(low / step - 1e-9)  # a tick that falls on the border but for rounding is kept
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Logarithms of round values between the logarithms `low` and `high`."""
    if high - low > DECADES:
        return ticks(low, high, most, whole=True)
    return [math.log10(value) for value in ticks(10**low, 10**high, most) if value > 0]


def limits(values: Sequence[float]) -> tuple[float, float]:
    """A range with some air around all values; never empty, never below zero."""
    low, high = min(values), max(values)
    spread = max(high - low, high * 0.02, 0.01)
    return max(low - spread * 0.3, 0.0), high + spread * 0.3


def room_for(count: int, total: int, fewest: int) -> int:
    """Places of an axis for `count` of `total` values; it doubles when it is full where the total is 0, unknown."""
    room = max(total, fewest)
    while not total and room < count:
        room *= 2
    return max(room, count)
