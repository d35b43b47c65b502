"""The tutorial's walk in ten lines, in the real window with the real worker: its words and figures are what happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from app.session.check import run_check
from app.shell.window import Window
from tests.app.driving import advice
from tests.app.test_real_editing import GROUP, explored, opened
from views.schedule.view import SPACE

ROOT = Path(__file__).parents[2]
WALK = (ROOT / "resources/docs/tutorial.md").read_text(encoding="utf-8").partition("## A walk")[2].partition("\n## ")[0]


def test_the_walk_of_the_readme(make: Callable[..., Window], qtbot: object) -> None:
    window = opened(make, qtbot)
    tree, moves, space = window.panels.constraints.tree, window.panels.moves, window.panels.schedule.space
    asked = re.search(r"paste `([^`]+)`", WALK)
    assert asked is not None

    QGuiApplication.clipboard().setText(asked[1])
    qtbot.keyClick(tree, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)  # type: ignore[attr-defined]
    explored(window, qtbot)
    kernel = window.workspace.kernel(GROUP)
    assert kernel is not None and not kernel.legal
    assert "reads it first" in space.verdict.sentence.text()
    assert space.chip.text() == "order as requested"
    pair = re.search(r"Iteration space: (S1\(\S+, \S+\)) writes", WALK)
    assert pair is not None and f"Drawn: {pair[1]}" in space.verdict.drawn.text()

    split = next(button for button in space.verdict.buttons if button.text() == "Split in Order")
    split.click()
    explored(window, qtbot)
    kernel = window.workspace.kernel(GROUP)
    assert kernel is not None and kernel.legal and "cut S1 S2 | S3" in advice(window)
    assert {entry.outcome for entry in kernel.entries} == {"honoured"}

    title = re.search(r"Return on \*([^*]+)\*", WALK)
    assert title is not None and moves.moves is not None
    places = map(moves.table.rows.index_of, moves.table.rows)
    move = next(each for each in places if moves.table.rows.row_at(each).title.startswith(f"{title[1]}: "))
    moves.table.setCurrentIndex(move)
    qtbot.keyClick(moves.table, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    explored(window, qtbot)
    history = window.workspace.histories[GROUP]
    gain, first = history.gain(history.current, history.baseline), history.steps[history.baseline].time
    now = history.step.time
    assert gain is not None and first is not None and now is not None
    told = f"{first.microseconds:.1f} µs become {now.microseconds:.1f}, ▼ {gain.part:.1%}".replace("%", " %")
    assert told in WALK
    assert first.origin == now.origin == "predicted"

    window.panels.schedule.select_tab(SPACE)
    run_check(window.workspace, GROUP, window.status.say)
    explored(window, qtbot)
    checked = history.step.checked
    assert checked is not None and checked.status == "pass"
