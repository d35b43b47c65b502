"""Predicted time over the number of stages: hollow, as every prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from views.format import duration, plural
from views.plots.frame import PlotFrame
from views.plots.mark_style import MarkStyle, TextStyle
from views.plots.scale import AxisScale
from views.plots.writing import Cells

if TYPE_CHECKING:
    from views.plots.chart import Chart


class StagePlot(PlotFrame):
    """One ring for each number of stages that fits; the lowest, the first and the chosen have their time written."""

    def __init__(self) -> None:
        super().__init__("Predicted time over stages")
        self._sweep: tuple[tuple[int, float], ...] = ()
        self._then = self._now = 0
        self.setMinimumSize(120, 96)

    def show_sweep(self, sweep: tuple[tuple[int, float], ...], then: int, now: int) -> None:
        """then and now: the stages of the sliders and of the kernel in use."""
        self._sweep, self._then, self._now = sweep, then, now
        self.setAccessibleDescription(", ".join(f"{plural(s, 'stage')} {duration(t)}" for s, t in sweep))
        self.refresh()

    def has_data(self) -> bool:
        """Whether there is a choice."""
        return len(self._sweep) > 1

    def draw(self, chart: Chart) -> None:
        """A line through the rings."""
        plot, (stages, times) = chart.plot(), np.array(self._sweep, float).T
        spread = max(float(times.max() - times.min()), float(times.max()) * 0.02)
        named = tuple((stage, f"{stage:.0f}") for stage in stages.tolist())
        ends = float(times.min()) - 0.3 * spread, float(times.max()) + 0.6 * spread
        y = AxisScale("", *ends, unit="µs", named=((-1, ""),))
        plot.show_axes(AxisScale("", 1, float(stages.max()), named=named, inset=0.12), y)
        plot.show_left(False)
        plot.line("curve", stages, times, "edge")
        chosen = stages == self._then
        plot.marks("stages", stages[~chosen], times[~chosen], MarkStyle("text", "predicted", 3.4, back="panel"))
        plot.marks("chosen", stages[chosen], times[chosen], MarkStyle("accent", "predicted", 3.4, back="panel"))
        written = {min(self._sweep, key=lambda each: each[1])[0], self._then, self._sweep[0][0]}
        for stage, time in self._sweep:
            if stage in written:
                strong = stage == self._then
                token = "accent" if strong else "text-2"
                style = TextStyle(token, (0.5, 1.15), strong)
                plot.text(f"time {stage}", stage, time, duration(time).split()[0], style)
        plot.aim(stages, times, stages.astype(np.int64))

    def describe(self, key: int) -> str:
        """The time of a number of stages."""
        return f"{plural(key, 'stage')}: {duration(dict(self._sweep)[key])}"

    def table(self) -> tuple[tuple[str, ...], Cells]:
        """The whole curve."""
        return ("stages", "predicted microseconds"), self._sweep
