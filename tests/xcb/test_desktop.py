"""The window under a window manager: keys that come from the X server, drops, news, sizes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QAbstractScrollArea, QLabel, QToolButton, QWidget

from app.shell.actions import ACTIONS
from app.shell.main import make_window
from app.shell.panels import PERSPECTIVES
from app.shell.window import SMALLEST, Window
from tests.app.driving import COMMAND, MODEL, select, settle
from tests.app.dropping import dragged, file_data
from tests.benchmarks.window import BUDGETS, start_seconds
from tests.xcb.keys import PATIENCE, press, wait_for
from views.notice import News

PATH = "/somewhere/model.onnx"
BUSY = 1.5
"""Cores that are shared take so much more time on one for the same work."""
KEY_MS = 2000
"""From the X server until an action answers."""
NAMES = {
    "=": "equal", "-": "minus", ".": "period", ",": "comma", "[": "bracketleft", "]": "bracketright",
    "/": "slash", "?": "question", "PgUp": "Prior", "PgDown": "Next", "Del": "Delete", "Ins": "Insert",
}  # fmt: skip
"""Keys that X calls otherwise than Qt."""


def x_keys(keys: QKeySequence) -> str:
    """A shortcut as xdotool takes it: "ctrl+shift+z"."""
    text = keys.toString(QKeySequence.SequenceFormat.PortableText)
    *modifiers, key = text.replace("++", "+plus").split("+")
    return "+".join([*map(str.lower, modifiers), NAMES.get(key, key.lower() if len(key) == 1 else key)])


@pytest.fixture
def active(make: Callable[..., Window], qtbot: object) -> Window:
    """A window as the program starts it, with a model open and the keyboard."""
    made = make()
    made.restore_layout()
    made.workspace.start()
    made.open_file(MODEL)
    settle(made, qtbot)
    select(made, qtbot)
    made.activateWindow()
    assert QTest.qWaitForWindowActive(made, PATIENCE)
    return made


@pytest.fixture
def first(qapp: object) -> Iterator[Window]:
    """The window of somebody who never started the program before."""
    made = make_window(command=COMMAND)
    made.restore_layout()
    made.show()
    assert QTest.qWaitForWindowActive(made, PATIENCE)
    QTest.qWait(100)
    yield made
    made.close()
    made.deleteLater()


def test_every_shortcut_of_the_keyboard_does_one_thing_once(active: Window) -> None:
    fired: list[str] = []
    for info in ACTIONS:
        action = active.action(info.name)
        action.triggered.disconnect()
        action.triggered.connect(lambda _=False, name=info.name: fired.append(name))
    pressed = {}
    for info in ACTIONS:
        for keys in active.action(info.name).shortcuts():
            fired.clear()
            active.setFocus()
            active.action(info.name).setEnabled(True)
            press(x_keys(keys))
            wait_for(lambda: bool(fired), KEY_MS)
            QTest.qWait(10)
            pressed[f"{info.name} {keys.toString(QKeySequence.SequenceFormat.PortableText)}"] = list(fired)
    assert {each: names for each, names in pressed.items() if names != [each.split()[0]]} == {}
    assert {"quit Ctrl+Q", "redo Ctrl+Y", "redo Ctrl+Shift+Z", "undo Ctrl+Z"} <= pressed.keys()
    assert len(pressed) >= sum(bool(info.keys) for info in ACTIONS)


def test_ctrl_q_closes_the_window(active: Window) -> None:
    press("ctrl+q")
    assert wait_for(lambda: not active.isVisible())


def test_a_file_is_taken_by_every_panel(active: Window) -> None:
    opened: list[str] = []
    active.drops._dropped = opened.append
    taken = {}
    for perspective in PERSPECTIVES:
        active.set_perspective(perspective)
        QTest.qWait(1)
        for name, panel in active.panels.by_name().items():
            if not panel.visibleRegion().isEmpty():
                opened.clear()
                dragged(panel, file_data(PATH))
                taken[name] = opened == [PATH]
    assert {"graph", "outline", "constraints", "code", "history", "trials"} <= taken.keys()
    assert [name for name, is_taken in taken.items() if not is_taken] == []


@pytest.mark.parametrize("answer", ["button", "close"])
def test_answered_news_stay_away_through_all_perspectives(active: Window, answer: str) -> None:
    notice = active.notice
    active.set_perspective("Tune")
    notice.show_news(News("Recover 1 edit?", "Unsaved changes.", (("Discard", lambda: None),)))
    for name in PERSPECTIVES:  # each keeps an arrangement in which the bar is in sight
        active.set_perspective(name)
        assert active.notice_bar.isVisible()
    (notice.buttons["Discard"] if answer == "button" else notice.close_button).click()
    for name in (*PERSPECTIVES, *PERSPECTIVES):
        active.set_perspective(name)
        assert not active.notice_bar.isVisible(), name
    active.reset_layout()
    assert not active.notice_bar.isVisible()


def test_nothing_happens_where_nothing_is_left_to_dismiss(active: Window) -> None:
    active.notice.close_button.click()
    assert not active.notice.has_news


def test_the_first_window_is_inside_a_small_screen(first: Window) -> None:
    screen = first.screen().availableGeometry()
    assert wait_for(lambda: screen.contains(first.frameGeometry())), (first.frameGeometry(), screen)
    assert first.frameGeometry().height() > first.geometry().height() or first.isMaximized(), "no window manager"
    for button in (*first.tool_buttons.values(), first.status):
        assert screen.contains(button.mapToGlobal(button.rect().bottomRight()))


@pytest.mark.parametrize("perspective", PERSPECTIVES)
def test_nothing_is_cut_in_the_smallest_window(active: Window, perspective: str) -> None:
    active.showNormal()
    active.resize(*SMALLEST)
    assert wait_for(lambda: (active.width(), active.height()) == SMALLEST)
    active.set_perspective(perspective)
    QTest.qWait(50)
    assert len(list(parts(active))) > 20
    cut = [described(part) for part in parts(active) if not is_whole(part)]
    assert not cut, "\n".join(cut)


def parts(window: Window) -> Iterator[QWidget]:
    """What is read or pressed: buttons, tabs, chips, titles."""
    for part in window.findChildren(QWidget):
        if isinstance(part, QAbstractButton | QLabel) and part.isVisible() and not _scrolls(part):
            yield part


def is_whole(part: QWidget) -> bool:
    """Whether all of a part is in sight, and it has the room for its words; what shortens itself may be short."""
    seen = part.visibleRegion().boundingRect()
    if seen.isEmpty():
        return isinstance(part, QLabel) or not part.text() or _is_behind(part)
    wraps = part.wordWrap() if isinstance(part, QLabel) else isinstance(part, QToolButton) and is_icon(part)
    shortens = part.minimumSizeHint().width() < part.sizeHint().width()
    return seen == part.rect() and (wraps or shortens or part.width() >= part.minimumSizeHint().width())


def is_icon(button: QToolButton) -> bool:
    return not button.icon().isNull() and button.toolButtonStyle() == Qt.ToolButtonStyle.ToolButtonIconOnly


def described(part: QWidget) -> str:
    """A part and where it stands."""
    names = [part.accessibleName() or getattr(part, "text", lambda: "")()]
    above = part.parentWidget()
    while above is not None:
        names.append(above.accessibleName() or above.objectName())
        above = above.parentWidget()
    return f"{' < '.join(filter(None, names))}: {part.rect()} of which {part.visibleRegion().boundingRect()} is seen"


def _is_behind(part: QWidget) -> bool:
    """Whether it belongs to a panel behind another."""
    above: QWidget | None = part
    while above is not None and above.parentWidget() is not None:
        if above.inherits("QDockWidget"):
            return above.visibleRegion().isEmpty()
        above = above.parentWidget()
    return False


def _scrolls(part: QWidget) -> bool:
    above = part.parentWidget()
    while above is not None:
        if isinstance(above, QAbstractScrollArea):
            return True
        above = above.parentWidget()
    return False


def test_the_window_answers_while_the_worker_still_starts(qapp: object, make: Callable[..., Window]) -> None:
    """The worker does not answer at all here: menus, perspectives and the palette do."""
    window = make(command=(sys.executable, "-c", "import time; time.sleep(600)"))
    window.restore_layout()
    window.workspace.start()
    assert QTest.qWaitForWindowActive(window, PATIENCE)
    press("alt+4")
    assert wait_for(lambda: window.perspective == "Tune")
    press("ctrl+shift+p")
    assert wait_for(lambda: window.commands.palette.isVisible())


def test_the_program_is_mapped_within_its_budget() -> None:
    """`loomscope open` on this display, in processor time; `tests.benchmarks.window --start` prints the figure."""
    assert start_seconds() < BUSY * BUDGETS["start_processor_seconds"]
