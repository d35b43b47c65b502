"""Moving the pointer in a test.

QTest moves the pointer of the screen, and the move reaches whichever window lies there: one that an earlier test has
not let go of yet takes it.  Here the widget is told itself, as QTest does it for buttons and keys.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QWidget

NONE, LEFT = Qt.MouseButton.NoButton, Qt.MouseButton.LeftButton


def hover(widget: QWidget, at: QPoint) -> None:
    """Moves the pointer over a point of a widget, no button pressed."""
    _move(widget, at, NONE)


def drag_over(widget: QWidget, at: QPoint, keys: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    """Moves the pointer over a point of a widget while the left button is held, and keys."""
    _move(widget, at, LEFT, keys)


def _move(
    widget: QWidget, at: QPoint, held: Qt.MouseButton, keys: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> None:
    place = QPointF(at)
    event = QMouseEvent(QEvent.Type.MouseMove, place, widget.mapToGlobal(place), NONE, held, keys)
    QApplication.sendEvent(widget, event)
