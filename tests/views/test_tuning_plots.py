"""Bars of an ablation and parallel axes of the dimensions: what is drawn, pointed at, selected and filtered."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QImage, QPainter

from engine.documents.ablation import AblationDoc, FlipDoc
from tests.support.plots import click, drag, spot
from views.plots.frame import PlotFrame
from views.theme import load_theme
from views.tuning.ablation_plot import AblationPlot
from views.tuning.filtering import filter_trials
from views.tuning.parallel import ParallelPlot
from views.tuning.trials import NEW, NONE, Batch, Trials, Words
from views.tuning.view import TuningView

FLIPS = (
    FlipDoc("S0 @ i: mark block 128", "tuner", "wide rows", "S0 @ i: mark block 32", 50.0, 10.0, ""),
    FlipDoc("S0 @ j: mark lane 32", "user", "", "", 42.0, 2.0, ""),
    FlipDoc("S0: stages 3", "tuner", "", "S0: stages 2", 39.0, -1.0, ""),
    FlipDoc("S0 @ k: mark serial", "tuner", "", "", None, None, "no family takes it"),
)
DIMENSIONS = {"tile": ("64x64", "128x64", "128x128"), "stages": ("2", "3", "4"), "fixed": ("1",)}


def ablation(origin: str = "predicted") -> AblationDoc:
    return AblationDoc("g", origin, 40.0, FLIPS)


def searched(count: int, seed: int = 3, more: dict[str, tuple[str, ...]] | None = None) -> Trials:
    """Trials that are the faster the larger the tile; every tenth has no time, every seventh no stages.

    more: dimensions besides `DIMENSIONS`.
    """
    made, draw = Trials(), random.Random(seed)
    words, dimensions = made.words, DIMENSIONS | (more or {})
    chosen = {name: [draw.choice(texts) for _ in range(count)] for name, texts in dimensions.items()}
    chosen["stages"] = ["" if n % 7 == 6 else text for n, text in enumerate(chosen["stages"])]
    times = np.array([40.0 - 10 * DIMENSIONS["tile"].index(tile) + draw.random() for tile in chosen["tile"]])
    times[9::10] = np.nan
    codes = {name: words.dimensions.setdefault(name, Words()) for name in dimensions}
    group, mapping = (np.full(count, each, np.int32) for each in (words.groups.code("g"), words.mappings.code("m")))
    numbers, state, kind = np.arange(1, count + 1), np.full(count, NEW, np.int32), np.full(count, NONE, np.int32)
    values = {
        name: np.array([codes[name].code(text) if text else NONE for text in texts], np.int32)
        for name, texts in chosen.items()
    }
    made.append(Batch(numbers, numbers, group, mapping, state, kind, times, times, times, times, values))
    return made


def show(qtbot: object, plot: PlotFrame, theme: str = "dark") -> None:
    qtbot.addWidget(plot)  # type: ignore[attr-defined]
    plot.set_theme(load_theme(theme))
    plot.resize(720, 300)
    plot.show()
    plot.flush()
    plot.grab()


def bars(qtbot: object, origin: str = "predicted", theme: str = "dark") -> AblationPlot:
    plot = AblationPlot()
    plot.show_ablation(ablation(origin))
    show(qtbot, plot, theme)
    return plot


def parallel(
    qtbot: object, count: int = 60, theme: str = "dark", more: dict[str, tuple[str, ...]] | None = None
) -> ParallelPlot:
    plot, trials = ParallelPlot(), searched(count, more=more)
    plot.show_trials(trials, trials.rows_of("g"), "predicted")
    show(qtbot, plot, theme)
    return plot


def test_bars_go_right_for_what_saves_and_left_for_what_costs(qtbot: object) -> None:
    plot = bars(qtbot)
    assert plot.chart is not None
    inner = plot.chart.plot()
    assert list(inner._items["better"].opts["x1"]) == [10.0, 2.0] and list(inner._items["worse"].opts["x1"]) == [-1.0]
    tops = inner._items["better"].opts["y"]
    assert tops[0] > tops[1] > inner._items["worse"].opts["y"][0], "the most worthwhile stands at the top"
    assert inner.axes["bottom"].scale_shown.title == "predicted µs saved"
    (low, high), _ = inner.home
    assert low < -1.0 and high > 10.0, "figures have room beside the bars"


@pytest.mark.parametrize("origin", ["predicted", "synthetic", "measured"])
def test_only_measured_bars_are_filled(qtbot: object, origin: str) -> None:
    plot = bars(qtbot, origin)
    assert plot.chart is not None
    brush = plot.chart.plot()._items["better"].opts["brush"]
    assert (brush.style() != Qt.BrushStyle.NoBrush) is (origin == "measured")


def test_a_bar_is_told_and_selects_its_row(qtbot: object) -> None:
    plot, view = bars(qtbot), TuningView()
    qtbot.addWidget(view)  # type: ignore[attr-defined]
    heard: list[int] = []
    plot.entry_selected.connect(heard.append)
    click(plot, spot(plot, 1))
    assert heard == [1]
    assert plot.describe(0) == "S0 @ i: mark block 128\n50.0 µs → 40.0 µs\nwide rows"
    assert "no family takes it" in plot.describe(3)
    assert [row[2] for row in plot.table()[1]] == [10.0, 2.0, -1.0, None]
    view.show_ablation(ablation(), "trial 7")
    assert not view.bars.isHidden() and "needed" in view.bars.accessibleDescription()
    view.bars.entry_selected.emit(2)
    assert view.ablation.marked == {"2"} and view.bars.selected == 2
    view.show_ablation(None)
    assert view.bars.isHidden() and not view.bars.accessibleDescription()


def test_entries_without_room_are_reached_by_a_drag(qtbot: object) -> None:
    plot = AblationPlot()
    plot.show_ablation(AblationDoc("g", "predicted", 40.0, FLIPS * 10))
    show(qtbot, plot)
    assert plot.chart is not None and plot.chart.plot().title is not None
    told = plot.chart.plot().title.toPlainText()
    shown = -plot.chart.plot().home[1][0] + 0.5
    assert f"drag for {40 - shown:.0f} more" in told and 1 <= shown < 40


def test_only_dimensions_that_vary_have_an_axis(qtbot: object) -> None:
    plot = parallel(qtbot)
    assert plot.axes == ("tile", "stages") and plot.labels[0] == ["64x64", "128x64", "128x128"]
    assert plot.places.shape == (54, 3), "trials without a time have no line"
    assert np.nanmin(plot.places) == 0 and np.nanmax(plot.places) == 1
    for line, row in zip(plot.places, plot.rows.tolist(), strict=True):
        stages = plot.trials.text("stages", row)
        assert np.isnan(line[1]) if not stages else plot.labels[1][round(line[1] * 2)] == stages
        assert plot.labels[0][round(line[0] * 2)] == plot.trials.text("tile", row)
    order = np.argsort(plot.places[:, 2])
    assert list(order) == list(np.argsort(plot.trials.microseconds[plot.rows]))


@pytest.mark.parametrize(("width", "rows"), [(480, 2), (1100, 1)])
def test_names_and_figures_of_the_axes_have_room(qtbot: object, width: int, rows: int) -> None:
    """Names of neighbours ran into each other, the first began and the last axis' figures ended beyond the edge."""
    names = ("row_warps", "column_warps", "row_tiles", "column_tiles", "register_stages")
    plot = parallel(qtbot, more=dict.fromkeys(names, ("1", "2", "4")))
    plot.resize(width, 300)
    plot.flush()
    plot.grab()
    assert plot.chart is not None
    inner = plot.chart.plot()
    axis, image = inner.axes["bottom"], QImage(8, 8, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    _, _, written = axis.generateDrawSpecs(painter)
    painter.end()
    lines: dict[bool, list[QRectF]] = {False: [], True: []}
    for box, _, text in written:
        lines[text.startswith("\n")].append(box.translated(axis.pos()))
    assert len(written) == len(plot.axes) + 1 == 8 and sum(bool(line) for line in lines.values()) == rows
    for line in lines.values():
        assert all(left.right() < right.left() for left, right in pairwise(line))
        assert all(box.left() >= 0 and box.right() <= width for box in line)
    figures = (item for name, item in inner._items.items() if name.startswith(f"value {len(plot.axes)} "))
    assert all(item.mapRectToScene(item.boundingRect()).right() <= width for item in figures)


def test_a_line_is_drawn_once_and_the_fastest_in_front(qtbot: object) -> None:
    plot = parallel(qtbot, 2000)
    assert plot.chart is not None
    inner = plot.chart.plot()
    slow, fast = (inner._items[name] for name in ("slow", "fast"))
    first = [(a, b) for a, b in zip(slow.yData[::2], slow.yData[1::2], strict=True)]
    across = [pair for pair, x in zip(first, slow.xData[::2], strict=True) if x == 0]
    assert len(across) == len(set(across)) <= 9
    starts = {y for y, x in zip(fast.yData, fast.xData, strict=True) if x == 0}
    assert starts == {1.0}, "the fastest trials have the largest tile"


def test_a_region_filters_by_the_values_that_it_holds(qtbot: object) -> None:
    """What the filter keeps are the trials whose lines pass through the region."""
    plot = parallel(qtbot)
    heard: list[str] = []
    plot.filter_requested.connect(heard.append)
    assert plot.chart is not None
    inner = plot.chart.plot()
    corners = inner.on_page(np.array([0.8, 1.2]), np.array([1.05, 0.4]))
    drag(plot, *(QPoint(round(x), round(y)) for x, y in corners), Qt.KeyboardModifier.ShiftModifier)
    assert heard == ["stages>=3 stages<=4"]
    plot.keep(inner, QRectF(-0.2, 0.9, 0.4, 0.2))
    assert heard[-1] == "tile=128x128"
    plot.keep(inner, QRectF(1.8, -0.01, 0.4, 0.26))
    kept, unknown = filter_trials(plot.trials, plot.rows, heard[-1])
    assert not unknown and set(kept) == set(plot.rows[plot.places[:, 2] <= 0.25])
    count = len(heard)
    plot.keep(inner, QRectF(0.3, 0, 0.2, 1))
    assert len(heard) == count, "between the axes there are no values"


def test_a_trial_is_selected_on_the_axis_of_times(qtbot: object) -> None:
    plot = parallel(qtbot)
    heard: list[int] = []
    plot.trial_selected.connect(heard.append)
    best = plot.trials.best(plot.rows)
    click(plot, spot(plot, best))
    assert heard == [best]
    plot.show_selection(best)
    plot.flush()
    assert plot.chart is not None and plot.chart.plot()._items["selected"].yData[-1] == 0.0


def test_nothing_is_drawn_where_nothing_varies(qtbot: object) -> None:
    plot, trials = ParallelPlot(), searched(1)
    plot.show_trials(trials, trials.rows_of("g"), "predicted")
    assert not plot.has_data()
    plot.show_trials(Trials(), np.empty(0, np.int64), "predicted")
    assert not plot.has_data()
