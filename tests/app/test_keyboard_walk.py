"""The Schedule perspective without a mouse: every key goes to whatever has the keyboard, as a person's would."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.shell.window import Window
from tests.app.driving import afresh, settle
from tests.app.fake_exploration import ILLEGAL, with_lines
from views.constraints.rows import Links
from views.schedule.view import DECISIONS, SPACE, TREE

GROUP = "softmax_0"
FAR = 60
"""Tabs after which a part counts as out of reach."""
K, M = Qt.Key, Qt.KeyboardModifier
NONE = M.NoModifier


class Walk:
    """Keys for one window."""

    def __init__(self, window: Window, qtbot: object) -> None:
        self.window, self._qtbot = window, qtbot

    def press(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = NONE) -> None:
        """One key for the popup that is open, else for what has the keyboard."""
        popup = QApplication.activePopupWidget()
        if popup is None and not self.window.isActiveWindow():
            # Without a window manager nobody gives the activation back that a closed popup took.
            self.window.activateWindow()
            self._qtbot.waitUntil(self.window.isActiveWindow)  # type: ignore[attr-defined]
        target = popup or QApplication.focusWidget() or self.window
        QTest.keyClick(target, key, modifiers)

    def type(self, text: str) -> None:
        """Letters, one after the other."""
        QTest.keyClicks(QApplication.focusWidget(), text)

    def panel(self, name: str) -> None:
        """F6 until a panel has the keyboard."""
        for _ in self.window.docks:
            if self.window.commands.focus.focused == name:
                return
            self.press(K.Key_F6)
        assert self.window.commands.focus.focused == name

    def tab(self, wanted: QWidget) -> None:
        """Tab until a part has the keyboard."""
        for _ in range(FAR):
            if QApplication.focusWidget() is wanted:
                return
            self.press(K.Key_Tab)
        assert QApplication.focusWidget() is wanted, f"Tab does not come to {wanted.accessibleName()}"

    def page(self, name: str) -> None:
        """From the body of the schedule panel back to its tabs, and with arrows and Space to one of them."""
        tabs = self.window.panels.schedule.tabs
        self.panel("schedule")
        self.press(K.Key_Backtab, M.ShiftModifier)
        for _ in tabs:
            if QApplication.focusWidget() is not tabs[name]:
                self.press(K.Key_Left)
        self.press(K.Key_Space)
        assert self.window.panels.schedule.tab == name
        self.answered()

    def answered(self) -> str:
        """Waits for the worker and returns the advice."""
        settle(self.window, self._qtbot)
        queries, client = self.window.wiring.queries, self.window.workspace.client
        self._qtbot.waitUntil(lambda: queries.is_settled and client.is_idle)  # type: ignore[attr-defined]
        text = self.window.workspace.recipe(GROUP)
        assert text is not None
        return text


@pytest.fixture
def walk(shared: Window, qtbot: object) -> Walk:
    """The made-up model open, the softmax gone to by keys, the Schedule perspective in front."""
    shared.set_perspective("Explore")
    shared.panels.schedule.select_tab(TREE)
    afresh(shared, qtbot)
    shared.activateWindow()
    shared.setFocus()
    qtbot.waitUntil(shared.isActiveWindow)  # type: ignore[attr-defined]
    made = Walk(shared, qtbot)
    made.press(K.Key_P, M.ControlModifier)
    made.type("softmax_0")
    made.press(K.Key_Return)
    made.press(K.Key_2, M.AltModifier)
    assert shared.perspective == "Schedule" and shared.wiring.group == GROUP
    made.answered()
    return made


def test_f6_goes_from_left_to_right_and_leaves_what_was_in_front_there(walk: Walk) -> None:
    docks = walk.window.docks
    walk.panel("code")
    visited = []
    for _ in range(7):
        visited.append(walk.window.commands.focus.focused)
        walk.press(K.Key_F6)
    assert visited == ["code", "history", "schedule", "constraints", "moves", "timing", "outline"]
    assert walk.window.commands.focus.focused == "code"
    assert docks["timing"].visibleRegion().isEmpty() and not docks["moves"].visibleRegion().isEmpty()


def test_timing_comes_to_the_front_with_its_key(walk: Walk) -> None:
    walk.press(K.Key_F9)
    walk.answered()
    docks = walk.window.docks
    assert not docks["timing"].visibleRegion().isEmpty() and docks["moves"].visibleRegion().isEmpty()
    assert walk.window.panels.timing.pages.currentIndex() == 2, "the live samples, or why there are none"
    walk.panel("moves")
    assert not docks["moves"].visibleRegion().isEmpty()


def test_an_entry_is_added_from_the_menu(walk: Walk) -> None:
    before = walk.answered()
    walk.panel("constraints")
    walk.press(K.Key_Insert)
    assert QApplication.activePopupWidget() is walk.window.panels.constraints.menu
    walk.press(K.Key_Down)
    walk.press(K.Key_Right)
    walk.press(K.Key_Return)
    after = walk.answered()
    assert after.startswith(before) and "advice user\n" in after.removeprefix(before)


def test_a_move_is_applied_and_taken_back(walk: Walk) -> None:
    before = walk.answered()
    walk.panel("moves")
    walk.press(K.Key_Down)
    walk.press(K.Key_Return)
    assert walk.answered() == with_lines(before, ["S0 @ j: mark vector 8"])
    walk.press(K.Key_Z, M.ControlModifier)
    assert walk.answered() == before


def test_a_decision_is_asked_for(walk: Walk) -> None:
    before, schedule = walk.answered(), walk.window.panels.schedule
    walk.page(DECISIONS)
    walk.tab(schedule.decisions.table)
    for key in (K.Key_Home, K.Key_Down, K.Key_Down, K.Key_Down):
        walk.press(key)
    walk.press(K.Key_Return)
    assert walk.answered() == with_lines(before, ["S1 @ outermost: pin j"])


def test_axes_are_interchanged(walk: Walk) -> None:
    before, schedule = walk.answered(), walk.window.panels.schedule
    walk.page(SPACE)
    walk.tab(schedule.space.canvas)
    walk.press(K.Key_Tab)
    walk.press(K.Key_Up)
    walk.answered()
    assert "Legal" in schedule.space.canvas.accessibleDescription(), "told before it is asked for"
    walk.press(K.Key_Return)
    assert walk.answered() == with_lines(before, ["all @ outermost: pin j"])


def test_a_conflict_is_repaired_where_it_is_told(walk: Walk) -> None:
    before, tree = walk.answered(), walk.window.panels.constraints.tree
    walk.panel("constraints")
    walk.tab(tree)
    QGuiApplication.clipboard().setText(ILLEGAL)
    walk.press(K.Key_V, M.ControlModifier)
    assert walk.answered() == with_lines(before, [ILLEGAL])
    walk.press(K.Key_Home)
    for _ in range(len(list(tree.rows))):
        if isinstance(tree.rows.row_at(tree.currentIndex()).value, Links):
            break
        walk.press(K.Key_Down)
    walk.press(K.Key_Right)
    walk.press(K.Key_Return)
    assert walk.answered() == with_lines(before, [ILLEGAL.removeprefix("required ")])


def test_words_are_found_in_the_code(walk: Walk) -> None:
    code = walk.window.panels.code
    total = code.text.toPlainText().lower().count("int ")
    walk.panel("code")
    walk.press(K.Key_Home)
    walk.answered()
    selected = walk.window.workspace.bus.selection
    walk.panel("moves")
    walk.press(K.Key_F, M.ControlModifier)
    assert QApplication.focusWidget() is code.finder.field
    walk.type("int ")
    assert code.finder.count.text() == f"1 of {total}"
    walk.press(K.Key_Return)
    walk.press(K.Key_F3)
    walk.press(K.Key_F3, M.ShiftModifier)
    assert code.finder.count.text() == f"2 of {total}"
    walk.press(K.Key_Escape)
    assert QApplication.focusWidget() is code.text and code.finder.isHidden()
    walk.press(K.Key_F3)
    assert code.finder.count.text() == f"3 of {total}" and code.finder.isVisible(), "from the match that Escape left"
    assert QApplication.focusWidget() is code.text and walk.window.workspace.bus.selection == selected
    walk.press(K.Key_Escape)
    walk.press(K.Key_1, M.AltModifier)
    assert not code.isVisible()
    walk.press(K.Key_F, M.ControlModifier)
    assert QApplication.focusWidget() is code.finder.field, "the panel comes where it was not in sight"
