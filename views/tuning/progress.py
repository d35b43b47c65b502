"""Every trial of a group as a dot, the best so far as a line of steps, failures as ticks below."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent

from views.format import duration, figure
from views.plots.frame import PlotFrame, place_of
from views.plots.mark_style import ABOVE, AROUND, BELOW, LOWER, TOP, UPRIGHT, MarkStyle, TextStyle
from views.plots.scale import BOTTOM, AxisScale, room_for
from views.plots.writing import Cells
from views.tuning.nodes import GroupProgress
from views.tuning.trials import NONE, Numbers, Rows, Trials

if TYPE_CHECKING:
    from views.plots.chart import Chart
    from views.plots.plot import Keys, Plot

FEWEST = 20
"""Trials that the axis has room for from the start."""
FAST, REACH = 1 / 5, 10.0
"""The axis reaches so many times as far above the best time as the fastest part of the trials does, at least to the
start: what a search is about keeps its room, whatever its slow trials took.  Slower ones are arrows at the edge."""
MANY = 300
"""Trials from which on only those on the line of the best show their spread: those of all would cover the plot."""
LEAST = 0.03
"""Part of the best time that its neighbours count as apart from it: equal times are no stretch."""
OVER, UNDER = 0.05, 0.16
"""Parts of the range left free above the slowest and below the fastest trial, whose name stands there."""
HEAD = 0.12
"""Part of the range at whose upper end no name finds room over its line."""
NAME = 0.06
"""Part of the plot's height that a name takes."""
RUG = 34
"""Pixels of the rows of failures."""
STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
ENDS = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: -1}


class TrialPlot(PlotFrame):
    """A plot of trials; `trial_selected` carries the row of one, `filter_requested` a filter that keeps a region's."""

    trial_selected = Signal(int)
    filter_requested = Signal(str)
    log_axes: tuple[str, ...] = ("x", "y")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.trials = Trials()
        self.rows: Rows = np.empty(0, np.int64)
        self.selected = NONE
        self.setMinimumHeight(150)

    def has_data(self) -> bool:
        """Whether there is a trial."""
        return len(self.rows) > 0

    def show_selection(self, row: int) -> None:
        """Rings a trial."""
        self.selected = row
        self.refresh()

    def choose(self, keys: Keys) -> None:
        """Selects the trial that was clicked."""
        if len(keys):
            self.trial_selected.emit(int(keys[0]))

    def describe(self, key: int) -> str:
        """A trial, its time and what it tried."""
        time = float(self.trials.microseconds[key])
        came = self.trials.text("kind", key) if np.isnan(time) else f"{figure(time)} µs"
        return f"trial {self.trials.number[key]:,}: {came}\n{self.trials.program(key)}".strip()

    def ring(self, plot: Plot, y: Numbers, x: Numbers) -> None:
        """A ring around the selected trial."""
        place = place_of(self.rows, self.selected)
        if place != NONE and np.isfinite(y[place]):
            at = slice(place, place + 1)
            radius = 5.6 if self.hasFocus() else 4.8
            plot.marks("selected", x[at], y[at], MarkStyle("accent", AROUND, radius, above=True))


class ProgressPlot(TrialPlot):
    """Trials by number; the arrow keys go from trial to trial and from best to best."""

    def __init__(self) -> None:
        super().__init__("Best so far, all trials and failures")
        self.summary: GroupProgress | None = None
        self._room = 0

    def show_trials(self, trials: Trials, rows: Rows, summary: GroupProgress, total: int) -> None:
        """Replaces what is shown; `total`: trials that the group may get, 0 where that is unknown."""
        self.trials, self.rows, self.summary, self._room = trials, rows, summary, total
        best = f"best {summary.best:.4g} µs {summary.origin}, trial {summary.number}"
        said = best if summary.number else "no time yet"
        self.setAccessibleDescription(f"{len(rows):,} trials, {summary.failed:,} failed, {said}")
        self.refresh()

    @property
    def edge(self) -> float:
        """Microseconds beyond which trials are drawn at the edge; 0 where none is."""
        high = time_range(self.times, self.summary.before if self.summary else 0.0, self.logs[1])[1]
        return high if (self.times > high).any() else 0.0

    @property
    def times(self) -> Numbers:
        """Of each trial that is shown; NaN for failures."""
        return np.asarray(self.trials.microseconds[self.rows])

    def draw(self, chart: Chart) -> None:
        """Dots with their spread, the best so far, the start; failures on the same axis below."""
        assert self.summary is not None
        summary, times, plot = self.summary, self.times, chart.plot()
        numbers = np.arange(1, len(times) + 1, dtype=float)
        room = room_for(len(times), self._room, FEWEST)
        x = AxisScale("trial", 1, room, whole=True, inset=0.012)
        ends = time_range(times, summary.before, self.logs[1])
        plot.show_axes(x, AxisScale(f"{summary.origin} µs", *ends), self.logs)
        low, high = (side[self.rows] for side in self.trials.spread)
        told = improvements(times) if len(times) > MANY else slice(None)
        plot.spans("spread", numbers[told], low[told], high[told], "text-3")
        plot.marks("trials", numbers, times, MarkStyle("text-3", summary.origin, arrows="text-2"))
        if summary.before:
            place = BELOW if summary.before > ends[1] - HEAD * (ends[1] - ends[0]) else ABOVE
            plot.rule("start", summary.before, "edge", f"start {figure(summary.before)}", place)
        if len(times) < room:
            low_end, high_end, start = plot.values("left", np.array([*ends, summary.before or ends[0]]))
            is_taken = abs((start - low_end) / (high_end - low_end) - UPRIGHT[TOP]) < NAME
            plot.rule("now", len(times), "edge", f"{len(times):,} now", LOWER if is_taken else TOP)
        self._draw_best(plot, numbers, times)
        plot.aim(numbers, times, self.rows)
        self.ring(plot, times, numbers)
        self._draw_failures(chart, plot, x, numbers)

    def keep(self, plot: Plot, region: QRectF) -> None:
        """Filters the table by the numbers and times of a region."""
        ends = [plot.plain("bottom", side) for side in (region.left(), region.right())]
        said = f"trial>={ends[0]:.0f} trial<={ends[1]:.0f}"
        if plot.axes["left"].scale_shown.named:
            self.filter_requested.emit(f"{said} failed")
        else:
            self.filter_requested.emit(f"{said} {between('time', plot, 'left', region.top(), region.bottom())}")

    def table(self) -> tuple[tuple[str, ...], Cells]:
        """All trials of the group."""
        heads = ("trial", "microseconds", "p20", "p80", "failure")
        low, high = self.trials.spread
        return heads, (
            (self.trials.number[row], self.trials.microseconds[row], low[row], high[row], self.trials.text("kind", row))
            for row in self.rows.tolist()
        )

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and right go from trial to trial, up and down from best to best."""
        place = self._next_dot(Qt.Key(event.key()))
        if place is None:
            super().keyPressEvent(event)
        else:
            self.trial_selected.emit(int(self.rows[place]))

    def _draw_best(self, plot: Plot, numbers: Numbers, times: Numbers) -> None:
        """A line of steps with a dot at each, a ring and a name at the last."""
        found = improvements(times)
        if not len(found) or self.summary is None:
            return
        corners = np.repeat(numbers[found], 2)
        steps = np.repeat(times[found], 2)
        # Each step goes on until the next one begins; the last one to the present.
        plot.line("best", np.append(corners[1:], numbers[-1]), steps, "accent", 2.0)
        plot.marks("bests", numbers[found], times[found], MarkStyle("accent", self.summary.origin, 3.4, back="panel"))
        last = found[-1:]
        plot.marks("best ring", numbers[last], times[last], MarkStyle("accent", AROUND, 6.5))
        text = f"best {duration(self.summary.best)}, trial {self.summary.number:,}"
        right = float(numbers[last[0]]) < plot.home[0][1] / 2 if not self.logs[0] else False
        at = (float(numbers[last[0]]), float(times[last[0]]))
        low, high = plot.home[1]
        is_low = not self.logs[1] and at[1] - low < HEAD * (high - low)  # the axis ends at zero: no room below
        anchor = (0 if right else 1, 1.35 if is_low else -0.35)
        plot.text("best name", *at, text, TextStyle("accent", anchor, strong=True, plate=is_low))

    def _draw_failures(self, chart: Chart, above: Plot, x: AxisScale, numbers: Numbers) -> None:
        """A tick for each failure, wrong results in a row of their own; the selected one is underlined."""
        plot, failed, wrong = chart.plot(1), np.isnan(self.times), self._wrong()
        plot.show_axes(x, AxisScale("", 0, 2, named=((1.5, "failed"), (0.5, "wrong"))), (self.logs[0], False))
        plot.box.setXLink(above.box)
        plot.box.setMouseEnabled(True, False)
        plot.axes["left"].setGrid(False)
        plot.cell.setFixedHeight(RUG + BOTTOM)
        above.show_bottom(False)
        parts = (("failed", failed & ~wrong, 1.1, "text-2"), ("wrong", failed & wrong, 0.1, "wrong"))
        for name, which, low, token in parts:
            count = int(which.sum())
            plot.spans(name, numbers[which], np.full(count, low), np.full(count, low + 0.8), token, 1.4)
        rows = np.where(wrong, 0.5, 1.5)
        plot.aim(numbers[failed], rows[failed], self.rows[failed])
        self.ring(plot, np.where(failed, rows, np.nan), numbers)

    def _wrong(self) -> NDArray[np.bool_]:
        """Of each trial whether its kernel gave a wrong result."""
        wrong = np.array([*("wrong" in text for text in self.trials.words.kinds.texts), False])
        return np.asarray(wrong[self.trials.column("kind")[self.rows]])

    def _next_dot(self, key: Qt.Key) -> int | None:
        count = len(self.rows)
        if not count or key not in {*STEPS, *ENDS, Qt.Key.Key_Up, Qt.Key.Key_Down}:
            return None
        here = place_of(self.rows, self.selected)
        place = here if here != NONE else count - 1
        if key in ENDS:
            return ENDS[key] % count
        if key in STEPS:
            return min(max(place + STEPS[key], 0), count - 1)
        bests = improvements(self.times)
        further = bests[bests > place] if key == Qt.Key.Key_Down else bests[bests < place][::-1]
        return int(further[0]) if len(further) else place


def time_range(times: Numbers, before: float, log: bool = False) -> tuple[float, float]:
    """Microseconds at the ends of the axis: far slower trials are left to its edge, where it is not logarithmic.

    before: microseconds at the start, 0 where they are not known.
    """
    known = times[np.isfinite(times)]
    if not len(known):
        known = np.array([before or 1.0])
    best, most = float(known.min()), float(known.max())
    fast = max(float(np.quantile(known, FAST)) - best, LEAST * best)
    high = most if log else min(most, best + REACH * fast)
    low, high = min(best, before or np.inf), max(high, before)
    if log:
        return low * (1 - UNDER), high * (1 + OVER)
    spread = max(high - low, 0.02 * high, 1e-3)
    return max(low - UNDER * spread, 0.0), high + OVER * spread


def improvements(times: Numbers) -> NDArray[np.int64]:
    """Places of the trials that were faster than all before them."""
    known = np.where(np.isnan(times), np.inf, times)
    before = np.minimum.accumulate(np.concatenate(([np.inf], known[:-1])))
    return np.flatnonzero(known < before)


def between(word: str, plot: Plot, side: str, low: float, high: float) -> str:
    """A filter for values between two places of an axis."""
    ends = (plot.plain(side, end) for end in (low, high))
    return " ".join(f"{word}{sign}{end:.4g}" for sign, end in zip((">=", "<="), ends, strict=True))
