"""Columns of trials, their table, filter and dots; rows of funnels and rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QAbstractItemModelTester

from tests.support.plots import click, drag, spot
from tests.support.pointer import hover
from views.theme import load_theme
from views.tuning.filtering import filter_trials
from views.tuning.nodes import Cut, GroupProgress, TrialShare
from views.tuning.progress import ProgressPlot, improvements, time_range
from views.tuning.promise import PromisePlot
from views.tuning.rows import cut_rows, share_rows
from views.tuning.table import NUMBER, PROMISED, RESULT, SPREAD, TIME, TrialModel
from views.tuning.trial_table import TrialsView
from views.tuning.trials import FAILED, NEW, NONE, Batch, Trials, Words
from views.tuning.view import TuningView


def batch(trials: Trials, times: Sequence[float], group: str = "g", first: int = 1, spread: float = math.nan) -> Batch:
    """Trials with these times, NaN for a wrong result; 2, 3, 4, 2, ... stages.

    spread: part of the time between it and the 20th and 80th percentile.
    """
    words, count = trials.words, len(times)
    codes = words.dimensions.setdefault("stages", Words())
    asked = [2 + number % 3 for number in range(count)]
    failed = [math.isnan(time) for time in times]
    return Batch(
        np.arange(first, first + count), np.arange(first, first + count),
        np.full(count, words.groups.code(group), np.int32), np.full(count, words.mappings.code("m"), np.int32),
        np.array([FAILED if bad else NEW for bad in failed], np.int32),
        np.array([words.kinds.code("wrong result") if bad else NONE for bad in failed], np.int32),
        np.array(times, float), np.arange(count, dtype=float),
        np.array(times, float) * (1 - spread), np.array(times, float) * (1 + spread),
        {"stages": np.array([codes.code(str(each)) for each in asked], np.int32)},
    )  # fmt: skip


def trials_of(*times: float) -> Trials:
    made = Trials()
    made.append(batch(made, times))
    return made


def shown(model: TrialModel, column: str = NUMBER) -> list[str]:
    return [model.cell(int(row), column).text for row in model.order]


def table(trials: Trials) -> TrialModel:
    model = TrialModel()
    model.show_group(trials, "g", "predicted")
    return model


def test_columns_grow_and_keep_what_was_there() -> None:
    made = Trials()
    made.append(batch(made, (3.0, 1.0)))
    made.append(batch(made, [float(number) for number in range(5, 3005)], "other", 1))
    made.append(batch(made, (math.nan, 0.5), first=3))
    assert len(made) == 3004 and list(made.rows_of("g")) == [0, 1, 3002, 3003]
    assert made.best(made.rows_of("g")) == 3003 and made.number[3003] == 4
    assert made.text("kind", 3002) == "wrong result" and made.program(0) == "stages 2"
    assert list(made.rows_of("nobody")) == [] and made.best(made.rows_of("nobody")) == NONE


def test_a_dimension_that_comes_later_is_unknown_before() -> None:
    made = trials_of(1.0)
    late = batch(made, (2.0,))
    made.words.dimensions["warps"] = Words()
    made.append(Batch(*(getattr(late, name) for name in late.__dataclass_fields__ if name != "values"),
                      {"warps": np.array([made.words.dimensions["warps"].code("8")], np.int32)}))  # fmt: skip
    assert made.text("warps", 0) == "" and made.text("warps", 1) == "8" and made.text("stages", 1) == ""


def test_numbers_sort_by_size_and_words_after_them() -> None:
    words = Words()
    for text in ("16", "none", "4", "128x64", "128x8", "8"):
        words.code(text)
    order = sorted(range(6), key=lambda code: words.ranks()[code])
    assert [words.texts[code] for code in order] == ["4", "8", "16", "128x8", "128x64", "none"]


def test_sorting_puts_failures_last_in_both_directions(qtbot: object) -> None:
    model = table(trials_of(3.0, math.nan, 1.0, 2.0))
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    assert shown(model) == ["3", "4", "1", "2"]
    model.sort_by(TIME, descending=True)
    assert shown(model) == ["1", "4", "3", "2"] and shown(model, TIME)[-1] == "—"
    model.sort_by(PROMISED, descending=True)
    assert shown(model) == ["4", "3", "2", "1"]
    model.sort_by("stages", descending=False)
    assert shown(model) == ["1", "4", "2", "3"]


def test_rows_that_come_keep_the_order_and_the_chosen_trial(qtbot: object) -> None:
    trials = trials_of(3.0, 1.0)
    view = TrialsView()
    qtbot.addWidget(view)  # type: ignore[attr-defined]
    QAbstractItemModelTester(view.table.trials, QAbstractItemModelTester.FailureReportingMode.Fatal)
    view.show_trials(trials, "g", "predicted")
    view.table.select(0)
    assert view.table.currentIndex().row() == 1
    trials.append(batch(trials, (0.5, 2.0), first=3))
    view.show_trials(trials, "g", "predicted")
    assert shown(view.table.trials) == ["3", "2", "4", "1"]
    assert view.table.currentIndex().row() == 3 and view.table.selected == 0
    assert view.subtitle.text() == "4 shown, sorted by predicted"


def test_a_failure_says_its_kind_and_a_wrong_result_is_told_apart() -> None:
    model = table(trials_of(1.0, math.nan))
    cell = model.cell(1, RESULT)
    assert cell.text == "wrong result" and cell.failed and cell.wrong
    assert model.cell(0, RESULT).text == "OK" and not model.cell(0, RESULT).failed


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", [1, 2, 3, 4]), ("failed", [2]), ("ok", [1, 3, 4]), ("wrong", [2]), ("time<2.5", [3, 4]),
        ("stages=2", [1, 4]), ("stages!=2", [2, 3]), ("stages>2 ok", [3]), ("sta>=3", [2, 3]), ("trial<=2", [1, 2]),
        ("promised=3", [4]), ("reused", []),
    ],
)  # fmt: skip
def test_filters(text: str, numbers: list[int]) -> None:
    trials = trials_of(3.0, math.nan, 1.0, 2.0)
    rows, unknown = filter_trials(trials, trials.rows_of("g"), text)
    assert list(trials.number[rows]) == numbers and unknown == ""


@pytest.mark.parametrize("text", ["nobody", "warps=3", "time<fast"])
def test_words_that_mean_nothing_are_told_and_keep_everything(text: str) -> None:
    trials = trials_of(3.0, 1.0)
    rows, unknown = filter_trials(trials, trials.rows_of("g"), text)
    assert len(rows) == 2 and unknown == text


def test_improvements_are_the_trials_that_were_faster_than_all_before() -> None:
    assert list(improvements(np.array([math.nan, 5.0, 6.0, 4.0, 4.0, math.nan, 1.0]))) == [1, 3, 6]


def progress(qtbot: object, trials: Trials, origin: str = "predicted", before: float = 8.0) -> ProgressPlot:
    plot = ProgressPlot()
    qtbot.addWidget(plot)  # type: ignore[attr-defined]
    plot.resize(500, 300)
    plot.set_theme(load_theme("light"))
    rows, times = trials.rows_of("g"), trials.microseconds
    best = int(np.nanargmin(times))
    summary = GroupProgress("g", origin, before, float(times[best]), best + 1, len(rows), 1, int(np.isnan(times).sum()))
    plot.show_trials(trials, rows, summary, 0)
    plot.show()
    plot.trial_selected.connect(plot.show_selection)
    return plot


@pytest.mark.parametrize("before", [4.1, 4.6, 5.0, 6.0, 12.0])
def test_how_many_trials_there_are_is_not_written_across_the_start(qtbot: object, before: float) -> None:
    plot = progress(qtbot, trials_of(*np.linspace(4, 5, 9)), before=before)
    assert plot.chart is not None
    plot.chart.grab()
    items = plot.chart.plot()._items
    name = items["now"].label.mapRectToScene(items["now"].label.boundingRect())
    line = items["start"].mapToScene(items["start"].boundingRect().center()).y()
    assert not name.top() < line < name.bottom()


@pytest.mark.parametrize("slow", [3, 20, 45])
def test_what_is_searched_keeps_its_room_however_many_trials_are_slow(slow: int) -> None:
    draw = np.random.default_rng(slow)
    fast = 16 + draw.exponential(1.0, 60 - slow)
    times = draw.permutation([*fast, *draw.normal(100, 5, slow)])
    low, high = time_range(times, 17.0)
    taken = min(fast.max(), high) - fast.min()
    assert taken > 0.15 * (high - low) and high > 17.0 and low < fast.min()
    assert np.mean(fast > high) <= 0.2, "of the fast ones few stand at the edge"
    assert time_range(times, 40.0)[1] >= 40.0, "the start is in sight"
    assert time_range(times, 17.0, log=True)[1] > times.max(), "a logarithmic axis has room for all"


def test_the_logarithmic_axis_is_a_click_or_a_key_away(qtbot: object) -> None:
    trials, view = trials_of(*[10.0] * 40, 90.0), TuningView()
    qtbot.addWidget(view)  # type: ignore[attr-defined]
    view.show_progress(trials, trials.rows_of("g"), GroupProgress("g", "predicted", 11.0, 10.0, 1, 41, 1, 0), 41)
    assert "above" in view.legend.accessibleDescription()
    view.log.click()
    assert view.progress_plot.log == {"y"} and "above" not in view.legend.accessibleDescription()
    qtbot.keyClick(view.progress_plot, Qt.Key.Key_L)  # type: ignore[attr-defined]
    assert not view.progress_plot.log and not view.log.isChecked()
    assert "above" in view.legend.accessibleDescription()


def test_outliers_stand_at_the_edge_and_leave_the_others_room(qtbot: object) -> None:
    low, high = time_range(np.array([10.0] * 98 + [11.0, 5000.0]), 12.0)
    assert high < 20 and low < 10 < (low + high) / 2

    def drawn(slowest: float) -> tuple[float, int]:
        """Where times are cut off, and how much ink stands at the upper edge over the last trial."""
        plot = progress(qtbot, trials_of(*[10.0] * 98, 11.0, slowest), before=12.0)
        assert plot.chart is not None
        x, top = spot(plot, 99).x(), round(plot.chart.plot().box.sceneBoundingRect().top())
        image, ink = plot.grab().toImage(), load_theme("light").colour("text-2")
        return plot.edge, sum(image.pixelColor(a, b) == ink for a in range(x - 8, x + 2) for b in range(top, top + 20))

    edge, arrow = drawn(5000.0)
    assert edge == high and arrow > 0 and drawn(11.0) == (0.0, 0)


def test_a_click_near_a_dot_and_the_arrow_keys_choose_trials(qtbot: object) -> None:
    plot, chosen = progress(qtbot, trials_of(5.0, 6.0, math.nan, 4.0)), []
    plot.trial_selected.connect(chosen.append)
    click(plot, spot(plot, 1))
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_End, Qt.Key.Key_Home):
        qtbot.keyClick(plot, key)  # type: ignore[attr-defined]
    click(plot, spot(plot, 2, row=1))
    assert chosen == [1, 2, 3, 0, 3, 0, 2], "a failure is chosen by its tick"
    plot.grab()


def test_the_pointer_tells_what_a_trial_tried(qtbot: object) -> None:
    plot = progress(qtbot, trials_of(5.0, 6.0, math.nan, 4.0))
    at = spot(plot, 1)
    assert plot.chart is not None
    hover(plot.chart.viewport(), at)
    assert "trial 2: 6.00 µs\nstages 3" in plot.chart.readout.text()
    hover(plot.chart.viewport(), spot(plot, 2, row=1))
    assert "trial 3: wrong result" in plot.chart.readout.text()


def test_a_region_of_a_plot_is_a_filter_of_the_table(qtbot: object) -> None:
    trials = trials_of(5.0, 6.0, math.nan, 4.0, 4.5)
    plot, asked = progress(qtbot, trials), []
    plot.filter_requested.connect(asked.append)
    around = QPoint(8, 8)
    ends = spot(plot, 3), spot(plot, 4)
    lower_left, upper_right = QPoint(ends[0].x() - 8, ends[0].y() + 8), QPoint(ends[1].x() + 8, ends[1].y() - 8)
    drag(plot, lower_left, upper_right, Qt.KeyboardModifier.ShiftModifier)
    assert list(filter_trials(trials, plot.rows, asked[-1])[0]) == [3, 4]
    drag(plot, spot(plot, 2, row=1) - around, spot(plot, 2, row=1) + around, Qt.KeyboardModifier.ShiftModifier)
    assert list(filter_trials(trials, plot.rows, asked[-1])[0]) == [2]
    promise = PromisePlot()
    qtbot.addWidget(promise)  # type: ignore[attr-defined]
    promise.resize(500, 300)
    promise.set_theme(load_theme("light"))
    trials.promised[:] = (5.0, 5.5, 6.0, 9.0, 1.0)
    promise.show_trials(trials, plot.rows, "measured", math.nan)
    promise.show()
    promise.filter_requested.connect(asked.append)
    drag(promise, spot(promise, 1) - around, spot(promise, 1) + around, Qt.KeyboardModifier.ShiftModifier)
    assert list(filter_trials(trials, plot.rows, asked[-1])[0]) == [1]


def test_a_dot_for_each_trial_that_has_promise_and_time(qtbot: object) -> None:
    trials, plot, chosen = trials_of(5.0, 6.0, math.nan, 4.0), PromisePlot(), []
    qtbot.addWidget(plot)  # type: ignore[attr-defined]
    plot.resize(400, 300)
    plot.set_theme(load_theme("dark"))
    trials.promised[:] = (10.0, 20.0, 30.0, math.nan)
    plot.show_trials(trials, trials.rows_of("g"), "predicted", 0.5)
    plot.show()
    plot.trial_selected.connect(chosen.append)
    first, second = spot(plot, 0), spot(plot, 1)
    assert first.x() < second.x() and first.y() > second.y() and list(plot.rows) == [0, 1]
    click(plot, second)
    assert chosen == [1] and plot.headline() == "rank correlation 0.500 (Spearman) over 2 trials; both are predictions"


def test_the_funnel_ends_with_what_was_tried() -> None:
    rows = cut_rows((Cut("All programs", 999), Cut("registers", 99), Cut("Tried", 9)))
    parts = [row.value[1] for row in rows]  # type: ignore[index]
    assert parts == pytest.approx([1, 2 / 3, 1 / 3]) and [row.value[2] for row in rows] == [False, False, True]  # type: ignore[index]


def test_the_head_of_the_trials_stays_in_a_narrow_panel(qtbot: object) -> None:
    """What is shown of how many gives way to the buttons, which are there while there is a run."""
    view = TrialsView()
    qtbot.addWidget(view.header)  # type: ignore[attr-defined]
    view.header.show()
    view.show_trials(trials_of(*range(1, 101)), "g", "predicted", several=True)
    said = view.subtitle.fontMetrics().horizontalAdvance(view.subtitle.text())
    view.header.resize(580, view.header.height())
    assert view.header.minimumSizeHint().width() <= 580
    assert view.title.isVisible() and view.subtitle.width() < said
    view.header.resize(900, view.header.height())
    assert view.subtitle.width() >= said
    view.show_nothing()
    assert not view.every.isVisible() and not view.apply_all.isVisible()


def test_mappings_stand_under_their_group_only_where_there_are_several() -> None:
    one, two = TrialShare("a/x", "x", (1,), 0.1), TrialShare("a/y", "y", (2,), 0.0)
    both, single = share_rows(
        (TrialShare("a", "a", (1, 2), 0.1, (), (one, two)), TrialShare("b", "b", (3,), 0.0, (), (one,))), 3
    )
    assert [row.title for row in both.children] == ["x", "y"] and single.children == ()


def test_the_spread_of_times_is_a_column_where_there_is_any() -> None:
    assert SPREAD not in table(trials_of(3.0, math.nan)).columns
    made = Trials()
    made.append(batch(made, (40.0, math.nan, 20.0), spread=0.25))
    made.append(batch(made, (30.0,), first=4))
    model = table(made)
    assert model.columns[:3] == (NUMBER, TIME, SPREAD) and model.head(SPREAD) == "p20–p80"
    model.sort_by(NUMBER, False)
    assert shown(model, SPREAD) == ["30.0–50.0", "", "15.0–25.0", ""]
    made.condemn(0, made.words.kinds.code("wrong result"))
    assert shown(model, SPREAD)[0] == "" and np.isnan(made.microseconds[0])


def test_a_bar_stands_over_the_spread_of_a_time(qtbot: object) -> None:
    def painted(spread: float) -> int:
        made = Trials()
        made.append(batch(made, (40.0, 20.0), spread=spread))
        plot = progress(qtbot, made, "measured", 50.0)
        column = spot(plot, 0).x()
        image = plot.grab().toImage()
        paper = image.pixelColor(column + 12, 60).lightness()  # dark, too, where a window's style sheet is in force
        return sum(abs(image.pixelColor(column, y).lightness() - paper) > 60 for y in range(image.height()))

    assert painted(0.2) > painted(math.nan) + 10


def test_mappings_that_are_not_searched_say_why() -> None:
    refused = TrialShare("refused 0", "wmma", (), 0.0, refused="not searched: float32")
    (row,) = share_rows((TrialShare("g", "g", (1, 2), 0.1, (), (TrialShare("m", "m", (1, 2), 0.1), refused)),), 2)
    assert [child.title for child in row.children] == ["m", "wmma"]
    assert "not searched: float32" in row.children[1].tip
    (row,) = share_rows((TrialShare("g", "g", (1, 2), 0.1, (), (TrialShare("m", "m", (1, 2), 0.1),)),), 2)
    assert row.children == (), "one mapping is the group"
