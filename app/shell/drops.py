"""Accepts files that are dropped anywhere on the window."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QDockWidget, QMainWindow, QWidget


class FileDrops(QObject):
    """Opens a file that is dropped anywhere in a window or on a panel that floats beside it.

    A part of a panel that takes drops of its own, such as a text, keeps those of everything but files: pictures and
    texts accept whatever comes, and would put a file's address among what somebody wrote.
    """

    def __init__(self, window: QMainWindow, docks: Iterable[QDockWidget], dropped: Callable[[str], None]) -> None:
        super().__init__(window)
        self._dropped = dropped
        self._targets: tuple[QWidget, ...] = (window, *docks)
        parts = [part for part in window.findChildren(QWidget) if part.acceptDrops()]
        for target in self._targets:
            target.setAcceptDrops(True)
        for watched in (*self._targets, *parts):
            watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Takes files at the window or a panel; a part under the pointer passes them on to what it lies in."""
        if event.type() not in (QEvent.Type.DragEnter, QEvent.Type.Drop) or not isinstance(event, QDropEvent):
            return False
        paths = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
        if not paths:
            return False
        if watched not in self._targets:
            event.ignore()
        else:
            event.setDropAction(Qt.DropAction.CopyAction)  # whoever offers to move a file would delete it
            event.accept()
            if not isinstance(event, QDragEnterEvent):
                self._dropped(paths[0])
        return True
