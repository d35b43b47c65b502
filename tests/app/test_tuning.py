"""The Tune perspective over made-up records: attaching, previewing, applying, undoing, asking, bad files."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton

from app.controllers.tuning.launch import last_words, records_of
from app.shell.window import Window
from engine.records.nodes import PAUSE, PAUSED, RUNNING, STOP, STOPPED
from engine.records.schema import APPLICATION, FORMAT
from engine.support.errors import BadInput
from tests.app.driving import afresh, select
from tests.app.tuning_runs import FAILURE, GROUP, TIMES, attached, resting, wait, write_run
from views.tuning.nodes import STOPPING
from views.tuning.trial import CODE, RECIPE, SCHEDULE
from views.tuning.view import DIMENSIONS, PROMISE


@pytest.fixture
def window(quiet: Window) -> Window:
    """One for all tests of this file."""
    return quiet


@pytest.mark.slow(sentinel=True)
def test_a_run_is_told_in_all_panels(tuned: Window) -> None:
    panels = tuned.panels
    facts = dict(panels.tuning.headline.facts())
    assert facts["Best"] == "45.0 µs" and facts["Trials"] == "4 in 1 round" and facts["Failed"] == "1"
    assert facts[""] == "▼ 10.0 %"
    assert panels.trials.subtitle.text() == "4 shown, sorted by predicted"
    cuts = [panels.search.cuts.rows.row_at(panels.search.cuts.rows.index_of(key)).title for key in "012"]
    assert cuts == ["All programs 12", "shared memory 8", "Tried 4"]
    assert list(panels.search.causes.rows) == [FAILURE]
    assert panels.run.state.text().startswith("stopped") and panels.run.count.text() == "4 of 4 trials"
    assert panels.run.resume.isVisible() and not panels.run.stop.isVisible()


def test_what_a_new_moment_cut_off_is_shown_with_it(tuned: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is shown in parts, one a turn of the event loop; a change in between begins anew."""
    tuning, shown = tuned.wiring.tuning, list[str]()
    for part in ("progress", "table", "dear"):
        monkeypatch.setattr(tuning, f"_show_{part}", partial(shown.append, part))
    tuning._show_all()
    tuning._show_by_turns()
    assert not tuning.is_settled and shown != ["progress", "table", "dear"]
    shown.clear()
    tuning.show()
    assert shown == ["progress", "table", "dear"] and not tuning._parts
    tuning.show()
    assert shown == ["progress", "table", "dear"], "the same trials are not shown twice"


def test_promises_and_dimensions_come_with_their_tabs(tuned: Window) -> None:
    panel = tuned.panels.tuning
    panel.select_tab(PROMISE)
    assert panel.promise.headline() == "rank correlation -0.500 (Spearman) over 3 trials; both are predictions"
    panel.select_tab(DIMENSIONS)
    assert sorted(panel.importance.rows) == ["block", "vector"]


def test_a_trial_is_previewed_and_nothing_is_applied(tuned: Window, qtbot: object) -> None:
    tuning, view = tuned.wiring.tuning, tuned.panels.trial
    before = tuned.workspace.trails()
    tuned.docks["trial"].raise_()
    table = tuned.panels.trials.table
    table.setCurrentIndex(table.trials.index(0, 0))
    assert tuning.selected == tuning.best
    resting(tuned, qtbot)
    wait(qtbot, lambda: bool(view.code.toPlainText()))
    assert view.name.text() == "Trial 2" and "45.0 µs predicted" in view.outcome.text()
    assert "mark block 2" in view.recipe.toPlainText()
    for tab in (RECIPE, SCHEDULE, CODE):
        view.select_tab(tab)
        assert view.pages.currentIndex() == (RECIPE, SCHEDULE, CODE).index(tab)
    view.select_tab(RECIPE)
    tuned.action("find-text").trigger()
    assert view.finder.isVisible() and view.pages.currentWidget() is view.code, "the trial's text: no other is in sight"
    view.select_tab(RECIPE)
    assert not view.finder.isVisible() and view.apply.isVisible()
    view.select_tab(CODE)
    assert view.finder.isVisible()
    view.finder.put_away()
    assert tuned.workspace.trails() == before and tuned.panels.tuning.progress_plot.selected == tuning.best


def test_a_run_of_another_target_can_be_looked_at_but_not_applied(
    window: Window, qtbot: object, tmp_path: Path
) -> None:
    select(window, qtbot, GROUP)
    window.set_perspective("Tune")
    write_run(tmp_path / "other.db", window, GROUP, TIMES, target="a100").store.close()
    tuning = attached(window, qtbot, tmp_path / "other.db", 4)
    assert not tuning.control.is_ours and not window.action("tune-best").isEnabled()
    assert not window.panels.tuning.ablate.isEnabled(), "a click did nothing"
    window.docks["trial"].raise_()
    tuning.select(0)
    resting(window, qtbot)
    window.panels.trial.select_tab(CODE)
    assert "another model, target or size" in window.panels.trial.refused.text.text()
    best, trial = window.panels.trials.apply, window.panels.trial.apply
    assert not best.isEnabled() and "a run of the open model" in best.toolTip()
    assert not trial.isEnabled() and "another model, target or size" in trial.toolTip()
    assert not window.panels.trial.apply.isEnabled() and window.panels.trial.recipe.toPlainText()


def test_what_is_read_of_a_run_can_be_asked_for_at_once(quiet: Window, qtbot: object, tmp_path: Path) -> None:
    """Not only from the next repaint on: a command of that moment was dropped without a word."""
    select(quiet, qtbot, GROUP)
    tuning, path = quiet.wiring.tuning, tmp_path / "ended.db"
    write_run(path, quiet, GROUP, TIMES, STOPPED).store.close()
    can: list[tuple[bool, ...]] = []
    names = ("tune-best", "tune-ablate", "tune-detach")

    def note() -> None:
        apply = quiet.panels.trials.apply.isEnabled()
        can.append((*(quiet.action(name).isEnabled() for name in names), apply, tuning.group == GROUP))

    note()
    tuning.control.grown.connect(note)
    tuning.control.attach(str(path))
    wait(qtbot, lambda: len(can) > 1)
    tuning.control.grown.disconnect(note)
    assert can[:2] == [(False,) * 5, (True,) * 5]


def test_a_file_that_was_let_go_ends_no_other_run(
    quiet: Window, qtbot: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    select(quiet, qtbot, GROUP)
    tuning, paths = quiet.wiring.tuning, (tmp_path / "old.db", tmp_path / "new.db")
    for path in paths:
        write_run(path, quiet, GROUP, TIMES, STOPPED).store.close()
    attached(quiet, qtbot, paths[0], len(TIMES))
    attachment = tuning.control.attachment

    def fail() -> None:
        raise BadInput("records", str(paths[0]), "is damaged")

    wait(qtbot, lambda: attachment.is_idle)
    monkeypatch.setattr(attachment.follower, "look", fail)
    attachment.attach(paths[1])
    attachment._look()  # behind the file that is opened: the old one is looked at until it is there
    wait(qtbot, lambda: tuning.shown is not None and tuning.shown.path == paths[1] and bool(tuning.shown.trials))
    wait(qtbot, lambda: attachment.is_idle)
    assert tuning.control.refusal is None and attachment.follower is not None


def test_trials_that_come_are_shown_and_wishes_reach_the_process(
    window: Window, qtbot: object, tmp_path: Path
) -> None:
    select(window, qtbot, GROUP)
    window.set_perspective("Tune")
    path = tmp_path / "live.db"
    log = write_run(path, window, GROUP, TIMES, RUNNING)
    tuning = attached(window, qtbot, path, 4)
    assert tuning.shown is not None and tuning.shown.state == RUNNING and tuning.control.is_live

    def wish() -> str:
        return log.run().wish

    window.action("tune-pause").trigger()
    wait(qtbot, lambda: wish() == PAUSE)
    log.set_state(PAUSED)
    wait(qtbot, lambda: tuning.shown is not None and tuning.shown.state == PAUSED)
    wait(qtbot, window.panels.run.resume.isVisible)
    assert not window.panels.run.pause.isVisible()
    window.action("tune-pause").trigger()
    wait(qtbot, lambda: wish() == "run")
    log.set_state(RUNNING, "no worker is left")
    wait(qtbot, lambda: window.panels.run.state.text() == "running: no worker is left")
    window.action("tune-stop").trigger()
    assert tuning.shown.state == STOPPING
    wait(qtbot, lambda: wish() == STOP)
    log.set_state(STOPPED)
    wait(qtbot, lambda: tuning.shown is not None and tuning.shown.state == STOPPED)
    assert tuning.best == 1
    log.store.close()


def test_the_filter_keeps_rows_and_says_what_it_does_not_know(tuned: Window, qtbot: object) -> None:
    trials = tuned.panels.trials
    tuned.action("tune-filter").trigger()
    assert trials.filter.hasFocus() or not tuned.isActiveWindow()
    qtbot.keyClicks(trials.filter, "block>=4 ok")  # type: ignore[attr-defined]
    assert trials.subtitle.text().startswith("1 shown")
    trials.filter.setText("nonsense")
    assert trials.subtitle.text() == "no trial has “nonsense”"
    trials.filter.clear()
    assert trials.subtitle.text().startswith("4 shown")


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE bookmarks (address TEXT)")


def newer(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute(f"PRAGMA user_version = {FORMAT + 1}")


def no_database(path: Path) -> None:
    path.write_text("recipe: none\n" * 100, encoding="utf-8")


def empty(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as file:
        file.execute(f"PRAGMA application_id = {APPLICATION}")


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (damaged, "damaged"), (foreign, "database of another program"), (newer, f"format {FORMAT + 1}"),
        (no_database, "no file of records"), (Path.unlink, "is not there"), (empty, "holds no run"),
    ],
)  # fmt: skip
def test_a_bad_file_is_told_in_the_panel_and_what_was_shown_stays(
    tuned: Window, qtbot: object, tmp_path: Path, spoil: Callable[[Path], object], reason: str
) -> None:
    tuning, panel = tuned.wiring.tuning, tuned.panels.tuning
    shown, bad = tuning.shown, tmp_path / "bad.db"
    write_run(bad, tuned, GROUP, TIMES).store.close()
    spoil(bad)
    tuning.control.attach(str(bad))
    wait(qtbot, lambda: panel.pages.currentWidget() is panel.refused)
    assert reason in panel.refused.text.text() and "bad.db" in panel.refused.title.text()
    assert any(reason in problem.reason for _, problem in tuned.workspace.problems)
    panel.refused.buttons[1].click()
    assert panel.pages.currentWidget() is panel.progress_plot and tuning.shown is shown


@pytest.mark.slow(sentinel=True)
def test_a_locked_file_is_told_and_the_window_does_not_wait(
    window: Window, qtbot: object, tmp_path: Path
) -> None:
    select(window, qtbot, GROUP)
    path = tmp_path / "locked.db"
    write_run(path, window, GROUP, TIMES).store.close()
    with sqlite3.connect(path, isolation_level=None) as holder:
        holder.execute("PRAGMA journal_mode = DELETE")
        holder.execute("BEGIN EXCLUSIVE")
        began = time.perf_counter()
        window.wiring.tuning.control.attach(str(path))
        assert time.perf_counter() - began < 0.5
        panel = window.panels.tuning
        wait(qtbot, lambda: panel.pages.currentWidget() is panel.refused)
        assert "locked" in panel.refused.text.text()
        holder.execute("ROLLBACK")


def test_another_model_takes_the_run_of_the_old_one_away(tuned: Window, qtbot: object) -> None:
    tuning = tuned.wiring.tuning
    assert tuning.shown is not None
    afresh(tuned, qtbot)
    assert tuning.shown is None and not tuned.panels.run.resume.isVisible()
    assert "Start one for the open model" in tuned.panels.tuning.empty.sentence.text()


def test_nothing_to_show_says_what_to_do(window: Window) -> None:
    window.set_perspective("Tune")
    empty_state = window.panels.tuning.empty
    assert "Start one for the open model" in empty_state.sentence.text()
    assert window.panels.run.start.isEnabled() and window.action("tune-start").isEnabled()
    assert not window.action("tune-stop").isEnabled()


def ways(window: Window) -> list[QPushButton]:
    """The buttons that lead to a run where none is shown."""
    return window.panels.tuning.empty.findChildren(QPushButton)


def test_a_run_that_begins_is_told_before_its_first_trial(window: Window, qtbot: object) -> None:
    """Large models are planned for half a minute, in which the panel asked to start a run."""
    tuning, empty_state = window.wiring.tuning, window.panels.tuning.empty
    tuning.control.command = ("/bin/sh", "-c", "sleep 600")
    window.set_perspective("Tune")
    start, _ = ways(window)
    assert start.isVisible() and start.isEnabled()
    window.action("tune-start").trigger()
    wait(qtbot, lambda: bool(tuning.control.process.process_id))
    assert "The run has begun" in empty_state.sentence.text() and not any(way.isVisible() for way in ways(window))
    window.action("tune-stop").trigger()
    wait(qtbot, start.isVisible)
    assert "Start one for the open model" in empty_state.sentence.text()


def test_without_a_model_nothing_can_be_started(make: Callable[..., Window]) -> None:
    window = make()
    window.set_perspective("Tune")
    window.wiring.tuning.show()
    assert not window.panels.run.start.isEnabled() and not window.action("tune-start").isEnabled()
    start, _ = ways(window)
    assert not start.isEnabled()


def test_a_process_that_cannot_begin_gives_its_last_words(window: Window, qtbot: object) -> None:
    tuning, panel = window.wiring.tuning, window.panels.tuning
    tuning.control.command = ("/bin/sh", "-c", "echo searching >&2; echo 'matmul_0: everything is pruned' >&2; exit 2")
    window.set_perspective("Tune")
    window.action("tune-start").trigger()
    wait(qtbot, lambda: panel.pages.currentWidget() is panel.refused)
    assert "everything is pruned" in panel.refused.text.text() and not tuning.control.is_live


LINGERING = """
import sys, time
from engine.records.nodes import STOP, STOPPED, Request
from engine.records.runs import RunLog
from engine.records.store import RecordStore
path = sys.argv[sys.argv.index("--records") + 1]
log = RunLog.start(RecordStore(path), Request("a", "h200", "model", "predicted", "predicted", 8))
while log.beat() != STOP:
    time.sleep(0.001)
log.set_state(STOPPED)
time.sleep(600)
"""
"""A process that answers a stop at once, and then does not go."""


def test_a_process_that_said_that_it_stopped_is_not_waited_for(window: Window, qtbot: object) -> None:
    tuning = window.wiring.tuning
    tuning.control.command = (sys.executable, "-c", LINGERING)
    window.set_perspective("Tune")
    window.action("tune-start").trigger()
    wait(qtbot, lambda: tuning.shown is not None and tuning.shown.state == RUNNING)
    assert tuning.control.process.process_id
    window.action("tune-stop").trigger()
    wait(qtbot, lambda: not tuning.control.is_live)
    assert tuning.shown is not None and tuning.shown.state == STOPPED
    assert tuning.control.process.process_id == 0


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("searching\nmatmul_0: no program is left\n  hint: leave the tile open\n",
         ("matmul_0", "no program is left", "leave the tile open")),
        ("model.onnx: there is no such file\n", ("model.onnx", "there is no such file", "")),
        ("", ("the run", "ended with code 3", "")),
        ("Killed\n", ("the run", "ended with code 3: Killed", "")),
    ],
)  # fmt: skip
def test_the_last_words_of_a_process_are_the_reason(log: str, told: tuple[str, str, str]) -> None:
    problem = last_words(log, 3)
    assert (problem.subject, problem.reason, problem.hint) == told


def test_the_last_run_of_a_model_is_offered_when_it_is_opened(
    make: Callable[..., Window], window: Window, qtbot: object
) -> None:
    select(window, qtbot, GROUP)
    path = records_of(window.workspace.opened.path, "h200")
    path.parent.mkdir(parents=True)
    write_run(path, window, GROUP, TIMES, STOPPED).store.close()
    again = make()
    again.open_file(window.workspace.opened.path)
    wait(qtbot, lambda: again.wiring.tuning.shown is not None and len(again.wiring.tuning.shown.trials) == 4)
    assert again.action("tune-pause").isEnabled()




def test_the_keys_reach_every_part_of_the_perspective(tuned: Window, qtbot: object) -> None:
    shown: Sequence[str] = [name for name, dock in tuned.docks.items() if dock.isVisible()]
    assert {"tuning", "trials", "search", "trial", "run"} <= set(shown)
    plot = tuned.panels.tuning.progress_plot
    qtbot.keyClick(plot, Qt.Key.Key_Home)  # type: ignore[attr-defined]
    assert tuned.wiring.tuning.selected == 0
    table = tuned.panels.trials.table
    qtbot.keyClick(table, Qt.Key.Key_Down)  # type: ignore[attr-defined]
    assert tuned.wiring.tuning.selected != 0


def test_a_dot_brings_its_trial_to_the_front(tuned: Window) -> None:
    tuned.docks["search"].raise_()
    QTest.qWait(1)
    assert tuned.docks["trial"].visibleRegion().isEmpty()
    tuned.panels.tuning.trial_selected.emit(0)
    QTest.qWait(1)
    assert not tuned.docks["trial"].visibleRegion().isEmpty()
