"""Samples with their median and p20–p80 band, beside those of the baseline; the GPU's clock and temperature below."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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

    @property
    def samples(self) -> tuple[float, ...]:
        """Microseconds, in the order in which they came."""
        return tuple(self._live.series.samples) if self._live else ()

    def show_live(self, live: Live | None) -> None:
        """Replaces the samples."""
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
        place = BELOW if baseline is not None and baseline.median >= series.median else ABOVE
        plot.rule("median", series.median, "accent", "median", place)
        plot.aim(numbers.astype(float), samples, numbers)
        self._draw_strips(chart, series, plot, x)

    def describe(self, key: int) -> str:
        """A sample with its time."""
        return f"sample {key:,}: {figure(self.samples[key - 1])} µs"

    def table(self) -> tuple[tuple[str, ...], Cells]:
        """All samples."""
        return ("sample", "microseconds"), enumerate(self.samples, 1)

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
