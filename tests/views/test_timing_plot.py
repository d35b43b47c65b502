"""The sample plot: round ticks, room that grows, extremes that are never left out."""

from __future__ import annotations

import random
from itertools import pairwise
from statistics import median

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRectF, Qt

from tests.support.plots import drag
from views.format import figure, moment
from views.plots.scale import limits, log_ticks, room_for, ticks
from views.theme import load_theme
from views.timing.live import GpuReading, Live, Series
from views.timing.plot import SamplePlot


@pytest.mark.parametrize("seed", range(40))
def test_ticks_are_round_few_and_inside(seed: int) -> None:
    draw = random.Random(seed)
    low = draw.choice((0.0, draw.uniform(0.001, 500)))
    high = low + draw.uniform(0.01, 300)
    found = ticks(low, high, 5)
    assert 2 <= len(found) <= 6
    assert all(low - 1e-9 <= value <= high + 1e-9 for value in found)
    steps = {round((b - a) / (found[1] - found[0]), 6) for a, b in pairwise(found)}
    assert steps == {1.0}
    mantissa = float(f"{found[1] - found[0]:e}".partition("e")[0])
    assert round(mantissa, 6) in (1.0, 2.0, 2.5, 5.0)


def test_ticks_of_things_are_whole() -> None:
    assert ticks(1, 11, 4, whole=True) == [3, 6, 9]
    assert log_ticks(0, 6, 6) == [0, 1, 2, 3, 4, 5, 6] and 10 ** log_ticks(0.5, 1.0, 4)[0] == pytest.approx(4)


def test_the_axis_keeps_its_room_until_it_is_full() -> None:
    assert room_for(5, 0, 20) == room_for(20, 0, 20) == 20
    assert room_for(21, 0, 20) == 40 and room_for(21, 200, 20) == 200 and room_for(300, 200, 20) == 300


def test_limits_hold_everything_and_are_never_empty() -> None:
    low, high = limits([5.0, 5.0])
    assert low < 5.0 < high
    low, high = limits([0.001, 9.0])
    assert low == 0.0 and high > 9.0


def test_dates_are_written_for_people() -> None:
    assert moment("2026-11-18T09:12:00+00:00") == "18 Nov 2026 09:12"
    assert moment("yesterday") == "yesterday" and moment("") == ""


def series(count: int, title: str = "softmax") -> Series:
    draw = random.Random(7)
    samples = tuple(10 + draw.gauss(0, 0.5) for _ in range(count))
    looks = tuple(GpuReading(at, 1800.0, 50.0) for at in range(0, count, 10))
    return Series(title, "measured", "a GPU", "", samples, 10.0, 9.6, 10.4, looks=looks, total=count)


def shown(qtbot: object, theme: str = "dark") -> SamplePlot:
    plot = SamplePlot()
    qtbot.addWidget(plot)  # type: ignore[attr-defined]
    plot.set_theme(load_theme(theme))
    plot.resize(720, 320)
    plot.show_live(Live(series(60)))
    plot.show()
    plot.flush()
    plot.grab()
    return plot


def test_a_region_keeps_its_samples_and_tells_their_median(qtbot: object) -> None:
    """The file that the menu saves holds the same samples; Escape, or another kernel, selects all again."""
    plot, samples = shown(qtbot), series(60).samples
    assert plot.chart is not None and len(list(plot.table()[1])) == 60
    corners = plot.chart.plot().on_page(np.array([10.5, 30.5]), np.array([11.0, 9.0]))
    first, last = (QPoint(round(x), round(y)) for x, y in corners)
    drag(plot, first, last, Qt.KeyboardModifier.ShiftModifier)
    plot.flush()
    wanted = [(n, time) for n, time in enumerate(samples, 1) if 11 <= n <= 30 and 9.0 <= time <= 11.0]
    assert list(plot.table()[1]) == wanted and 10 < len(wanted) <= 20
    title = plot.chart.plot().title
    assert title is not None and f"{len(wanted)} of 60 samples" in title.toPlainText()
    assert f"median {figure(median(time for _, time in wanted))} µs" in title.toPlainText()
    strip = plot.chart.plot(1).on_page(np.array([5.5, 8.5]), np.array([1800.0, 1800.0]))
    drag(plot, *(QPoint(round(x), round(y) + n) for n, (x, y) in enumerate(strip)), Qt.KeyboardModifier.ShiftModifier)
    assert [number for number, _ in plot.table()[1]] == [6, 7, 8], "a stretch of the clock"
    plot.show_live(Live(series(61)))
    assert len(list(plot.table()[1])) == 3, "new samples of the same kernel leave the region"
    qtbot.keyClick(plot, Qt.Key.Key_Escape)  # type: ignore[attr-defined]
    plot.flush()
    assert len(list(plot.table()[1])) == 61 and not title.toPlainText()
    plot.keep(plot.chart.plot(), QRectF(1, 0, 1, 99))
    plot.show_live(Live(series(60, "layernorm")))
    assert len(list(plot.table()[1])) == 60


@pytest.mark.parametrize("row", [1, 2])
def test_clock_and_temperature_are_written_beside_their_strips(qtbot: object, row: int) -> None:
    plot = shown(qtbot)
    assert plot.chart is not None
    box = plot.chart.plot(row).axes["left"].sceneBoundingRect().toRect()
    image, back = plot.grab(box.adjusted(2, 3, -6, -3)).toImage(), load_theme("dark").colour("panel")
    places = ((x, y) for x in range(image.width()) for y in range(image.height()))
    assert sum(image.pixelColor(x, y) != back for x, y in places) > 60


@pytest.mark.parametrize("seed", range(20))
def test_an_axis_has_two_ticks_where_they_fit(seed: int) -> None:
    draw = random.Random(seed)
    low = draw.uniform(1, 9)
    high = low * draw.uniform(1.01, 1.2)
    assert len(ticks(low, high, 3)) >= 2
