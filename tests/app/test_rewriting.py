"""Rewrites by hand in the real window with the real worker: from a repair, from the menu, as a row of the tree."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu

from app.shell.window import Window
from engine.documents.model import EntryDoc
from tests.app.driving import advice, open_with_worker, select
from tests.app.test_real_editing import GROUP, MODEL, explored, rows

BACKWARDS = "required all @ innermost: cut S2 | S1"
LINE = "  rewrite recompute S1 in S2"


@pytest.fixture
def opened(make: Callable[..., Window], qtbot: object) -> Window:
    window = open_with_worker(make, qtbot, str(MODEL))
    window.set_perspective("Schedule")
    select(window, qtbot, GROUP)
    explored(window, qtbot)
    return window


def choose(window: Window, title: str) -> None:
    """Puts the keyboard on the row of the constraint tree whose title begins so."""
    tree = window.panels.constraints.tree
    key = next(key for name, key in rows(window).items() if name.startswith(title))
    tree.setCurrentIndex(tree.rows.index_of(key))


def titles(window: Window) -> list[str]:
    return [step.title for step in window.workspace.histories[GROUP].steps]


@pytest.mark.slow(sentinel=True)
def test_a_conflict_is_repaired_by_a_rewrite_in_one_step(opened: Window, qtbot: object) -> None:
    tree, before = opened.panels.constraints.tree, advice(opened)
    opened.workspace.edit(GROUP, before + f"advice user\n  {BACKWARDS}\n")
    explored(opened, qtbot)
    choose(opened, "Let S2 compute y_exp again, without waiting for S1")
    qtbot.keyClick(tree, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    explored(opened, qtbot)
    kernel = opened.workspace.kernel(GROUP)
    assert kernel is not None and kernel.legal and f"{LINE}  # because" in advice(opened)
    assert titles(opened)[1:] == ["Recompute S1 in S2 and 1 more"]
    shown = tree.rows.row_at(tree.rows.index_of(next(k for t, k in rows(opened).items() if "recompute" in t))).value
    assert isinstance(shown, EntryDoc)
    assert (shown.author, shown.outcome) == ("user", "honoured")
    assert shown.because == "entries that are required conflict without it"


@pytest.mark.slow(sentinel=True)
def test_a_rewrite_of_the_menu_is_a_row_that_is_switched_and_removed(opened: Window, qtbot: object) -> None:
    tree, menu = opened.panels.constraints.tree, opened.panels.constraints.menu
    before, code = advice(opened), opened.panels.code.text.toPlainText()
    menu.aboutToShow.emit()
    inside = next(action.menu() for action in menu.actions() if action.text() == "Recompute")
    assert isinstance(inside, QMenu)
    next(action for action in inside.actions() if action.text().startswith("Recompute S1 in S2")).trigger()
    explored(opened, qtbot)
    assert advice(opened) == before + f"advice user\n{LINE}\n"
    again = opened.panels.code.text.toPlainText()
    assert again != code
    for line, text in ((f"  off{LINE[1:]}", code), (LINE, again)):
        choose(opened, "recompute in S2")
        qtbot.keyClick(tree, Qt.Key.Key_Space)  # type: ignore[attr-defined]
        explored(opened, qtbot)
        assert advice(opened).endswith(f"{line}\n") and opened.panels.code.text.toPlainText() == text
    choose(opened, "recompute in S2")
    qtbot.keyClick(tree, Qt.Key.Key_Delete)  # type: ignore[attr-defined]
    explored(opened, qtbot)
    assert "rewrite" not in advice(opened) and opened.panels.code.text.toPlainText() == code
    assert titles(opened)[1:] == [
        "Recompute S1 in S2",
        "Disable recompute S1 in S2",
        "Enable recompute S1 in S2",
        "Without recompute S1 in S2",
    ]


@pytest.mark.slow(sentinel=True)
def test_the_form_writes_a_rewrite_of_one_statement(opened: Window, qtbot: object) -> None:
    form, before = opened.panels.constraints.form, advice(opened)
    form.show()
    form.statements.setCurrentText("S1")
    form.field.setCurrentText("rewrite")
    assert not form.dimension.isEnabled(), "a rewrite is about no dimension"
    form.value.setText("recompute in S2")
    qtbot.keyClick(form.value, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    explored(opened, qtbot)
    assert advice(opened) == before + f"advice user\n{LINE}\n"
    form.field.setCurrentText("split")
    form.dimension.setCurrentText("innermost")
    form.value.setText("256")
    qtbot.keyClick(form.value, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    explored(opened, qtbot)
    assert form.dimension.isEnabled() and advice(opened).endswith("  S1 @ innermost: split 256\n")
