"""The window shows the log of another tuner like a run of its own, and says what cannot be done with it."""

from __future__ import annotations

from pathlib import Path

from pytestqt.qtbot import QtBot

from app.shell.window import Window
from tests.app.test_tuning_records import log_of
from tests.app.tuning_runs import attached, resting
from views.tuning.promise import NO_ESTIMATE
from views.tuning.view import DIMENSIONS, PROGRESS, PROMISE


def test_a_log_of_another_tuner_is_looked_at_but_not_applied(quiet: Window, qtbot: QtBot, tmp_path: Path) -> None:
    quiet.set_perspective("Tune")
    path = log_of(tmp_path / "cache.json", {32: 0.5, 64: 0.25, 128: 1.0, 256: 1e20})
    tuning = attached(quiet, qtbot, path, 4)
    panels = quiet.panels
    summary = panels.tuning.progress_plot.summary
    assert summary is not None and (summary.origin, summary.best, summary.number) == ("published", 250.0, 2)
    assert ("Trials", "4") in panels.tuning.headline.facts(), "nobody knows in how many rounds"
    status = tuning.control.status
    assert status is not None and dict(status.facts)["Tuner"] == "Kernel Tuner" and not status.is_live
    assert "Process" not in dict(status.facts)
    panels.tuning.select_tab(PROMISE)
    tuning.show()
    assert panels.tuning.promise.nothing == NO_ESTIMATE and not panels.tuning.promise.has_data()
    panels.tuning.select_tab(DIMENSIONS)
    tuning.show()
    assert list(panels.tuning.importance.rows) == ["block"]
    panels.tuning.select_tab(PROGRESS)
    quiet.docks["trial"].raise_()
    tuning.select(1)
    resting(quiet, qtbot)
    assert "kept no recipe" in panels.trial.refused.text.text()
    assert not quiet.action("tune-best").isEnabled() and not panels.trial.apply.isEnabled()
    tuning.control.put_away()


def test_a_file_that_is_no_log_is_refused_in_the_panel(quiet: Window, qtbot: QtBot, tmp_path: Path) -> None:
    quiet.set_perspective("Tune")
    (tmp_path / "other.json").write_text('{"some": "thing"}')
    tuning = quiet.wiring.tuning
    tuning.control.attach(str(tmp_path / "other.json"))
    qtbot.waitUntil(lambda: tuning.control.refusal is not None)
    tuning.show()
    assert "neither “results” nor “cache”" in quiet.panels.tuning.refused.text.text()
    tuning.control.put_away()
