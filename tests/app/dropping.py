"""Dropping a file as the platform does: on the window's surface, which finds out who is under the pointer."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget

ACTIONS = Qt.DropAction.CopyAction | Qt.DropAction.MoveAction
LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


def file_data(path: str) -> QMimeData:
    """What a file manager offers."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(path)])
    return data


def dragged(widget: QWidget, data: QMimeData, at: QPoint | None = None, drop: bool = True) -> Qt.DropAction:
    """Drags over a widget's middle, or a point of it, and lets go; the action that was agreed on (ignored: refused)."""
    window = widget.window()
    point = widget.mapTo(window, at or widget.rect().center())
    surface = window.windowHandle()
    enter = QDragEnterEvent(point, ACTIONS, data, LEFT, NONE)
    QApplication.sendEvent(surface, enter)
    move = QDragMoveEvent(point, ACTIONS, data, LEFT, NONE)
    move.setAccepted(enter.isAccepted())
    move.setDropAction(enter.dropAction())
    QApplication.sendEvent(surface, move)
    if not (drop and move.isAccepted()):
        QApplication.sendEvent(surface, QDragLeaveEvent())
        return move.dropAction() if move.isAccepted() else Qt.DropAction.IgnoreAction
    released = QDropEvent(QPointF(point), ACTIONS, data, LEFT, NONE)
    QApplication.sendEvent(surface, released)
    return released.dropAction() if released.isAccepted() else Qt.DropAction.IgnoreAction
