"""Two runs in the window: another of the file, one of another file, one that grows, one that is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.shell.render import PictureOptions, render
from app.shell.window import Window
from engine.execution.nodes import MEASURED
from engine.records.nodes import FINISHED, PAUSED, RUNNING, STOPPED, Attempt
from engine.records.runs import RunLog
from engine.records.store import RecordStore
from engine.support.errors import BadInput
from tests.app.driving import COMMAND, MODEL, select
from tests.app.test_window import pixels
from tests.app.tuning_runs import GROUP, TIMES, add_trials, attached, wait, write_run
from tests.records.test_runs import REQUEST, TASK, trial
from views.theme import load_theme
from views.tuning.comparison import NOTHING
from views.tuning.comparison_plot import TOKENS
from views.tuning.view import COMPARISON

SLOW = (90.0, None, 60.0)


@pytest.fixture
def window(quiet: Window, qtbot: QtBot, tmp_path: Path) -> Window:
    """Shows the second of two runs of one file, with the tab of two runs in front."""
    select(quiet, qtbot, GROUP)
    quiet.set_perspective("Tune")
    quiet.panels.tuning.select_tab(COMPARISON)
    path = tmp_path / "night.db"
    write_run(path, quiet, GROUP, SLOW, STOPPED).store.close()
    write_run(path, quiet, GROUP, TIMES).store.close()
    attached(quiet, qtbot, path, len(TIMES))
    return quiet


def compared(window: Window, qtbot: QtBot, count: int) -> None:
    """Waits until so many trials of the other run are shown."""
    tuning = window.wiring.tuning
    comparison = tuning.comparison
    wait(qtbot, lambda: comparison.other is not None and len(comparison.other.trials) == count)
    tuning.show()


def rows(window: Window) -> list[str]:
    return [row.title for row in window.panels.tuning.comparison.groups.rows.walk()]


def test_another_run_of_the_file_is_chosen_and_compared(window: Window, qtbot: QtBot) -> None:
    page, tuning = window.panels.tuning.comparison, window.wiring.tuning
    assert page.pages.currentWidget() is page.empty and page.empty.text.text() == NOTHING
    texts = [page.choice.itemText(place) for place in range(page.choice.count())]
    assert texts[0] == "No other run" and texts[1].startswith("Run 1, ") and texts[1].endswith("model, stopped")
    assert len(texts) == 2, "the shown run is not offered"
    qtbot.keyClick(page.choice, Qt.Key.Key_Down)
    compared(window, qtbot, len(SLOW))
    (row,) = rows(window)
    assert "45.0 µs predicted, 60.0 µs predicted, ▼ 25.0 %" in row
    assert [one.title for one in page.differences.rows.walk()] == ["block: 2, other run 4", "vector: 8, other run 2"]
    own, other = page.plot.curves
    assert own is not None and other is not None
    assert (own.name, own.reached, other.name, other.reached) == ("run 2", 1, "run 1", 3)
    qtbot.keyClick(page.choice, Qt.Key.Key_Home)
    tuning.show()
    assert page.pages.currentWidget() is page.empty and tuning.comparison.other is None


def test_the_run_panel_shows_another_run_of_the_file(window: Window, qtbot: QtBot) -> None:
    runs, tuning = window.panels.run.runs, window.wiring.tuning
    tuning.comparison.choose(1)
    compared(window, qtbot, len(SLOW))
    assert runs.isVisible() and runs.currentData() == 2 and runs.count() == 2
    qtbot.keyClick(runs, Qt.Key.Key_Down)
    wait(qtbot, lambda: tuning.shown is not None and tuning.shown.follower.number == 1 and tuning.shown.is_complete)
    tuning.show()
    assert tuning.best == 2 and "3 shown" in window.panels.trials.subtitle.text() and runs.currentData() == 1
    assert tuning.comparison.other is None, "a run is not compared with itself"
    assert not window.panels.run.resume.isVisible(), "only the last run can be started again"
    tuning.control.resume()
    assert not tuning.control.is_live


def test_another_run_of_the_file_is_shown_at_the_same_group(window: Window, qtbot: QtBot, tmp_path: Path) -> None:
    tuning, path = window.wiring.tuning, tmp_path / "several.db"
    for _ in range(2):
        log = write_run(path, window, GROUP, TIMES, others=("matmul_0",))
        add_trials(log, window, GROUP, (30.0,))
        log.store.close()
    window.workspace.bus.select_group("")
    attached(window, qtbot, path, len(TIMES) + 1)
    assert tuning.shown is not None and tuning.group == GROUP, "the last round went to it"
    page = window.panels.tuning.comparison
    tuning.comparison.choose(1)
    compared(window, qtbot, len(TIMES) + 1)
    page.group_chosen.emit("matmul_0")
    assert tuning.group == "matmul_0"
    window.workspace.bus.select_group("")
    tuning.control.show_run(1)
    wait(qtbot, lambda: tuning.shown is not None and tuning.shown.follower.number == 1 and tuning.shown.is_complete)
    assert tuning.group == "matmul_0"


def test_the_last_run_of_another_log_is_compared(window: Window, qtbot: QtBot, tmp_path: Path) -> None:
    page, _tuning, path = window.panels.tuning.comparison, window.wiring.tuning, tmp_path / "other.db"
    for times in (TIMES, (40.0, 30.0)):
        write_run(path, window, GROUP, times, STOPPED, origin=MEASURED, target="a100").store.close()
    began = perf_counter()
    window.files.other_records_chosen.emit(str(path))
    assert perf_counter() - began < 0.1, "the file is read on a thread"
    compared(window, qtbot, 2)
    assert page.choice.currentText().startswith("Run 2 of other.db, ") and page.choice.count() == 3
    assert "predicted and measured times do not compare" in page.note.text() and page.plot.is_apart
    assert [curve.name for curve in page.plot.curves if curve] == ["run 2", "run 2 of other.db"]
    assert rows(window)[0].endswith("45.0 µs predicted, 30.0 µs measured, –")
    window.files.other_records_chosen.emit(str(tmp_path / "night.db"))
    compared(window, qtbot, len(SLOW))
    assert page.choice.currentText().startswith("Run 1, "), "of the shown file it is the newest other run"


@pytest.mark.few(2)
@pytest.mark.parametrize(("text", "reason"), [("recipe: none\n" * 100, "no file of records"), (None, "is not there")])
def test_a_file_that_cannot_be_compared_with_is_told_on_the_page(
    window: Window, qtbot: QtBot, tmp_path: Path, text: str | None, reason: str
) -> None:
    page, tuning, path = window.panels.tuning.comparison, window.wiring.tuning, tmp_path / "bad.db"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    tuning.comparison.open(str(path))
    wait(qtbot, lambda: page.pages.currentWidget() is page.refused)
    assert reason in page.refused.text.text() and "bad.db" in page.refused.title.text()
    page.refused.buttons[1].click()
    wait(qtbot, lambda: page.pages.currentWidget() is page.empty)
    assert tuning.shown is not None and len(tuning.shown.trials) == len(TIMES)


def test_a_file_with_no_run_besides_the_shown_one_is_told(window: Window, qtbot: QtBot, tmp_path: Path) -> None:
    page, tuning, path = window.panels.tuning.comparison, window.wiring.tuning, tmp_path / "single.db"
    write_run(path, window, GROUP, TIMES, STOPPED).store.close()
    attached(window, qtbot, path, len(TIMES))
    tuning.comparison.open(str(path))
    wait(qtbot, lambda: page.pages.currentWidget() is page.refused)
    assert "holds no run besides the shown one" in page.refused.text.text()
    assert not window.panels.run.runs.isVisible(), "there is nothing to choose from"


def test_the_other_run_is_followed_while_it_grows(window: Window, qtbot: QtBot, tmp_path: Path) -> None:
    page, tuning, path = window.panels.tuning.comparison, window.wiring.tuning, tmp_path / "live.db"
    log = write_run(path, window, GROUP, SLOW, RUNNING, others=("matmul_0",))
    tuning.comparison.open(str(path))
    compared(window, qtbot, len(SLOW))
    assert page.choice.currentText().endswith("running")
    add_trials(log, window, GROUP, (30.0,))
    wait(qtbot, lambda: "30.0 µs" in rows(window)[0])
    assert "▲ 50.0 %" in rows(window)[0] and len(rows(window)) == 2
    log.set_state(PAUSED)
    wait(qtbot, lambda: page.choice.currentText().endswith("paused"))
    page.group_chosen.emit(page.groups.rows.row_at(page.groups.rows.index(1, 0)).key)
    tuning.show()
    assert tuning.group == GROUP and page.plot.curves[0] is None, "a group that only the other run has is shown there"
    log.store.close()


def test_a_run_that_is_new_in_the_file_can_be_chosen(window: Window, qtbot: QtBot, tmp_path: Path) -> None:
    page = window.panels.tuning.comparison
    write_run(tmp_path / "night.db", window, GROUP, (7.0,)).store.close()
    wait(qtbot, lambda: page.choice.count() == 3)
    assert page.choice.itemText(1).startswith("Run 3, ") and window.panels.run.runs.count() == 3
    assert not window.panels.run.resume.isVisible()


def test_a_comparison_ends_with_the_file_beside_which_it_began(window: Window, qtbot: QtBot, tmp_path: Path) -> None:
    tuning = window.wiring.tuning
    tuning.comparison.choose(1)
    compared(window, qtbot, len(SLOW))
    path = tmp_path / "next.db"
    write_run(path, window, GROUP, TIMES, STOPPED).store.close()
    attached(window, qtbot, path, len(TIMES))
    assert tuning.comparison.other is None and tuning.comparison.attachment.follower is None
    tuning.comparison.open(str(tmp_path / "night.db"))
    compared(window, qtbot, len(TIMES))
    tuning.control.put_away()
    assert tuning.comparison.other is None


@pytest.mark.slow(sentinel=True)
def test_render_draws_two_runs(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.db", "b.db")]
    for path, first in zip(paths, (9.0, 7.0), strict=True):
        with RecordStore(path) as store:
            log = RunLog.start(store, replace(REQUEST, recipe=""), [TASK])
            for number in range(1, 4):
                time = first - number
                attempt = Attempt(number, None, TASK.group, TASK.mapping, (), 1.0, "new", time, "", "", 0.1 * number)
                log.keep(attempt, trial(number))
            log.set_state(FINISHED)
    shown = PictureOptions(perspective="tune", panel="tuning", tab="two runs", records=paths[0], against=paths[1])
    render(MODEL, tmp_path / "two.png", shown, COMMAND)
    ink, theme = pixels(tmp_path / "two.png"), load_theme("dark")
    assert all(theme.colour(token).rgb() in ink for token in TOKENS)
    paths[1].write_text("nothing", encoding="utf-8")
    with pytest.raises(BadInput, match="no file of records"):
        render(MODEL, tmp_path / "two.png", shown, COMMAND)
    with pytest.raises(BadInput, match="no run beside it"):
        render(MODEL, tmp_path / "two.png", PictureOptions(against=paths[0]), COMMAND)
