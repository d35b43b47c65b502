"""All trials over all dimensions at once: parallel axes, a line for each trial, the fastest in the accent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QFontMetricsF

from views.format import figure, percent
from views.plots.mark_style import TextStyle
from views.plots.scale import AxisScale
from views.plots.writing import Cells
from views.theme import face
from views.tuning.progress import TrialPlot
from views.tuning.trials import NONE, Numbers, Rows, Trials

if TYPE_CHECKING:
    from views.plots.chart import Chart
    from views.plots.plot import Keys, Plot

FAST = 0.1
"""Part of the trials that count as the fastest."""
VALUES = 9
"""Values of an axis that are written, at most; the others keep their places."""
AWAY, LETTER, PLATE = 5.0, 6.4, 8.0
"""Pixels between an axis and its values, of a letter of them, about, and of the plate around one."""
AIR, EDGE = 0.07, 6.0
"""Room above and below the axes, as part of them; pixels between what stands beside them and the plot's edge."""


class ParallelPlot(TrialPlot):
    """One upright axis for each dimension that varies and one for the time, on which a trial may be pointed at."""

    log_axes = ()

    def __init__(self) -> None:
        super().__init__("Dimensions of all trials")
        self.origin = "predicted"
        self.axes: tuple[str, ...] = ()
        """The dimensions that vary."""
        self.labels: list[list[str]] = []
        """Of each of them its values from below."""
        self.places = np.empty((0, 0))
        """(trials, axes), 0 to 1; NaN where a trial has no value.  The last axis is the time's."""

    def show_trials(self, trials: Trials, rows: Rows, origin: str) -> None:
        """Replaces the lines; trials without a time have none."""
        self.trials, self.origin = trials, origin
        self.rows = rows[np.isfinite(trials.microseconds[rows])]
        columns, axes, self.labels = [], [], []
        for name in trials.dimensions:
            codes, words = trials.value(name)[self.rows], trials.words.dimensions[name]
            used = np.unique(codes[codes != NONE])
            used = used[np.argsort(words.ranks()[used])]
            if len(used) > 1:
                place = np.full(len(words.texts) + 1, np.nan)  # the last stands for no value
                place[used] = np.linspace(0, 1, len(used))
                columns.append(place[codes])
                axes.append(name)
                self.labels.append([words.texts[code] for code in used.tolist()])
        self.axes = tuple(axes)
        low, high = self._ends()
        times = np.log(trials.microseconds[self.rows] / low) / np.log(high / low)
        self.places = np.stack([*columns, times], axis=1)
        varying = ", ".join(self.axes)
        self.setAccessibleDescription(f"{len(self.rows):,} trials over {varying} and the {origin} time")
        self.refresh()

    def has_data(self) -> bool:
        """Whether there is a dimension that varies."""
        return bool(self.axes)

    def draw(self, chart: Chart) -> None:
        """The slower trials at the back, the fastest over them, the selected one in front."""
        plot, count = chart.plot(), len(self.axes)
        names = (*(name.replace("_", " ") for name in self.axes), f"{self.origin} µs")
        x = AxisScale("", *self._sides(names), named=tuple(enumerate(names)), staggered=True)
        plot.show_axes(x, AxisScale("", -AIR, 1 + AIR))
        plot.show_left(False)
        for axis in plot.axes.values():
            axis.setGrid(False)
        times = self.places[:, -1]
        fast = times <= np.quantile(times, FAST)
        fastest = f"the fastest {percent(FAST)} in blue" if len(times) > 1 else ""
        plot.show_title(f"{len(times):,} trials", fastest)
        plot.line("slow", *_segments(self.places[~fast]), "edge", 1.0, pairs=True)
        plot.line("fast", *_segments(self.places[fast]), "accent", 1.4, pairs=True)
        chosen = self.places[self.rows == self.selected]
        if len(chosen):
            plot.line("selected", *_segments(chosen), "text", 2.6, pairs=True)
        ends = np.arange(count + 1, dtype=float)
        plot.spans("axes", ends, np.zeros(count + 1), np.ones(count + 1), "edge", 1.4)
        self._draw_values(plot)
        plot.aim(np.full(len(times), float(count)), times, self.rows)

    def pick(self, keys: Keys) -> int:
        """Of trials on one spot the fastest."""
        return int(keys[np.argmin(self.trials.microseconds[keys])])

    def choose(self, keys: Keys) -> None:
        """Selects the trial that was clicked."""
        if len(keys):
            self.trial_selected.emit(self.pick(keys))

    def keep(self, plot: Plot, region: QRectF) -> None:
        """Filters the table by the values that a region holds, on every axis that it crosses."""
        said = []
        for number, name in enumerate((*self.axes, "time")):
            if region.left() <= number <= region.right():
                said += self._filter_words(number, name, region.top(), region.bottom())
        if said:
            self.filter_requested.emit(" ".join(said))

    def table(self) -> tuple[tuple[str, ...], Cells]:
        """Of every trial its values and its time."""
        return ("trial", *self.axes, "microseconds"), (
            (
                self.trials.number[row], *(self.trials.text(name, row) for name in self.axes),
                self.trials.microseconds[row],
            )
            for row in self.rows.tolist()
        )  # fmt: skip

    def _filter_words(self, number: int, name: str, low: float, high: float) -> list[str]:
        """Comparisons that keep what an axis has between two places; none where no comparison can say it."""
        if name == "time":
            first, last = self._ends()
            ends = (first * (last / first) ** place for place in (low, high))
            return [f"time{sign}{end:.4g}" for sign, end in zip((">=", "<="), ends, strict=True)]
        labels = self.labels[number]
        kept = [text for text, at in zip(labels, np.linspace(0, 1, len(labels)), strict=True) if low <= at <= high]
        if len(kept) == 1:
            return [f"{name}={kept[0]}"]
        if kept and all(text.replace(".", "", 1).isdigit() for text in kept):
            return [f"{name}>={kept[0]}", f"{name}<={kept[-1]}"]
        return []

    def _sides(self, names: Sequence[str]) -> tuple[float, float]:
        """The ends of the horizontal range: names have room at both sides, figures right of the last axis."""
        metrics, count = QFontMetricsF(face(10.5)), len(self.axes)
        figures = max(metrics.horizontalAdvance(figure(end)) for end in self._ends()) + AWAY + PLATE
        left, right = (metrics.horizontalAdvance(names[end]) / 2 + EDGE for end in (0, -1))
        right = max(right, figures + EDGE)
        unit = max((self.width() - left - right) / max(count, 1), 1.0)
        return -left / unit, count + right / unit

    def _ends(self) -> tuple[float, float]:
        """Microseconds at the ends of the time's axis."""
        times = self.trials.microseconds[self.rows]
        low, high = (float(times.min()), float(times.max())) if len(times) else (1.0, 2.0)
        return low, max(high, low * 1.01)

    def _draw_values(self, plot: Plot) -> None:
        """Values at their places right of each axis; of many every second, third, ..."""
        low, high = self._ends()
        middle = (low * high) ** 0.5
        for number, labels in enumerate([*self.labels, [figure(low), figure(middle), figure(high)]]):
            every = -(-len(labels) // VALUES)
            places = np.linspace(0, 1, len(labels)).tolist()
            for label, at in list(zip(labels, places, strict=True))[::every]:
                aside = AWAY / (LETTER * len(label) + PLATE)
                plot.text(f"value {number} {label}", number, at, label, TextStyle("text-2", (-aside, 0.5), plate=True))


def _segments(places: Numbers) -> tuple[Numbers, NDArray[np.float64]]:
    """x and y of the ends of all lines between neighbouring axes, each once; lines to a missing value are left out."""
    x, y = [], []
    for number in range(places.shape[1] - 1):
        pairs = places[:, number : number + 2]
        pairs = np.unique(pairs[np.isfinite(pairs).all(axis=1)], axis=0)
        x.append(np.tile((float(number), number + 1.0), len(pairs)))
        y.append(pairs.ravel())
    return np.concatenate(x), np.concatenate(y)
