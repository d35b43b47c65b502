"""Logarithmic axes that all plots of a roofline share, and where its points stand on them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np
from PySide6.QtCore import QPointF, QRectF

from views.roofline.nodes import OriginPoints, Point, Roofline

GUTTER = 26.0
"""Pixels left of the axis for kernels without operations."""
TERA = 1e12
DECADE = 1.0

Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class RooflineAxes:
    """Decades from `left` to `right` operations a byte, and from `bottom` to `top` operations a second."""

    left: float
    right: float
    bottom: float
    top: float
    gutter: bool
    """Whether there are kernels without operations."""

    def spot(self, area: QRectF, intensity: float, height: float) -> QPointF:
        """Where a pair stands; an intensity of 0 stands in the gutter."""
        x, y = self.spots(area, np.array([intensity]), np.array([height]))[0]
        return QPointF(x, y)

    def spots(self, area: QRectF, intensity: Values, height: Values) -> Values:
        """Where pairs stand: a row of x and y for each."""
        inner = self.inner(area)
        across, up = inner.width() / (self.right - self.left), inner.height() / (self.top - self.bottom)
        moves_only = intensity == 0
        x = inner.left() + (np.log10(np.where(moves_only, 1.0, intensity)) - self.left) * across
        y = inner.bottom() - (np.log10(height) - self.bottom) * up
        return np.stack([np.where(moves_only, area.left() + GUTTER / 2, x), y], axis=1)

    def inner(self, area: QRectF) -> QRectF:
        """The area without its gutter."""
        return area.adjusted(GUTTER + 4, 0, 0, 0) if self.gutter else area


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """The points of one origin and where they stand on the canvas: worked out once, painted many times.

    Arrays, since thousands of points as objects would wake the garbage collector in the middle of a painting.
    """

    side: OriginPoints
    area: QRectF
    spots: Values
    """(points, 2): of each point x and y in pixels."""
    ghosts: Values
    """The same of each point at the baseline; NaN where it has none or has not moved."""


def plot_points(axes: RooflineAxes, side: OriginPoints, area: QRectF) -> Plot:
    """The points of a side in their area."""
    count = len(side.points)
    intensity = np.fromiter((point.intensity for point in side.points), float, count)
    height = np.fromiter((point.height for point in side.points), float, count)
    ghost = np.fromiter((point.ghost or np.nan for point in side.points), float, count)
    ghost[ghost == height] = np.nan
    return Plot(side, area, axes.spots(area, intensity, height), axes.spots(area, intensity, ghost))


def axes_of(roofline: Roofline) -> RooflineAxes:
    """Whole decades around all points, ghosts and the ridge of the highest roof."""
    points = [point for side in roofline.sides for point in side.points]
    ridge = roofline.ceilings[-1][1] / roofline.bandwidth
    heights = [height for point in points for height in (point.height, point.ghost) if height]
    heights += [roofline.ceilings[-1][1], roofline.bandwidth * roofline.left]
    left = log10(roofline.left)
    right = ceil(log10(max([ridge * 3, *(point.intensity for point in points)])))
    bottom, top = floor(log10(min(heights))), ceil(log10(max(heights)) + 0.05)
    return RooflineAxes(left, max(right, left + DECADE), bottom, top, any(not point.intensity for point in points))


def in_order(points: tuple[Point, ...], by_height: bool) -> list[Point]:
    """Points as the arrow keys walk through them."""
    if by_height:
        return sorted(points, key=lambda point: (point.height, point.group))
    return sorted(points, key=lambda point: (point.intensity, point.height, point.group))
