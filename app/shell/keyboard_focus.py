"""Panels by keyboard: F6 goes round them, and the one with the focus shows it in its header."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from app.shell.layout import Dock
from views.keyboard import keyboard_target
from views.themed import restyle


class FocusRound(QObject):
    """Goes from panel to panel, from left to right and from top to bottom, tabs behind a panel right after it."""

    def __init__(self, parent: QObject, docks: Mapping[str, Dock]) -> None:
        super().__init__(parent)
        self._docks = docks
        self._marked: QWidget | None = None
        self._covered: Dock | None = None
        """In front again when the focus leaves the tab that covers it."""
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        self._application = application
        application.focusChanged.connect(self._mark)

    @property
    def focused(self) -> str:
        """The panel that has the focus, or ""."""
        widget = QApplication.focusWidget()
        return next((name for name, dock in self._docks.items() if widget and dock.isAncestorOf(widget)), "")

    def go(self, step: int) -> None:
        """Gives the focus to the next panel in sight (`step` 1), or to the one before (-1)."""
        shown = [name for name, dock in self._docks.items() if dock.isVisible()]
        shown.sort(key=lambda name: _place(self._docks[name]))
        if not shown:
            return
        present = self.focused
        place = shown.index(present) + step if present in shown else (0 if step > 0 else -1)
        keyboard_target(self._docks[shown[place % len(shown)]].widget()).setFocus(Qt.FocusReason.TabFocusReason)

    def bring(self, name: str) -> None:
        """Shows a panel and puts it before its tabs; it takes the keyboard from one that it covers."""
        dock = self._docks[name]
        dock.show()
        front = _front(dock)
        takes = front is not dock and front is self._docks.get(self.focused)
        dock.raise_()
        if takes:
            keyboard_target(dock.widget()).setFocus(Qt.FocusReason.OtherFocusReason)
        self._covered = None

    def close(self) -> None:
        """Follows the focus no longer."""
        self._application.focusChanged.disconnect(self._mark)

    def _mark(self, _: QWidget | None, now: QWidget | None) -> None:
        """Marks the header of the panel that has the focus, which stands before its tabs as long as it has it."""
        dock = next((dock for dock in self._docks.values() if now and dock.isAncestorOf(now)), None)
        if now is not None:
            self._uncover(dock)
        header = dock.titleBarWidget() if dock else None
        if header is self._marked:
            return
        for widget, focused in ((self._marked, "false"), (header, "true")):
            if widget is not None:
                restyle(widget, "focused", focused)
        self._marked = header

    def _uncover(self, dock: Dock | None) -> None:
        """Puts a panel before its tabs, and what another one covered until now back to the front."""
        if self._covered is not None and (dock is None or dock not in _tabs(self._covered)):
            self._covered.raise_()
            self._covered = None
        front = _front(dock) if dock else None
        if dock is not None and front is not dock:
            self._covered = self._covered or front
            dock.raise_()


def _tabs(dock: Dock) -> list[Dock]:
    """The other panels of a panel's tab group."""
    window = dock.parentWidget()
    assert isinstance(window, QMainWindow)
    return [other for other in window.tabifiedDockWidgets(dock) if isinstance(other, Dock)]


def _front(dock: Dock) -> Dock:
    """The panel itself, or the front panel of its tab group (Qt moves hidden tabs off the window)."""
    return next((each for each in (dock, *_tabs(dock)) if each.x() >= 0), dock)


def _place(dock: Dock) -> tuple[int, int, str]:
    """Where a panel stands or would stand; the first of several tabs is the first of the alphabet."""
    front = _front(dock)
    return front.x(), front.y(), dock.objectName()
