"""An arrow between two marks of an iteration space."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen, QPolygonF

THICK = 2.0
"""From this width on the head is filled."""
NEAR_HEAD = 8.0
"""Length of the head of a thick arrow between near marks."""


def paint_arrow(
    painter: QPainter, start: QPointF, end: QPointF, gap: float, colour: QColor, width: float, cell: float
) -> None:
    """An arrow that leaves `gap` at both marks; longer than two cells it bends out of the points' way.

    A thick one between marks too close for it goes out and in at their sides.
    """
    length, thick = math.dist(start.toTuple(), end.toTuple()), width >= THICK
    near = thick and _is_near(length, gap, width)
    if length < 2 * gap + 2 and not near:
        return
    middle = control(start, end, gap, width, cell)
    into, out = _unit(end - middle), _unit(middle - start)
    head = NEAR_HEAD if near else _head(width)
    if not thick:
        head = min(head, max((length - 2 * gap) * 0.45, 3.0))
    tip = end - into * gap
    path = QPainterPath(start + out * gap)
    path.quadTo(middle, tip - into * head * 0.8)
    painter.setPen(QPen(colour, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPath(path)
    _paint_head(painter, tip, into, head, colour, filled=thick)


def control(start: QPointF, end: QPointF, gap: float, width: float, cell: float) -> QPointF:
    """The control point of an arrow's curve, which goes half as far out as this point."""
    length = math.dist(start.toTuple(), end.toTuple())
    if width >= THICK and _is_near(length, gap, width):
        bend = 2 * gap + 3 * NEAR_HEAD
    else:
        bend = min(length * 0.16, 34.0) if length > 2 * cell else 0.0
    along = _unit(end - start)
    return (start + end) / 2 + QPointF(-along.y(), along.x()) * (bend if along.x() > 0 else -bend)


def _is_near(length: float, gap: float, width: float) -> bool:
    return length < 2 * gap + 2 * _head(width)


def _head(width: float) -> float:
    return 3.6 + 2.4 * width


def _paint_head(painter: QPainter, tip: QPointF, into: QPointF, length: float, colour: QColor, filled: bool) -> None:
    side = QPointF(-into.y(), into.x()) * length * (0.6 if filled else 0.5)
    back = tip - into * length
    corners = QPolygonF([back + side, tip, back - side])
    if filled:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour)
        painter.drawPolygon(corners)
    else:
        painter.setPen(QPen(colour, 1.0))
        painter.drawPolyline(corners)


def _unit(vector: QPointF) -> QPointF:
    length = math.hypot(vector.x(), vector.y())
    return vector / length if length else QPointF(1, 0)
