"""An arrow between two marks of an iteration space."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen, QPolygonF

THICK = 2.0
"""From this width on the head is filled."""


def paint_arrow(
    painter: QPainter, start: QPointF, end: QPointF, gap: float, colour: QColor, width: float, cell: float
) -> None:
    """An arrow that leaves `gap` at both marks; longer than two cells it bends out of the points' way.

    A thick one between marks too close for it goes out and in at their sides.
    """
    length = math.dist(start.toTuple(), end.toTuple())
    head = 3.6 + 2.4 * width
    near = width >= THICK and length < 2 * gap + 2 * head
    if length < 2 * gap + 2 and not near:
        return
    head = 8.0 if near else head
    bend = 2 * gap + 3 * head if near else min(length * 0.16, 34.0) if length > 2 * cell else 0.0
    along = _unit(end - start)
    across = QPointF(-along.y(), along.x())
    middle = (start + end) / 2 + across * (bend if along.x() > 0 else -bend)
    into, out = _unit(end - middle), _unit(middle - start)
    if width < THICK:
        head = min(head, max((length - 2 * gap) * 0.45, 3.0))
    tip = end - into * gap
    path = QPainterPath(start + out * gap)
    path.quadTo(middle, tip - into * head * 0.8)
    painter.setPen(QPen(colour, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPath(path)
    _paint_head(painter, tip, into, head, colour, filled=width >= THICK)


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
