"""Very many marks at once: which pixels they cover is NumPy's work, so that 100,000 cost what 100 do.

Every mark stands on a whole pixel.  A ring is a predicted time, a disc a measured one, a dashed ring a synthetic one, a
cross a published one.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.ma  # which `np.unique` would load, in 30 ms, while the first picture is painted
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPaintEngine, QPainter, QPainterPath, QPen, QPolygonF, QTransform

from views.plots.mark_style import MarkStyle
from views.theme import Theme

RING = 1.1
"""Width of a ring's line, pixels."""
ARROW = 3.4
"""Half the width of the arrow that stands for marks above the picture, pixels."""

Numbers = NDArray[np.float64]
Coverage = NDArray[np.uint8]


class _InView(pg.GraphicsObject):
    """An item of which that part is painted which is in view."""

    def boundingRect(self) -> QRectF:
        """All that is in view: what of the item is, is found while painting."""
        box = self.getViewBox()
        # Of the box: what pyqtgraph keeps of it in an item lags while nothing is shown.
        return QRectF(box.viewRect()) if box is not None else QRectF()

    def viewTransformChanged(self) -> None:
        """Another part is in view."""
        self.prepareGeometryChange()


class MarkItem(_InView):
    """Marks of one style; those above the picture may be arrows at its upper edge."""

    def __init__(self) -> None:
        super().__init__()
        self.x: Numbers = np.empty(0)
        self.y: Numbers = np.empty(0)
        self._style: MarkStyle | None = None
        self._theme: Theme | None = None

    def show_marks(self, x: Numbers, y: Numbers, style: MarkStyle, theme: Theme) -> None:
        """Replaces all marks."""
        self.x, self.y, self._style, self._theme = x, y, style, theme
        self.prepareGeometryChange()
        self.update()

    def paint(self, painter: QPainter, *_: object) -> None:
        """One image of all marks; into a file of lines and curves, each as a path."""
        style, theme = self._style, self._theme
        if style is None or theme is None or not len(self.x):
            return
        transform = painter.worldTransform()
        x, y = _map(transform, self.x, self.y)
        box = transform.mapRect(self.boundingRect())
        painter.save()
        painter.resetTransform()
        if painter.paintEngine().type() == QPaintEngine.Type.SVG:
            _paint_paths(painter, box, np.stack([x, y], 1), style, theme)
        else:
            paint_marks(painter, box, x, y, style, theme)
        if style.arrows:
            _paint_arrows(painter, box, x[y < box.top()], theme.colour(style.arrows))
        painter.restore()


class Spans(_InView):
    """Upright lines from one value to another; of those on one column of pixels the union is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self._x: Numbers = np.empty(0)
        self._low: Numbers = np.empty(0)
        self._high: Numbers = np.empty(0)
        self._pen = QPen()

    def show_spans(self, x: Numbers, low: Numbers, high: Numbers, pen: QPen) -> None:
        """Replaces all lines."""
        self._x, self._low, self._high, self._pen = x, low, high, pen
        self.prepareGeometryChange()
        self.update()

    def paint(self, painter: QPainter, *_: object) -> None:
        """At most one line for each column of pixels."""
        transform = painter.worldTransform()
        box = transform.mapRect(self.boundingRect())
        x, bottom = _map(transform, self._x, self._low)
        top = _map(transform, self._x, self._high)[1]
        inside = (x >= box.left()) & (x <= box.right()) & np.isfinite(top + bottom)
        place = np.rint(x[inside] - box.left()).astype(np.int64)
        starts, ends = np.full((2, round(box.width()) + 2), [[np.inf], [-np.inf]])
        np.minimum.at(starts, place, top[inside])
        np.maximum.at(ends, place, bottom[inside])
        columns = np.flatnonzero(np.isfinite(starts))
        across = np.rint(columns + box.left()) + 0.5
        painter.save()
        painter.resetTransform()
        painter.setPen(self._pen)
        lines = zip(across.tolist(), starts[columns].tolist(), ends[columns].tolist(), strict=True)
        painter.drawLines([QLineF(at, start, at, end) for at, start, end in lines])
        painter.restore()


def paint_marks(painter: QPainter, area: QRectF, x: Numbers, y: Numbers, style: MarkStyle, theme: Theme) -> None:
    """Marks at places of the device; those outside of `area` are left out."""
    scale = painter.device().devicePixelRatioF()
    # From a whole pixel on: an image between pixels is smeared over both.
    area = QRectF(QPointF(round(area.x() * scale) / scale, round(area.y() * scale) / scale), area.size())
    width, height = round(area.width() * scale), round(area.height() * scale)
    if width < 1 or height < 1:
        return
    columns, rows = np.rint((x - area.x()) * scale), np.rint((y - area.y()) * scale)
    inside = np.flatnonzero((columns >= 0) & (columns < width) & (rows >= 0) & (rows < height))
    if not len(inside):
        return
    places = np.stack([columns[inside], rows[inside]]).astype(np.int64)
    (left, top), (right, bottom) = places.min(axis=1), places.max(axis=1)  # few marks need no large picture
    taken = np.zeros((bottom - top + 1, right - left + 1), np.uint8)
    taken[places[1] - top, places[0] - left] = 1
    discs = [("measured", style.back)] if style.back and style.shape != "measured" else []
    for shape, token in (*discs, (style.shape, style.token)):
        mask = _mask(shape, style.radius, scale)
        image = _image(_coverage(taken, mask), theme.colour(token))
        image.setDevicePixelRatio(scale)
        margin = mask.shape[0] // 2
        at = QPointF(area.x() + (int(left) - margin) / scale, area.y() + (int(top) - margin) / scale)
        painter.drawImage(at, image)


def _paint_paths(painter: QPainter, box: QRectF, places: Numbers, style: MarkStyle, theme: Theme) -> None:
    """Each mark at its place, (marks, 2), as part of one path."""
    x, y = places.T
    inside = (x >= box.left()) & (x <= box.right()) & (y >= box.top()) & (y <= box.bottom())
    line = Qt.PenStyle.DotLine if style.shape == "synthetic" else Qt.PenStyle.SolidLine
    filled, colour, radius = style.shape == "measured", theme.colour(style.token), style.radius
    painter.setPen(Qt.PenStyle.NoPen if filled else QPen(colour, RING, line))
    painter.setBrush(colour if filled else Qt.BrushStyle.NoBrush)
    path = QPainterPath()
    for column, row in np.unique(np.rint(places[inside]), axis=0).tolist():
        if style.shape == "published":
            for sign in (-1, 1):
                path.moveTo(column - radius, row - sign * radius)
                path.lineTo(column + radius, row + sign * radius)
        else:
            path.addEllipse(QPointF(column, row), radius, radius)
    painter.drawPath(path)


def _paint_arrows(painter: QPainter, box: QRectF, x: Numbers, colour: QColor) -> None:
    """An arrow at the upper edge for every mark above it."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    top = box.top() + 5
    for at in np.unique(np.rint(x[(x >= box.left()) & (x <= box.right())] / 3) * 3).tolist():
        corners = [QPointF(at - ARROW, top + 3), QPointF(at, top - ARROW), QPointF(at + ARROW, top + 3)]
        painter.drawPolygon(QPolygonF(corners))


def _map(transform: QTransform, x: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
    """Places on the device; plots are moved and stretched, never turned."""
    return x * transform.m11() + transform.dx(), y * transform.m22() + transform.dy()


def _coverage(taken: Coverage, mask: Coverage) -> Coverage:
    """How far each pixel is covered when every pixel that is taken has the mask's picture around it."""
    size, (height, width) = mask.shape[0], taken.shape
    found = np.zeros((height + size - 1, width + size - 1), np.uint8)
    shades = {shade: taken * shade for shade in np.unique(mask) if shade}  # few, as a mark is the same on all sides
    for down, right in np.argwhere(mask).tolist():
        part = found[down : down + height, right : right + width]
        np.maximum(part, shades[mask[down, right]], out=part)
    return found


def _image(covered: Coverage, colour: QColor) -> QImage:
    """The colour, as opaque as a pixel is covered; the image owns its bytes."""
    parts = np.array([colour.blueF(), colour.greenF(), colour.redF(), 1.0], np.float32)
    shades = (np.arange(256, dtype=np.float32)[:, None] * parts).astype(np.uint8).view(np.uint32).ravel()
    pixels = np.ascontiguousarray(shades[covered])
    height, width = covered.shape
    return QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_ARGB32_Premultiplied).copy()


@cache
def _mask(shape: str, radius: float, scale: float) -> Coverage:
    """The picture of one mark: how far it covers each pixel around its centre, 0 to 255."""
    size, ring = radius * scale, RING * scale
    reach = int(np.ceil(size + 0.5))
    places = np.arange(-reach, reach + 1)
    across, down = np.meshgrid(places, places)
    distance = np.hypot(across, down)
    covered = np.clip(size + 0.5 - distance, 0, 1)
    if shape == "published":
        strokes = np.minimum(abs(across - down), abs(across + down)) / np.sqrt(2)
        covered = np.minimum(covered, np.clip(ring / 2 + 0.5 - strokes, 0, 1))
    elif shape != "measured":
        covered = np.clip(covered - np.clip(size - ring + 0.5 - distance, 0, 1), 0, 1)
    if shape == "synthetic":
        turn = np.floor(np.arctan2(down, across) / (np.pi / 4) + 0.5)
        covered = np.where(turn % 2 == 0, covered, 0)
    return np.asarray(covered * 255, np.uint8)
