"""The best so far of two runs over their trials: in one plot where their times compare, else in two."""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtGui import QFontMetricsF

from views.format import duration, figure
from views.plots.frame import PlotFrame
from views.plots.mark_style import AROUND, MarkStyle, TextStyle
from views.plots.scale import AxisScale, room_for
from views.plots.writing import Cells
from views.theme import semibold
from views.tuning.nodes import RunCurve
from views.tuning.progress import FEWEST, improvements, time_range

if TYPE_CHECKING:
    from views.plots.chart import Chart
    from views.plots.plot import Plot

TOKENS = ("accent", "type")
"""Of the shown run and of the other one."""
MARGIN = 10.0
"""Pixels around the name of a curve."""
NO_TIME = "Neither run has a time of this group yet"
ROOM = 0.14
"""Part of the range above the slower end and below the faster one, for their names."""
FLAT = 0.04
"""Part of a time that the axis reaches to both sides where curves are flat."""


class ComparisonPlot(PlotFrame):
    """A line of steps for each run, with its name at its end and a ring where it reached the slower best."""

    log_axes = ("x", "y")

    def __init__(self) -> None:
        super().__init__("Best so far of both runs")
        self.nothing = NO_TIME
        self.curves: tuple[RunCurve | None, RunCurve | None] = (None, None)
        """Of the shown run and of the other; None for one that has no such group."""
        self.setMinimumHeight(150)

    def show_curves(self, own: RunCurve | None, other: RunCurve | None) -> None:
        """Replaces both curves."""
        self.curves = own, other
        self.setAccessibleDescription("; ".join(end_of(curve) for curve in self.curves if curve is not None))
        self.refresh()

    def has_data(self) -> bool:
        """Whether any run has a time."""
        return bool(self._with_times())

    @property
    def is_apart(self) -> bool:
        """Whether the runs have times of different origins, and therefore a plot each."""
        return len({curve.origin for curve in self._with_times().values()}) > 1

    def draw(self, chart: Chart) -> None:
        """Both curves on equal axes, under each other where they are apart."""
        known, apart = self._with_times(), self.is_apart
        count = max(len(curve.best) for curve in known.values())
        room = room_for(count, count, FEWEST)
        x, ends = AxisScale("trial", 1, room, whole=True, inset=0.012), self._ends()
        if not apart:
            chart.drop(1, 0)
        for side, curve in known.items():
            plot = chart.plot(side if apart else 0)
            plot.show_title(end_of(curve) if apart else "")
            plot.show_axes(x, AxisScale(f"{curve.origin} µs", *ends), self.logs)
            self._draw_curve(plot, side, curve, room)
            if apart:
                self._aim(plot, {side: curve})
        above = chart.plot(0)
        above.show_bottom(not apart)
        if apart:
            below = chart.plot(1)
            below.box.setXLink(above.box)
            below.box.setYLink(above.box)
        else:
            self._aim(above, known)

    def describe(self, key: int) -> str:
        """Run and trial, and how fast it had become."""
        place, side = divmod(key, 2)
        curve = self.curves[side]
        if curve is None or place >= len(curve.best):
            return ""
        return f"{curve.name}, trial {place + 1:,}: best so far {figure(curve.best[place])} µs {curve.origin}"

    def table(self) -> tuple[tuple[str, ...], Cells]:
        """Both curves, a row for each trial."""
        known = self._with_times().values()
        heads = ("trial", *(f"best so far of {curve.name}, {curve.origin} microseconds" for curve in known))
        columns = zip_longest(*(curve.best.tolist() for curve in known), fillvalue=math.nan)
        return heads, ((number, *values) for number, values in enumerate(columns, 1))

    def _with_times(self) -> dict[int, RunCurve]:
        """Side -> the curve, of those that have a time."""
        return {
            side: curve for side, curve in enumerate(self.curves) if curve is not None and np.isfinite(curve.best).any()
        }

    def _ends(self) -> tuple[float, float]:
        """Ends of the axis of times: each curve with the room that it would have alone."""
        ranges = [time_range(curve.best, 0.0, self.logs[1]) for curve in self._with_times().values()]
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        low, high = min(low, (1 - FLAT) * high), max(high, (1 + FLAT) * low)
        if self.logs[1]:
            return low * (low / high) ** ROOM, high * (high / low) ** ROOM
        return max(low - ROOM * (high - low), 0.0), high + ROOM * (high - low)

    def _aim(self, plot: Plot, curves: dict[int, RunCurve]) -> None:
        """Every trial of a curve can be pointed at."""
        times = [curve.best for curve in curves.values()]
        counts = [np.arange(len(best)) for best in times]
        keys = np.concatenate([2 * places + side for side, places in zip(curves, counts, strict=True)])
        plot.aim(np.concatenate(counts).astype(float) + 1, np.concatenate(times), keys)

    def _draw_curve(self, plot: Plot, side: int, curve: RunCurve, room: int) -> None:
        """Steps with a dot at each, a ring where the slower best was reached, the name at the end."""
        token, found, last = TOKENS[side], improvements(curve.best), len(curve.best)
        numbers, times = found.astype(float) + 1, curve.best[found]
        # Each step goes on until the next one begins; the last one to the last trial.
        plot.line(f"line {side}", np.append(np.repeat(numbers, 2)[1:], last), np.repeat(times, 2), token, 2.0)
        plot.marks(f"steps {side}", numbers, times, MarkStyle(token, curve.origin, 3.4, back="panel"))
        if curve.reached is not None:
            at, ring = np.array([curve.reached]), MarkStyle(token, AROUND, 6.5)
            plot.marks(f"reached {side}", at.astype(float), curve.best[at - 1], ring)
        if not self.is_apart:
            self._draw_name(plot, side, curve, room)

    def _draw_name(self, plot: Plot, side: int, curve: RunCurve, room: int) -> None:
        """After the end of a curve where there is room, else before it; over the slower one and under the faster."""
        best, last, said = float(curve.best[-1]), len(curve.best), end_of(curve)
        rivals = [float(each.best[-1]) for place, each in self._with_times().items() if place != side]
        is_above = not rivals or (best, side) > (rivals[0], 1 - side)
        part = math.log(last) / math.log(room) if self.logs[0] else last / room
        width, wide = plot.box.width(), QFontMetricsF(semibold(10.5)).horizontalAdvance(said) + MARGIN
        fits_after, fits_before = wide < (1 - part) * width, wide < part * width
        at, anchor = (1.0, 0) if not (fits_after or fits_before) else (float(last), 0 if fits_after else 1)
        style = TextStyle(TOKENS[side], (anchor, 1.15 if is_above else -0.15), strong=True, plate=not fits_after)
        plot.text(f"name {side}", at, best, said, style)


def end_of(curve: RunCurve) -> str:
    """A curve and where it ends: "run 3: 12.4 µs measured"."""
    best = curve.best[-1] if len(curve.best) else math.nan
    if math.isnan(best):
        return f"{curve.name}: no time yet"
    return f"{curve.name}: {duration(float(best))} {curve.origin}"
