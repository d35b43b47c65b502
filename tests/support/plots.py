"""The pointer over a plot: pyqtgraph takes events at the viewport of its page."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.support.pointer import drag_over
from views.plots.frame import PlotFrame

LEFT = Qt.MouseButton.LeftButton
PLAIN = Qt.KeyboardModifier.NoModifier


def click(frame: PlotFrame, at: QPoint) -> None:
    """A click at a place of the widget."""
    assert frame.chart is not None
    QTest.mouseClick(frame.chart.viewport(), LEFT, PLAIN, at)


def wheel(frame: PlotFrame, at: QPoint, turns: int) -> None:
    """Turns the wheel; up is positive."""
    assert frame.chart is not None
    view = frame.chart.viewport()
    event = QWheelEvent(
        QPointF(at), view.mapToGlobal(QPointF(at)), QPoint(), QPoint(0, 120 * turns), Qt.MouseButton.NoButton, PLAIN,
        Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(view, event)


def drag(frame: PlotFrame, first: QPoint, last: QPoint, held: Qt.KeyboardModifier = PLAIN) -> None:
    """Drags with the left button."""
    assert frame.chart is not None
    view = frame.chart.viewport()
    QTest.mousePress(view, LEFT, held, first)
    for part in (0.3, 0.6, 1.0):
        drag_over(view, first + (last - first) * part, held)
    QTest.mouseRelease(view, LEFT, held, last)


def spot(frame: PlotFrame, key: int, row: int = 0, column: int = 0) -> QPoint:
    """Where the point with a key stands in the widget."""
    frame.flush()
    frame.grab()  # lays everything out
    assert frame.chart is not None
    plot = frame.chart.plot(row, column)
    x, y = plot.places()[list(plot.targets.keys).index(key)]
    return QPoint(round(x), round(y))
