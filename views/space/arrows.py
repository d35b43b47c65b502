"""An arrow between two marks of an iteration space."""

from __future__ import annotations

import math
from collections.abc import Iterable

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainterPath, QPen

from views.themed_painter import ThemedPainter

THICK = 2.0
"""From this width on the head is filled."""
NEAR_HEAD = 8.0
"""Length of the head of a thick arrow between near marks."""


def paint_arrows(
    painter: ThemedPainter, ends: Iterable[tuple[QPointF, QPointF]], gap: float, pen: QPen, cell: float
) -> None:
    """Thin arrows that leave `gap` at both marks; those longer than two cells bend out of the points' way.

    All of them are one path: a space has hundreds, and a call of the painter for each would be felt.
    """
    shafts, heads, width = QPainterPath(), QPainterPath(), pen.widthF()
    for start, end in ends:
        length = math.dist(start.toTuple(), end.toTuple())
        if length < 2 * gap + 2:
            continue
        middle = control(start, end, gap, width, cell)
        (x, y), (u, v) = end.toTuple(), _unit(*(end - middle).toTuple())
        x, y = x - u * gap, y - v * gap
        head = min(_head(width), max((length - 2 * gap) * 0.45, 3.0))
        out = _unit(*(middle - start).toTuple())
        shafts.moveTo(start.x() + out[0] * gap, start.y() + out[1] * gap)
        shafts.quadTo(middle.x(), middle.y(), x - u * head * 0.8, y - v * head * 0.8)
        heads.moveTo(x - u * head - v * head * 0.5, y - v * head + u * head * 0.5)
        heads.lineTo(x, y)
        heads.lineTo(x - u * head + v * head * 0.5, y - v * head - u * head * 0.5)
    painter.ink(pen).drawPath(shafts)
    painter.ink(QPen(pen.color(), 1.0)).drawPath(heads)


def paint_thick_arrow(
    painter: ThemedPainter, start: QPointF, end: QPointF, gap: float, pen: QPen, cell: float
) -> None:
    """An arrow with a filled head; between marks too close for it, it goes out and in at their sides."""
    length, width = math.dist(start.toTuple(), end.toTuple()), pen.widthF()
    middle = control(start, end, gap, width, cell)
    into, out = (QPointF(*_unit(*way.toTuple())) for way in (end - middle, middle - start))
    head = NEAR_HEAD if _is_near(length, gap, width) else _head(width)
    tip = end - into * gap
    path = QPainterPath(start + out * gap)
    path.quadTo(middle, tip - into * head * 0.8)
    painter.ink(pen).drawPath(path)
    side, back = QPointF(-into.y(), into.x()) * head * 0.6, tip - into * head
    painter.shape([back + side, tip, back - side], pen.color())


def arrow_pen(colour: QColor, width: float) -> QPen:
    """The pen of an arrow's shaft, which ends where the head begins."""
    return QPen(colour, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap)


def control(start: QPointF, end: QPointF, gap: float, width: float, cell: float) -> QPointF:
    """The control point of an arrow's curve, which goes half as far out as this point."""
    (x, y), (u, v) = start.toTuple(), end.toTuple()
    length = math.dist((x, y), (u, v))
    if width >= THICK and _is_near(length, gap, width):
        bend = 2 * gap + 3 * NEAR_HEAD
    else:
        bend = min(length * 0.16, 34.0) if length > 2 * cell else 0.0
    along = _unit(u - x, v - y)
    bend = bend if along[0] > 0 else -bend
    return QPointF((x + u) / 2 - along[1] * bend, (y + v) / 2 + along[0] * bend)


def _is_near(length: float, gap: float, width: float) -> bool:
    return length < 2 * gap + 2 * _head(width)


def _head(width: float) -> float:
    """Length of an arrow's head."""
    return 3.6 + 2.4 * width


def _unit(x: float, y: float) -> tuple[float, float]:
    length = math.hypot(x, y)
    return (x / length, y / length) if length else (1.0, 0.0)
