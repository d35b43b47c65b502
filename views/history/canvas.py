"""The painted tree: chips with their times, branches, what is selected and where the history stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QToolTip

from engine.documents.model import Time
from views.format import duration
from views.graph.polylines import rounded_path
from views.history.layout import HistoryLayout, StepTree, lay_out_steps
from views.moves.rows import gain_text
from views.shapes import gain_tint, paint_strokes, paint_time_mark
from views.theme import face, semibold
from views.themed import Themed
from views.themed_painter import RIGHT, ThemedPainter

CHIP = QSize(196, 42)
PITCH = QSize(226, 46)
"""From one chip to the next along a lane, and from lane to lane."""
LEFT, TOP = 12, 6
"""Pixels between the panel's edge and the first chip."""
NOBODY = -1
ARROW, BEND = 4.0, 5.0
NO_CHANGE = "no significant change"


@dataclass(frozen=True, slots=True)
class Chip:
    """One step as it is shown."""

    title: str
    time: Time | None
    gain: float | None
    """Against the parent, in the origin of `time`; None where there is none to compare with."""
    check: str
    """"pass", "fail", or "" while nothing was checked."""
    tip: str
    sure: bool = True
    """Whether the gain is more than noise."""


def _no_chip(number: int) -> Chip:
    return Chip("", None, None, "", "")


class HistoryCanvas(QAbstractScrollArea, Themed):
    """Shows a tree of steps; a chip is asked for when it comes into sight."""

    step_selected = Signal(int)
    """Clicked, or reached with the arrow keys."""
    step_requested = Signal(int)
    """Double-clicked, or Return."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("History")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.viewport().setCursor(Qt.CursorShape.ArrowCursor)
        self.selected = NOBODY
        self.current = NOBODY
        self.baseline = NOBODY
        self._parents: tuple[int, ...] = ()
        self._chip: Callable[[int], Chip] = _no_chip
        self._redo = NOBODY
        self._places = HistoryLayout((), ())
        self._at: dict[tuple[int, int], int] = {}

    def show_steps(self, tree: StepTree, chip: Callable[[int], Chip]) -> None:
        """Shows a group's tree; `chip` gives a step as it is shown."""
        if tree.parents != self._parents:
            self._parents = tree.parents
            self._places = lay_out_steps(self._parents)
            cells = zip(self._places.columns, self._places.lanes, strict=True)
            self._at = {cell: number for number, cell in enumerate(cells)}
            self._show_range()
        self._chip, self.baseline, self._redo = chip, tree.baseline, tree.redo
        if tree.current != self.current or self.selected >= len(self._parents):
            self.current = self.selected = tree.current
            self._reveal(tree.current)
        self.viewport().update()

    def clear(self) -> None:
        """Forgets the tree, so that the next one is seen from where it stands."""
        self.current = self.selected = NOBODY
        self._parents = ()
        self._places, self._at = HistoryLayout((), ()), {}

    def select(self, number: int) -> None:
        """Selects a step, brings it into sight and says so."""
        if 0 <= number < len(self._parents) and number != self.selected:
            self.selected = number
            self._reveal(number)
            self.setAccessibleDescription(self._chip(number).tip)
            self.viewport().update()
            self.step_selected.emit(number)

    def box_of(self, number: int) -> QRect:
        """Where a step's chip stands in the viewport."""
        x = LEFT + self._places.columns[number] * PITCH.width() - self.horizontalScrollBar().value()
        y = TOP + self._places.lanes[number] * PITCH.height() - self.verticalScrollBar().value()
        return QRect(QPoint(x, y), CHIP)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keeps the scroll bars in step with the size, and the selected chip in sight if it was."""
        is_known = 0 <= self.selected < len(self._parents)
        was_seen = is_known and QRect(QPoint(), event.oldSize()).contains(self.box_of(self.selected).center())
        super().resizeEvent(event)
        self._show_range()
        if was_seen:
            self._reveal(self.selected)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Selects the chip under the pointer."""
        number = self._number_at(event.position().toPoint())
        if number is not None:
            self.select(number)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Asks to go to the chip under the pointer."""
        number = self._number_at(event.position().toPoint())
        if number is not None:
            self.step_requested.emit(number)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrows walk along the tree, Return goes to the selected step."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self.selected != NOBODY:
                self.step_requested.emit(self.selected)
            return
        target = self._neighbour(Qt.Key(event.key())) if self._parents else None
        if target is None:
            super().keyPressEvent(event)
        else:
            self.select(target)

    def viewportEvent(self, event: QEvent) -> bool:
        """Tells about the chip under the pointer."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            number = self._number_at(event.pos())
            QToolTip.showText(event.globalPos(), "" if number is None else self._chip(number).tip, self)
            return True
        return super().viewportEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """The focus is a line round the selected chip."""
        super().focusInEvent(event)
        self.viewport().update()

    focusOutEvent = focusInEvent

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paints what is in sight: connections first, chips over them."""
        if self.theme is None or not self._parents:
            return
        painter, shown = ThemedPainter(self.viewport(), self.theme), self._in_sight()
        for number in shown:
            if self._parents[number] >= 0:
                self._paint_connection(painter, number)
        for number in shown:
            box = QRectF(self.box_of(number))
            if box.intersects(QRectF(self.viewport().rect())):
                self._paint_chip(painter, box, number)

    def _in_sight(self) -> list[int]:
        """Steps whose chips, or the connections to them, may be seen."""
        left, top = self.horizontalScrollBar().value(), self.verticalScrollBar().value()
        view = self.viewport().rect()
        first = max((left - LEFT) // PITCH.width() - 1, 0)
        last = (left + view.width()) // PITCH.width() + 1
        lowest = (top + view.height()) // PITCH.height() + 1
        cells = ((column, lane) for column in range(first, last + 1) for lane in range(lowest + 1))
        return [self._at[cell] for cell in cells if cell in self._at]

    def _paint_connection(self, painter: ThemedPainter, number: int) -> None:
        """An arrow from the parent: straight along a lane, else down between the columns."""
        parent, box = self.box_of(self._parents[number]), self.box_of(number)
        start = QPointF(parent.right() + 1, parent.center().y() + 0.5)
        end = QPointF(box.left() - 2, box.center().y() + 0.5)
        bend = start.x() + (PITCH.width() - CHIP.width()) / 2 - 4
        corners = ((bend, start.y()), (bend, end.y())) if start.y() != end.y() else ()
        path = rounded_path((start.toTuple(), *corners, end.toTuple()), BEND)
        path.moveTo(end - QPointF(ARROW, ARROW))
        path.lineTo(end)
        path.lineTo(end - QPointF(ARROW, -ARROW))
        painter.ink("edge", width=1.2).drawPath(path)

    def _paint_chip(self, painter: ThemedPainter, box: QRectF, number: int) -> None:
        chip, stands = self._chip(number), number == self.current
        selected = number == self.selected
        outline, width = "accent" if stands or selected else "line", 1.0 + (stands or (selected and self.hasFocus()))
        frame = box.adjusted(1, 1, -1, -1)
        painter.ink(outline, "accent-bg" if stands else "panel", width).drawRoundedRect(frame, 6, 6)
        title = QRectF(box.x() + 12, box.y() + 3, box.width() - 24, 20)
        marks = ((chip.check, "honoured" if chip.check == "pass" else "infeasible"), (number == self.baseline, "pin"))
        for is_there, mark in marks:
            if is_there:
                tint, wide = "wrong" if mark == "infeasible" else "text-2", 1.3 if mark == "pin" else 1.4
                at = QPointF(title.right() - 5, box.y() + 13)
                paint_strokes(painter, at, mark, tint, wide, 1.0 if mark == "pin" else 0.9)
                title = title.adjusted(0, 0, -18, 0)
        painter.text(title, chip.title)
        below = QRectF(box.x() + 30, box.y() + 22, box.width() - 42, 18)
        if chip.time is not None:
            paint_time_mark(painter, QPointF(box.x() + 16, box.y() + 31), chip.time.origin)
            painter.text(below, duration(chip.time.microseconds), "text-2", face(11))
        if chip.gain is not None:
            told = gain_text(chip.gain) if chip.sure else NO_CHANGE
            painter.text(below, told, gain_tint(told), semibold(11) if chip.sure else face(10.5), RIGHT)

    def _number_at(self, point: QPoint) -> int | None:
        column = (point.x() + self.horizontalScrollBar().value() - LEFT) // PITCH.width()
        lane = (point.y() + self.verticalScrollBar().value() - TOP) // PITCH.height()
        number = self._at.get((column, lane))
        return number if number is not None and self.box_of(number).contains(point) else None

    def _neighbour(self, key: Qt.Key) -> int | None:
        """The step that an arrow key leads to; None for other keys and at the tree's ends."""
        column, lane = self._places.columns[self.selected], self._places.lanes[self.selected]
        if key == Qt.Key.Key_Left:
            return max(self._parents[self.selected], 0)
        if key == Qt.Key.Key_Right:
            return self._redo if self.selected == self.current and self._redo >= 0 else self._first_child()
        if key == Qt.Key.Key_Home:
            return 0
        if key == Qt.Key.Key_End:
            return max(range(len(self._parents)), key=lambda number: self._places.columns[number])
        if key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            lanes = range(lane - 1, -1, -1) if key == Qt.Key.Key_Up else range(lane + 1, self._places.height)
            found = (self._nearest(column, each) for each in lanes)
            return next((number for number in found if number is not None), self.selected)
        return None

    def _first_child(self) -> int:
        column, lane = self._places.columns[self.selected], self._places.lanes[self.selected]
        return self._at.get((column + 1, lane), self.selected)

    def _nearest(self, column: int, lane: int) -> int | None:
        """The chip of a lane that is nearest to a column, at most two columns away."""
        for distance in (0, 1, -1, 2, -2):
            if (column + distance, lane) in self._at:
                return self._at[column + distance, lane]
        return None

    def _show_range(self) -> None:
        size = self.viewport().size()
        width = self._places.width * PITCH.width() - (PITCH.width() - CHIP.width()) + 2 * LEFT
        height = self._places.height * PITCH.height() - (PITCH.height() - CHIP.height()) + TOP
        for bar, whole, page, step in (
            (self.horizontalScrollBar(), width, size.width(), PITCH.width()),
            (self.verticalScrollBar(), height, size.height(), PITCH.height()),
        ):
            bar.setRange(0, max(whole - page, 0))
            bar.setPageStep(page)
            bar.setSingleStep(step)

    def _reveal(self, number: int) -> None:
        """Scrolls only as far as the chip is out of sight."""
        if number == NOBODY or number >= len(self._parents):
            return
        self._show_range()
        box, view = self.box_of(number), self.viewport().rect()
        for bar, low, high, size in (
            (self.horizontalScrollBar(), box.left() - LEFT, box.right() + LEFT, view.width()),
            (self.verticalScrollBar(), box.top() - TOP, box.bottom() + 1, view.height()),
        ):
            if high > size:
                bar.setValue(bar.value() + high - size)
            elif low < 0:
                bar.setValue(bar.value() + low)

