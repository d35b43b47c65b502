"""A chart's time axis under the pointer: wheel and drag zoom, pan, reset, the time under the pointer."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPen, QWheelEvent

from views.format import duration, figure
from views.picture import ResizedPicture
from views.pipeline.geometry import AXIS, HEAD, TOP, ChartGeometry
from views.theme import face
from views.themed_painter import ThemedPainter

ZOOM = 0.8
"""Part of the span that a key, or one notch of the wheel, leaves."""
NOTCH = 120.0
"""Of a wheel, in Qt's eighths of a degree."""
STEADY = 4
"""Pixels that the pointer may move in a click."""
HINT = "Wheel zooms, drag pans, Ctrl+drag zooms to a span; 0 or a double click shows all"
Span = tuple[float, float]


class ZoomedChart(ResizedPicture):
    """Shows a span of the time of `plan`.  A subclass lays `plan` out for `span`, and reacts to clicks."""

    def __init__(self) -> None:
        super().__init__()
        self.plan: ChartGeometry | None = None
        self.span: Span | None = None
        """Cycles of the picture that are seen; None for all."""
        self.pointer: QPointF | None = None
        self._pressed: QPointF | None = None
        self._dragged: Span | None = None
        """The span when a drag began that pans; None while none does."""
        self._is_marking = False
        """Whether a drag marks what to zoom to."""
        self.setMouseTracking(True)
        self.setStatusTip(HINT)

    def click(self, at: QPointF) -> None:
        """The left button was pressed and let go at one place."""
        raise NotImplementedError

    def show_span(self, span: Span | None) -> None:
        """Shows some cycles of the picture; None: all of them."""
        plan = self.plan
        if plan is not None and span is not None:
            span = plan.limit(*span)
            span = None if span == (0.0, plan.end) else span
        self.span = span
        self.lay_out()

    def zoom(self, factor: float, x: float | None = None) -> None:
        """Shows less around a place, by default the middle; factor: part of the span that is left."""
        if self.plan is not None:
            self.show_span(self.plan.span_around(self.plan.left + self.plan.width / 2 if x is None else x, factor))

    def readout(self) -> str:
        """The time under the pointer; "" where it is over no time."""
        if self.plan is None or self.pointer is None or not self._is_time(self.pointer):
            return ""
        cycles = self.plan.clock_time(self.pointer.x())
        if cycles is None:
            return f"{self.plan.doc.folded[1]:,} more steps"
        return f"{figure(cycles)} cycles, {duration(cycles / self.plan.doc.clock)}"

    def paint_pointer(self, painter: ThemedPainter) -> None:
        """A line through the pointer with its time, and the span that a drag marks."""
        plan, at, text = self.plan, self.pointer, self.readout()
        if plan is None or at is None:
            return
        top = TOP + HEAD
        if self._is_marking and self._pressed is not None:
            tint = painter.colour("accent")
            tint.setAlpha(40)
            left, right = sorted((max(self._pressed.x(), plan.left), max(at.x(), plan.left)))
            painter.area(QRectF(left, top, right - left, plan.bottom - top), tint)
        if text:
            pen = QPen(painter.colour("edge"), 1, Qt.PenStyle.DashLine)
            painter.line((at.x(), top), (at.x(), plan.bottom), pen)
            wide = painter.width(text, face(10.5)) + 12
            left = min(max(at.x() - wide / 2, plan.left), self.width() - wide - 4)
            box = QRectF(left, plan.bottom + 3, wide, AXIS - 7)
            painter.box(box, "line", "raised", 3)
            painter.word(box, text, font=face(10.5))

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zooms around the pointer, or pans by a sideways wheel; over the rows' names the page scrolls."""
        at, turned = event.position(), event.angleDelta()
        if self.plan is None or not self._is_time(at):
            event.ignore()
        elif turned.y():
            self.zoom(ZOOM ** (turned.y() / NOTCH), at.x())
        elif turned.x():
            self._pan((self.plan.low, self.plan.high), turned.x() / NOTCH * self.plan.width / 10)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """The beginning of a click or of a drag."""
        if event.button() == Qt.MouseButton.LeftButton and self.plan is not None:
            self._pressed = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Pans while the button is down; with Ctrl a span is marked."""
        self.pointer = event.position()
        plan, pressed = self.plan, self._pressed
        if plan is not None and pressed is not None:
            far = (self.pointer - pressed).manhattanLength() > STEADY and self._is_time(pressed)
            if far and self._dragged is None and not self._is_marking:
                self._is_marking = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
                self._dragged = None if self._is_marking else (plan.low, plan.high)
            if self._dragged is not None:
                self._pan(self._dragged, self.pointer.x() - pressed.x())
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Ends a drag, or is a click."""
        if event.button() != Qt.MouseButton.LeftButton or self._pressed is None:
            return
        pressed, self._pressed = self._pressed, None
        if self._is_marking and self.plan is not None:
            low, high = sorted(self.plan.cycles(at.x()) for at in (pressed, event.position()))
            self.show_span((low, high))
        elif self._dragged is None:
            self.click(event.position())
        self._dragged, self._is_marking = None, False
        self.update()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Shows everything."""
        self.show_span(None)

    def leaveEvent(self, event: QEvent) -> None:
        """Takes the pointer's line away."""
        self.pointer = None
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Plus and minus zoom, 0 shows everything."""
        if event.text() in ("+", "=", "-"):
            self.zoom(1 / ZOOM if event.text() == "-" else ZOOM)
        elif event.text() == "0":
            self.show_span(None)
        else:
            super().keyPressEvent(event)

    def _pan(self, span: Span, pixels: float) -> None:
        """Moves a span with the pointer."""
        if self.plan is not None and self.span is not None:
            by = pixels / self.plan.width * (span[1] - span[0])
            self.show_span((span[0] - by, span[1] - by))

    def _is_time(self, at: QPointF) -> bool:
        plan = self.plan
        return plan is not None and plan.left <= at.x() <= plan.left + plan.width and at.y() <= plan.height
