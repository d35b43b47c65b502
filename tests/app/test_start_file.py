"""The field "Start from" of the Run panel: chosen in a dialog, cleared by a key, and handed to the search."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.shell.window import Window
from tests.app.driving import select
from tests.app.test_keyboard_walk import Walk
from tests.app.tuning_runs import GROUP, TIMES, attached, wait, write_run
from views.tuning.start_file import NOTHING


def arguments_of_start(window: Window, qtbot: QtBot, told: Path) -> list[str]:
    """What the process of a run is started with."""
    control = window.wiring.tuning.control
    control.command = ("/bin/sh", "-c", f'printf "%s\\n" "$@" > {shlex.quote(str(told))}', "sh")
    window.panels.run.start.click()
    wait(qtbot, lambda: told.is_file() and not control.process.process_id and control.can_start)
    control.put_away()
    return told.read_text().splitlines()


def test_a_file_is_chosen_handed_to_the_search_and_cleared(quiet: Window, qtbot: QtBot, tmp_path: Path) -> None:
    quiet.set_perspective("Tune")
    field, known = quiet.panels.run.start_file, tmp_path / "nights & days of bert_tiny on two machines-0a2f9c74.db"
    known.touch()
    assert field.button.text() == NOTHING and field.clear.isHidden()
    assert "--from" not in arguments_of_start(quiet, qtbot, tmp_path / "before")
    walk = Walk(quiet, qtbot)
    walk.panel("run")
    walk.tab(field.button)
    walk.press(Qt.Key.Key_Space)
    (dialog,) = (each for each in quiet.findChildren(QFileDialog) if each.isVisible())
    assert any("*.db" in each and "*.json" in each for each in dialog.nameFilters())
    dialog.setDirectory(str(tmp_path))
    dialog.selectFile(str(known))
    dialog.accept()
    assert field.path == str(known)
    shown = field.button.text()
    assert shown.startswith("nights") and "…" in shown and shown.endswith(".db"), "its middle is left out"
    assert str(known) in field.button.toolTip() and field.button.accessibleDescription() == str(known)
    said = arguments_of_start(quiet, qtbot, tmp_path / "after")
    assert said[said.index("--from") + 1] == str(known)
    walk.panel("run")
    walk.tab(field.clear)
    walk.press(Qt.Key.Key_Space)
    assert field.path == "" and field.button.text() == NOTHING and field.clear.isHidden()
    assert QApplication.focusWidget() is field.button and str(known) not in field.button.toolTip()
    assert "--from" not in arguments_of_start(quiet, qtbot, tmp_path / "cleared")


@pytest.mark.parametrize("start", ["", "/runs/near.db"])
def test_the_panel_tells_what_a_run_started_from(quiet: Window, qtbot: QtBot, tmp_path: Path, start: str) -> None:
    select(quiet, qtbot, GROUP)
    quiet.set_perspective("Tune")
    log = write_run(tmp_path / "new.db", quiet, GROUP, TIMES)
    log.set_request(replace(log.run().request, start=start))
    log.store.close()
    tuning = attached(quiet, qtbot, tmp_path / "new.db", len(TIMES))
    status = tuning.control.status
    assert status is not None and dict(status.facts).get("Start from", "") == Path(start).name
