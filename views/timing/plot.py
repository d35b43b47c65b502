"""Samples with their median and p20–p80 band, beside those of the baseline; the GPU's clock and temperature below."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QKeyEvent

from views.format import figure
from views.plots.frame import PlotFrame
from views.plots.mark_style import ABOVE, BELOW, MarkStyle
from views.plots.scale import BOTTOM, AxisScale, limits, room_for
from views.plots.writing import Cells
from views.timing.live import Live, Series

if TYPE_CHECKING:
    from views.plots.chart import Chart
    from views.plots.plot import Plot

FEWEST = 20
"""Samples that the axis has room for from the start."""
OUTLIER = 4.0
"""Samples further from the median than so many times the band are drawn at the edge, so that the others keep room."""
STRIP = 34
"""Pixels of the strips of clock and temperature."""
LEAST = {"MHz": 60.0, "°C": 4.0}
"""The least span of a strip: a steady clock is drawn as a steady line."""
INSET = 0.012


class SamplePlot(PlotFrame):
    """Samples of one run in the order in which they came; filled when measured, dashed when synthetic."""

    log_axes = ("y",)

    def __init__(self) -> None:
        super().__init__("Samples")
        self._live: Live | None = None
        self._region: tuple[float, float, float, float] | None = None
        """First and last sample, least and most microseconds of what is selected; None for everything."""

    @property
    def samples(self) -> tuple[float, ...]:
        """Microseconds, in the order in which they came."""
        return tuple(self._live.series.samples) if self._live else ()

    def show_live(self, live: Live | None) -> None:
        """Replaces the samples."""
        if live is None or self._live is None or live.series.title != self._live.series.title:
            self._region = None
        self._live = live
        if live is not None:
            series = live.series
            said = f"{len(series.samples)} samples of {series.title}, {series.origin}"
            looks = [f"{look.clock:.0f} MHz, {look.temperature:.0f} °C" for look in series.looks[-1:]]
            self.setAccessibleDescription("; ".join([said, *(looks or ["clock and temperature not recorded"])]))
        self.refresh()

    def has_data(self) -> bool:
        """Whether there is a sample."""
        return self._live is not None and bool(self._live.series.samples)

    def draw(self, chart: Chart) -> None:
        """Bands, samples and medians; strips where clock and temperature were recorded."""
        assert self._live is not None
        series, baseline, plot = self._live.series, self._live.baseline, chart.plot()
        samples = np.array(series.samples, float)  # a copy: a view would keep the player's array from growing
        numbers = np.arange(1, len(samples) + 1)
        low, high = _range(self._live, samples)
        x = AxisScale("sample", 1, room_for(len(samples), series.total, FEWEST), whole=True, inset=INSET)
        plot.show_axes(x, AxisScale(f"{series.origin} µs", low, high), self.logs)
        if baseline is not None:
            plot.band("baseline", baseline.low, baseline.high, "raised")
            place = BELOW if baseline.median < series.median else ABOVE
            plot.rule("baseline median", baseline.median, "text-3", "baseline", place, dashed=True)
        plot.band("band", series.low, series.high, "accent-bg")
        plot.marks("samples", numbers.astype(float), samples, MarkStyle("text-2", series.origin, arrows="worse"))
        self._draw_selection(plot, numbers, samples)
        place = BELOW if baseline is not None and baseline.median >= series.median else ABOVE
        plot.rule("median", series.median, "accent", "median", place)
        plot.aim(numbers.astype(float), samples, numbers)
        self._draw_strips(chart, series, plot, x)

    def describe(self, key: int) -> str:
        """A sample with its time."""
        return f"sample {key:,}: {figure(self.samples[key - 1])} µs"

    def table(self) -> tuple[tuple[str, ...], Cells]:
        """The selected samples, or all of them."""
        samples = self.samples
        kept = np.flatnonzero(self._are_selected(np.array(samples))).tolist()
        return ("sample", "microseconds"), ((place + 1, samples[place]) for place in kept)

    def keep(self, plot: Plot, region: QRectF) -> None:
        """Selects the samples of a region; on a strip of the clock or the temperature, those of its stretch."""
        first, last = (plot.plain("bottom", side) for side in (region.left(), region.right()))
        low, high = 0.0, np.inf
        if self.chart is not None and plot is self.chart.plot():
            low, high = (plot.plain("left", side) for side in (region.top(), region.bottom()))
        self._region = (first, last, low, high)
        self.refresh()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape selects nothing."""
        if event.key() == Qt.Key.Key_Escape and self._region is not None:
            self._region = None
            self.refresh()
        else:
            super().keyPressEvent(event)

    def _are_selected(self, samples: np.ndarray) -> NDArray[np.bool_]:
        """Of each sample whether it is in the region, or anything where there is none."""
        if self._region is None:
            return np.ones(len(samples), bool)
        first, last, low, high = self._region
        numbers = np.arange(1, len(samples) + 1)
        return np.asarray((numbers >= first) & (numbers <= last) & (samples >= low) & (samples <= high))

    def _draw_selection(self, plot: Plot, numbers: np.ndarray, samples: np.ndarray) -> None:
        """What the region holds: its marks in the accent, its figures over the plot."""
        kept = self._are_selected(samples)
        if self._region is None or self._live is None:
            plot.show_title("")
            return
        style = MarkStyle("accent", self._live.series.origin, above=True)
        plot.marks("selected", numbers[kept].astype(float), samples[kept], style)
        told = ""
        if kept.any():
            low, middle, high = np.percentile(samples[kept], (20, 50, 80)).tolist()
            told = f"median {figure(middle)} µs, p20–p80 {figure(low)} to {figure(high)} µs; "
        plot.show_title(f"{kept.sum():,} of {len(samples):,} samples", f"{told}Escape selects all")

    def _draw_strips(self, chart: Chart, series: Series, above: Plot, x: AxisScale) -> None:
        """One below the other on the samples' axis, the last value at the left."""
        rows = (
            ("MHz", [look.clock for look in series.looks]),
            ("°C", [look.temperature for look in series.looks]),
        )
        shown = bool(series.looks) and self.height() > 4 * STRIP
        for row, (unit, values) in enumerate(rows, 1):
            if not shown:
                chart.drop(row, 0)
                continue
            plot = chart.plot(row)
            air = max(LEAST[unit] - (max(values) - min(values)), 0.0) / 2 + LEAST[unit] / 4
            ends = min(values) - air, max(values) + air
            named = ((sum(ends) / 2, f"{values[-1]:,.0f} {unit}"),)
            plot.show_axes(x, AxisScale("", *ends, named=named, unit=unit), (self.logs[0], False))
            plot.box.setXLink(above.box)
            plot.cell.setFixedHeight(STRIP + (BOTTOM if row == len(rows) else 0))
            plot.show_bottom(row == len(rows))
            at = np.array([max(look.at, 1) for look in series.looks], float)
            plot.line("values", at, np.array(values), "text-2")
        above.show_bottom(not shown)


def _range(live: Live, samples: np.ndarray) -> tuple[float, float]:
    """Values between which the axis stretches: everything but samples far outside the band."""
    series = live.series
    far = series.median + OUTLIER * max(series.high - series.low, 0.05 * series.median)
    shown = [float(samples.min()), series.low, series.high, min(float(samples.max()), far)]
    if live.baseline is not None:
        shown += [live.baseline.low, live.baseline.high]
    return limits(shown)
