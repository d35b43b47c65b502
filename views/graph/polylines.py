"""Geometry of edges: how far a point is from one, and its path with round corners."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from PySide6.QtCore import QPointF
from PySide6.QtGui import QPainterPath

RADIUS = 4.0
"""Of the corners of boxes and edges."""

def distance(points: Sequence[tuple[float, float]], at: QPointF) -> float:
    """Between a point and a polyline."""
    best = math.inf
    for (x, y), (to_x, to_y) in pairwise(points):
        along, across = to_x - x, to_y - y
        length = along * along + across * across
        part = ((at.x() - x) * along + (at.y() - y) * across) / length if length else 0.0
        part = min(max(part, 0.0), 1.0)
        best = min(best, math.hypot(x + part * along - at.x(), y + part * across - at.y()))
    return best


def rounded_path(points: Sequence[tuple[float, float]], radius: float = RADIUS) -> QPainterPath:
    """A polyline with rounded corners."""
    path = QPainterPath(QPointF(*points[0]))
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        path.lineTo(_toward(corner, before, radius))
        path.quadTo(QPointF(*corner), _toward(corner, after, radius))
    path.lineTo(QPointF(*points[-1]))
    return path


def _toward(corner: tuple[float, float], other: tuple[float, float], radius: float) -> QPointF:
    length = math.hypot(other[0] - corner[0], other[1] - corner[1]) or 1.0
    part = min(radius, length / 2) / length
    return QPointF(corner[0] + (other[0] - corner[0]) * part, corner[1] + (other[1] - corner[1]) * part)
