"""Logarithmic axes that all plots of a roofline share, and where its points stand on them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10

from PySide6.QtCore import QPointF, QRectF

from views.roofline.nodes import Point, Roofline

GUTTER = 26.0
"""Pixels left of the axis for kernels without operations."""
TERA = 1e12
DECADE = 1.0


@dataclass(frozen=True, slots=True)
class Axes:
    """Decades from `left` to `right` operations a byte, and from `bottom` to `top` operations a second."""

    left: float
    right: float
    bottom: float
    top: float
    gutter: bool
    """Whether there are kernels without operations."""

    def spot(self, area: QRectF, intensity: float, height: float) -> QPointF:
        """Where a pair stands; an intensity of 0 stands in the gutter."""
        inner = self.inner(area)
        x = inner.left() + (log10(intensity) - self.left) / (self.right - self.left) * inner.width() if intensity else 0
        y = inner.bottom() - (log10(height) - self.bottom) / (self.top - self.bottom) * inner.height()
        return QPointF(x if intensity else area.left() + GUTTER / 2, y)

    def inner(self, area: QRectF) -> QRectF:
        """The area without its gutter."""
        return area.adjusted(GUTTER + 4, 0, 0, 0) if self.gutter else area


def axes_of(roofline: Roofline) -> Axes:
    """Whole decades around all points, ghosts and the ridge of the highest roof."""
    points = [point for side in roofline.sides for point in side.points]
    ridge = roofline.ceilings[-1][1] / roofline.bandwidth
    heights = [height for point in points for height in (point.height, point.ghost) if height]
    heights += [roofline.ceilings[-1][1], roofline.bandwidth * roofline.left]
    left = log10(roofline.left)
    right = ceil(log10(max([ridge * 3, *(point.intensity for point in points)])))
    bottom, top = floor(log10(min(heights))), ceil(log10(max(heights)) + 0.05)
    return Axes(left, max(right, left + DECADE), bottom, top, any(not point.intensity for point in points))


def in_order(points: tuple[Point, ...], by_height: bool) -> list[Point]:
    """Points as the arrow keys walk through them."""
    if by_height:
        return sorted(points, key=lambda point: (point.height, point.group))
    return sorted(points, key=lambda point: (point.intensity, point.height, point.group))
