"""Very many dots at once: which pixels they cover is NumPy's work, so that 100,000 cost what 100 do.

Every dot stands on a whole pixel.  A ring is a predicted time, a disc a measured one, a dotted ring a synthetic one.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter

RADIUS = 2.6
RING = 1.1
"""Width of a ring's line, pixels."""

Coverage = NDArray[np.float32]


def paint_dots(
    painter: QPainter, area: QRectF, x: NDArray[np.float64], y: NDArray[np.float64], colour: QColor, origin: str
) -> None:
    """Dots at places of the widget; those outside of `area` are left out."""
    scale = painter.device().devicePixelRatioF()
    width, height = round(area.width() * scale), round(area.height() * scale)
    if width < 1 or height < 1 or not len(x):
        return
    columns, rows = np.rint((x - area.x()) * scale), np.rint((y - area.y()) * scale)
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    taken = np.zeros((height, width), bool)
    taken[rows[inside].astype(np.int64), columns[inside].astype(np.int64)] = True
    margin = _mask(origin, scale).shape[0] // 2
    image = _image(_coverage(taken, _mask(origin, scale)), colour)
    image.setDevicePixelRatio(scale)
    painter.drawImage(QPointF(area.x() - margin / scale, area.y() - margin / scale), image)


def _coverage(taken: NDArray[np.bool_], mask: Coverage) -> Coverage:
    """How far each pixel is covered when every pixel that is taken has the mask's picture around it."""
    size, (height, width) = mask.shape[0], taken.shape
    found = np.zeros((height + size - 1, width + size - 1), np.float32)
    for down in range(size):
        for right in range(size):
            if mask[down, right]:
                part = found[down : down + height, right : right + width]
                np.maximum(part, taken * mask[down, right], out=part)
    return found


def _image(covered: Coverage, colour: QColor) -> QImage:
    """The colour, as opaque as a pixel is covered; the image owns its bytes."""
    parts = np.array([colour.blueF(), colour.greenF(), colour.redF(), 1.0], np.float32) * 255
    pixels = np.ascontiguousarray((covered[..., None] * parts).astype(np.uint8))
    height, width = covered.shape
    view = QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_ARGB32_Premultiplied)
    return view.copy()


@cache
def _mask(origin: str, scale: float) -> Coverage:
    """The picture of one dot: how far it covers each pixel around its centre."""
    radius, ring = RADIUS * scale, RING * scale
    reach = int(np.ceil(radius + 0.5))
    places = np.arange(-reach, reach + 1)
    across, down = np.meshgrid(places, places)
    distance = np.hypot(across, down)
    covered = np.clip(radius + 0.5 - distance, 0, 1)
    if origin != "measured":
        covered = np.clip(covered - np.clip(radius - ring + 0.5 - distance, 0, 1), 0, 1)
    if origin == "synthetic":
        turn = np.floor(np.arctan2(down, across) / (np.pi / 4) + 0.5)
        covered = np.where(turn % 2 == 0, covered, 0)
    return covered.astype(np.float32)
