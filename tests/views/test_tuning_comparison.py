"""The page of two runs: its rows, its curves, what it says where there is nothing or no ratio, what is chosen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from engine.documents.comparison import GroupComparison
from engine.documents.model import ProblemDoc
from engine.tuning.comparison import GroupTrials, best_so_far, compare
from tests.support.plots import spot
from tests.support.pointer import hover
from views.theme import load_theme
from views.tuning.comparison import NO_PAIR, NOTHING, SAME, ComparisonView
from views.tuning.comparison_plot import TOKENS, ComparisonPlot
from views.tuning.nodes import ComparedGroup, GroupProgress, RunChoice, RunCurve
from views.tuning.run import RunView
from views.tuning.trials import Trials
from views.tuning.view import COMPARISON, PROGRESS, TuningView

OWN, OTHER = (9.0, math.nan, 6.0, 4.0, 5.0), (20.0, 8.0, 8.0)
CHOICES = (RunChoice(3, "Run 3, random, finished"), RunChoice(1, "Run 1, model, stopped"))


def side(times: tuple[float, ...], origin: str = "predicted", **program: str) -> GroupTrials:
    return GroupTrials(origin, np.array(times), program)


def curve(
    times: tuple[float, ...], name: str = "run 2", origin: str = "predicted", reached: int | None = 3
) -> RunCurve:
    return RunCurve(name, origin, best_so_far(np.array(times)), reached)


def found(origin: str = "predicted", stages: str = "3") -> GroupComparison:
    return compare(side(OWN, stages="2"), side(OTHER, origin, stages=stages))


@pytest.fixture
def view(qtbot: QtBot) -> ComparisonView:
    made = ComparisonView()
    qtbot.addWidget(made)
    made.resize(900, 320)
    for part in (made.plot, made.groups, made.differences):
        part.set_theme(load_theme("dark"))
    made.show()
    return made


def plot_of(qtbot: QtBot, own: RunCurve | None, other: RunCurve | None) -> ComparisonPlot:
    made = ComparisonPlot()
    qtbot.addWidget(made)
    made.resize(500, 300)
    made.set_theme(load_theme("light"))
    made.show_curves(own, other)
    made.show()
    made.grab()
    return made


def lines(plot: ComparisonPlot, row: int = 0) -> dict[str, tuple[list[float], list[float]]]:
    """Name of a line -> its corners as they are drawn."""
    assert plot.chart is not None
    items = {name: item for name, item in plot.chart.plot(row)._items.items() if name.startswith("line")}
    drawn = {name: item.getOriginalDataset() for name, item in items.items()}
    return {name: (list(x), list(y)) for name, (x, y) in sorted(drawn.items()) if x is not None and len(x)}


def test_a_row_tells_both_bests_what_is_gained_and_the_trials_until_the_slower(view: ComparisonView) -> None:
    alone = ComparedGroup("b", "softmax", compare(side((3.0,)), None))
    view.show_groups((ComparedGroup("a", "matmul", found()), alone), "a")
    titles = [row.title for row in view.groups.rows.walk()]
    assert titles == ["matmul: 4.0 µs predicted, 8.0 µs predicted, ▼ 50.0 %", "softmax: 3.0 µs predicted, –, –"]
    tip = next(view.groups.rows.walk()).tip
    assert "8.0 µs or faster after 3 trials here and 2 there" in tip and "5 trials, 1 failed" in tip
    assert [row.title for row in view.differences.rows.walk()] == ["stages: 2, other run 3"]
    assert not view.differing.text() and not view.note.text() and view.groups.marked == {"a"}
    view.show_groups((ComparedGroup("a", "matmul", found()), alone), "b")
    assert view.differing.text() == NO_PAIR and "only one of the runs" in view.note.text()
    view.grab()


def test_equal_programs_are_said_to_be_equal(view: ComparisonView) -> None:
    view.show_groups((ComparedGroup("a", "matmul", found(stages="2")),), "a")
    assert view.differing.text() == SAME and not list(view.differences.rows)


def test_times_of_different_origins_give_no_ratio_and_a_plot_each(view: ComparisonView, qtbot: QtBot) -> None:
    view.show_groups((ComparedGroup("a", "matmul", found("measured")),), "a")
    assert next(view.groups.rows.walk()).title == "matmul: 4.0 µs predicted, 8.0 µs measured, –"
    assert view.note.text() == "No ratio: predicted and measured times do not compare"
    own, other = curve(OWN, reached=None), curve(OTHER, "run 1", "measured", None)
    plot = plot_of(qtbot, own, other)
    assert plot.is_apart and list(lines(plot)) == ["line 0"] and list(lines(plot, 1)) == ["line 1"]
    assert plot.chart is not None
    above, below = plot.chart.plot(0), plot.chart.plot(1)
    assert above.home == below.home and above.axes["left"].scale_shown.title == "predicted µs"
    assert below.axes["left"].scale_shown.title == "measured µs"
    plot.show_curves(own, curve(OTHER, "run 1", reached=None))
    plot.grab()
    assert list(lines(plot)) == ["line 0", "line 1"] and list(plot.chart.plots) == [(0, 0)]


def test_a_curve_falls_in_steps_to_the_last_trial(qtbot: QtBot) -> None:
    plot = plot_of(qtbot, curve(OWN), curve(OTHER, "run 1", reached=2))
    assert lines(plot) == {
        "line 0": ([1, 3, 3, 4, 4, 5], [9, 9, 6, 6, 4, 4]), "line 1": ([1, 2, 2, 3], [20, 20, 8, 8]),
    }  # fmt: skip
    assert plot.chart is not None
    items = plot.chart.plot()._items
    assert (items["reached 0"].x[0], items["reached 1"].x[0]) == (3, 2)
    assert items["name 0"].toPlainText() == "run 2: 4.0 µs predicted"
    low, high = plot.chart.plot().home[1]
    assert low < 4 and high > 8, "both ends are in sight"
    assert plot.accessibleDescription() == "run 2: 4.0 µs predicted; run 1: 8.0 µs predicted"
    assert [str(row) for row in list(plot.table()[1])[:2]] == ["(1, 9.0, 20.0)", "(2, 9.0, 8.0)"]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_each_run_has_a_colour_of_its_own(qtbot: QtBot, theme: str) -> None:
    plot = plot_of(qtbot, curve(OWN), curve(OTHER, "run 1", reached=2))
    plot.set_theme(load_theme(theme))
    image, colours = plot.grab().toImage(), [load_theme(theme).colour(token) for token in TOKENS]
    ink = [sum(image.pixelColor(x, y) == one for x in range(70, 490) for y in range(10, 260)) for one in colours]
    assert min(ink) > 60


def test_flat_and_far_curves_stay_in_sight(qtbot: QtBot) -> None:
    plot = plot_of(qtbot, curve((10.0,) * 30), curve((100.0,) * 4, "run 1"))
    assert plot.chart is not None
    low, high = plot.chart.plot().home[1]
    assert low < 10 and high > 100
    plot.set_log("y", True)
    plot.grab()
    low, high = plot.chart.plot().home[1]
    assert low < 1 and 2 < high < 3


def test_the_pointer_tells_run_trial_and_time(qtbot: QtBot) -> None:
    plot = plot_of(qtbot, curve(OWN), curve(OTHER, "run 1", reached=2))
    assert plot.chart is not None
    hover(plot.chart.viewport(), spot(plot, 2 * 2))
    assert "run 2, trial 3: best so far 6.00 µs predicted" in plot.chart.readout.text()
    hover(plot.chart.viewport(), spot(plot, 2 * 1 + 1))
    assert "run 1, trial 2: best so far 8.00 µs predicted" in plot.chart.readout.text()


def test_a_run_without_a_time_has_no_curve(qtbot: QtBot) -> None:
    plot = plot_of(qtbot, curve(OWN), curve((math.nan,), "run 1", reached=None))
    assert list(lines(plot)) == ["line 0"] and "run 1: no time yet" in plot.accessibleDescription()
    plot.show_curves(None, curve((math.nan,), "run 1", reached=None))
    assert not plot.has_data()
    plot.grab()


def test_what_to_do_is_said_where_there_is_no_other_run(view: ComparisonView) -> None:
    assert view.pages.currentWidget() is view.empty and view.empty.text.text() == NOTHING
    view.show_refusal("b.db cannot be compared with", ProblemDoc("records", "/x/b.db", "is damaged", "take another"))
    assert view.pages.currentWidget() is view.refused and "It is damaged" in view.refused.text.text()
    asked: list[str] = []
    view.dismissed.connect(lambda: asked.append("back"))
    view.log_requested.connect(lambda: asked.append("log"))
    for button in (*view.refused.buttons, view.log):
        button.click()
    assert asked == ["log", "back", "log"]


def test_a_run_is_chosen_by_key_and_the_list_follows_without_a_choice(view: ComparisonView, qtbot: QtBot) -> None:
    chosen: list[int] = []
    view.run_chosen.connect(chosen.append)
    view.show_choices(CHOICES, -1)
    assert view.choice.currentText() == "No other run" and chosen == []
    qtbot.keyClick(view.choice, Qt.Key.Key_Down)
    qtbot.keyClick(view.choice, Qt.Key.Key_Down)
    view.show_choices((*CHOICES, RunChoice(0, "Run 1 of b.db")), 2)
    assert view.choice.currentText() == "Run 1 of b.db" and "Run 1 of b.db" in view.choice.toolTip()
    view.choice.activated.emit(3)
    assert chosen == [3, 1], "what is there already is not chosen again"
    qtbot.keyClick(view.choice, Qt.Key.Key_Home)
    assert chosen[-1] == 0 and view.choice.accessibleName() == "Compare with"


def test_the_button_for_the_axis_belongs_to_the_plot_in_front(qtbot: QtBot) -> None:
    view, trials = TuningView(), Trials()
    for widget in (view, view.header):
        qtbot.addWidget(widget)
    view.header.show()
    view.show_progress(trials, trials.rows_of(""), GroupProgress("g", "predicted", 0, math.inf, 0, 0, 0, 0), 0)
    view.select_tab(COMPARISON)
    assert view.pages.currentWidget() is view.comparison and view.log.isVisible() and not view.legend.isVisible()
    view.log.click()
    assert view.comparison.plot.log == {"y"} and not view.progress_plot.log
    view.select_tab(PROGRESS)
    assert not view.log.isChecked() and view.legend.isVisible()
    view.select_tab(COMPARISON)
    assert view.log.isChecked()


def test_the_run_panel_offers_the_runs_of_a_file_with_several(qtbot: QtBot) -> None:
    view, chosen = RunView(), []
    qtbot.addWidget(view)
    view.run_chosen.connect(chosen.append)
    view.show_runs(CHOICES[:1], 3)
    assert view.runs.isHidden()
    view.show_runs(CHOICES, 1)
    assert not view.runs.isHidden() and view.runs.currentText() == CHOICES[1].text and not chosen
    qtbot.keyClick(view.runs, Qt.Key.Key_Up)
    assert chosen == [3]
    view.show_runs(CHOICES, 1, "wait")
    assert not view.runs.isEnabled() and view.runs.toolTip() == "wait"
