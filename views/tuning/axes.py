"""Where trials and times stand in the plots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QRectF

from views.tuning.trials import Numbers

INSET = 8.0

FEWEST = 20
"""Trials that the axis has room for from the start."""
OUTLIER = 1.3
"""Times more than this part above what most trials and the start need are drawn at the edge."""
AIR = 0.05
BELOW = 0.16
"""Parts of the range left free above the slowest and below the fastest trial, whose name stands there."""


@dataclass(frozen=True, slots=True)
class TrialAxes:
    """Trials by number from left to right, microseconds from bottom to top."""

    area: QRectF
    room: int
    """Trials that fit."""
    low: float
    high: float
    """Microseconds at the bottom and at the top; slower trials are drawn at the edge."""

    def x(self, place: float) -> float:
        """Where the trial after `place` others stands."""
        return self.area.x() + INSET + place / max(self.room - 1, 1) * (self.area.width() - 2 * INSET)

    def y(self, microseconds: float) -> float:
        """Where a time stands; those beyond the axis at its ends."""
        part = (microseconds - self.low) / (self.high - self.low)
        return self.area.bottom() - min(max(part, 0.0), 1.0) * self.area.height()

    def places(self, times: Numbers) -> tuple[Numbers, Numbers]:
        """Where all trials stand; NaN for those without a time."""
        step = (self.area.width() - 2 * INSET) / max(self.room - 1, 1)
        x = np.asarray(self.area.x() + INSET + np.arange(len(times)) * step, float)
        part = np.clip((times - self.low) / (self.high - self.low), 0, 1)
        return x, self.area.bottom() - part * self.area.height()


def progress_axes(area: QRectF, times: Numbers, before: float, total: int) -> TrialAxes:
    """Axes with room for all trials allowed; where the number is unknown, the room doubles when it is full.

    before: microseconds at the start, 0 where they are not known.
    """
    room = max(total, FEWEST)
    while not total and room < len(times):
        room *= 2
    known = times[np.isfinite(times)]
    if not len(known):
        known = np.array([before or 1.0])
    most = float(np.percentile(known, 90))
    high = min(float(known.max()), max(most, before) * OUTLIER)
    low, high = min(float(known.min()), before or np.inf), max(high, before)
    spread = max(high - low, 0.02 * high, 1e-3)
    return TrialAxes(area, max(room, len(times)), max(low - BELOW * spread, 0.0), high + AIR * spread)
