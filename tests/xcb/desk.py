"""A person at the window: keys and pointer of the X server, waiting for answers, panels, tabs, dialogs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLineEdit

from app.session.client import COMMAND
from app.shell.main import make_window
from app.shell.window import Window
from tests.xcb.keys import press, type_text, wait_for

WORKER = 120_000
"""Milliseconds that the real worker or a search may take on a busy machine."""


class Desk:
    """The window, and the keys with which one gets around in it."""

    def __init__(self, window: Window) -> None:
        self.window = window

    def answered(self) -> None:
        """Waits until everything that was asked has been answered and drawn."""
        window = self.window
        QTest.qWait(30)  # what follows a key asks its questions in a later turn of the event loop
        assert wait_for(lambda: window.workspace.client.is_idle and window.wiring.queries.is_settled, WORKER)
        assert wait_for(lambda: not window.panels.graph.scene.is_building, WORKER)

    def press(self, *keys: str) -> None:
        for each in keys:
            press(each)
            QTest.qWait(10)

    def run(self, command: str) -> None:
        """A command by its name."""
        self.press("ctrl+shift+p")
        assert wait_for(self.window.commands.palette.isVisible)
        type_text(command)
        self.press("Return")
        assert wait_for(lambda: not self.window.commands.palette.isVisible())

    def go_to(self, text: str) -> None:
        """A group, an operator or a statement by its name."""
        self.press("ctrl+p")
        assert wait_for(lambda: QApplication.focusWidget() is self.window.search)
        type_text(text)
        assert wait_for(lambda: self.window.search.text() == text)
        self.press("Return")
        self.answered()

    def panel(self, name: str) -> None:
        """F6 until a panel has the keyboard."""
        for _ in self.window.docks:
            if self.window.commands.focus.focused == name:
                return
            self.press("F6")
        assert self.window.commands.focus.focused == name

    def tab(self, panel: str, name: str) -> None:
        """From a panel's body back to its tabs, and with arrows and Space to one of them."""
        self.panel(panel)
        self.press("shift+Tab")
        tabs = self.window.panels.by_name()[panel].tabs
        for _ in tabs:
            if QApplication.focusWidget() is not tabs[name]:
                self.press("Left")
        self.press("space")
        assert wait_for(tabs[name].isChecked)
        self.answered()

    def file(self, path: Path) -> None:
        """A file's path into the dialog that asks for one."""
        self.dialog()
        self.press("ctrl+a")
        # Keys come through the X server: what is typed before the name is selected would stand beside it.
        assert wait_for(lambda: _is_selected(QApplication.focusWidget()))
        type_text(str(path))
        field = QApplication.focusWidget()
        assert isinstance(field, QLineEdit)
        assert wait_for(lambda: field.text() == str(path)), f"the field has {field.text()!r}"
        self.press("Return")
        if not wait_for(_has_no_dialog, 2000):  # completions come when the folder has been read; they take one Return
            self.press("Return")
        assert wait_for(_has_no_dialog)

    def dialog(self) -> None:
        """Waits for the name field of a file dialog to have the keyboard."""
        assert wait_for(lambda: isinstance(QApplication.activeWindow(), QFileDialog))
        assert wait_for(lambda: isinstance(QApplication.focusWidget(), QLineEdit))


def _has_no_dialog() -> bool:
    return not isinstance(QApplication.activeWindow(), QFileDialog)


def _is_selected(field: object) -> bool:
    return isinstance(field, QLineEdit) and field.selectedText() == field.text()


@pytest.fixture
def start(qapp: object, tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    """Starts the program, with its real worker, as `loomscope open` does: perhaps with a file, and with the journals
    of a folder.
    """
    made: list[Window] = []

    def open_window(path: Path | None = None, journals: str = "journals") -> Desk:
        window = make_window(command=COMMAND, journals=tmp_path / journals)
        made.append(window)
        window.restore_layout()
        window.show()
        window.workspace.start()
        window.document.look_for_orphans()
        if path is not None:
            window.open_file(str(path))
        assert QTest.qWaitForWindowActive(window, WORKER)
        desk = Desk(window)
        if path is not None:
            assert wait_for(lambda: window.workspace.model is not None, WORKER)
            desk.answered()
        return desk

    yield open_window
    for window in made:
        window.close()
        window.deleteLater()
