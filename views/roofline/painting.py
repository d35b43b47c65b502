"""How a roofline is painted: roofs, grid, points by their origin, ghosts, the names of a few."""

from __future__ import annotations

from heapq import nlargest
from math import atan2, ceil, degrees, log10

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPixmap

from views.format import amount
from views.roofline.axes import GUTTER, TERA, Plot, RooflineAxes, Values
from views.roofline.nodes import OriginPoints, Roofline
from views.rows import draw_text, text_width
from views.theme import Theme, face, semibold

DOT, GHOST = 4.2, 3.0
NAMED = 4
"""Names are written to so many of the dearest kernels, where they find room."""
NOTHING_PREDICTED = "No kernel has a predicted time"
NOTHING_MEASURED = "Nothing measured. F9 measures the selected kernel, Ctrl+F9 replays a recorded run"
ROOM = 130.0
"""Pixels of height below which the roofs go without names."""
NAMED_AT = 0.64
"""Where on the slope the memory's rate is written."""
NAME_WIDTH, ROOF_NAME = 110.0, 66.0


class RooflinePainting:
    """One painting of all plots."""

    def __init__(
        self, painter: QPainter, theme: Theme, roofline: Roofline, axes: RooflineAxes,
        selected: str, hovered: str, focused: bool,
    ) -> None:  # fmt: skip
        self.painter, self.theme, self.roofline, self.axes = painter, theme, roofline, axes
        self.selected, self.hovered, self.focused = selected, hovered, focused

    def plot(self, plot: Plot, first: bool) -> None:
        """Head, grid, roofs and points of one origin; figures at the left of the first plot only."""
        side, area = plot.side, plot.area
        self._head(side, area)
        self._grid(area, first)
        self._roofs(area, named=first)
        if not side.points:
            self._nothing(side, area)
            return
        self._names(plot)
        self._ghosts(plot)
        self._points(plot)

    def _head(self, side: OriginPoints, area: QRectF) -> None:
        painter, row = self.painter, QRectF(area.left(), 6, area.width(), 20)
        title = side.origin.capitalize()
        painter.setFont(semibold(11))
        painter.setPen(self.theme.colour("text"))
        draw_text(painter, row, title)
        left = text_width(painter, title) + 10
        note = side.note if not (side.missing and side.points) else f"{side.note}, {side.missing} without a time"
        painter.setFont(face(10.5))
        painter.setPen(self.theme.colour("text-3"))
        draw_text(painter, row.adjusted(left, 0, 0, 0), note)

    def _grid(self, area: QRectF, first: bool) -> None:
        painter, axes, inner = self.painter, self.axes, self.axes.inner(area)
        painter.setFont(face(10.5))
        for decade in range(round(axes.bottom), round(axes.top) + 1):
            y = self._pixel(axes.spot(area, 10.0**axes.left, 10.0**decade).y())
            painter.setPen(QPen(self.theme.colour("line"), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            if first:
                painter.setPen(self.theme.colour("text-3"))
                box = QRectF(0, y - 8, area.left() - 6, 16)
                right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
                painter.drawText(box, right, _power(decade, TERA))
        decades = range(round(axes.left), round(axes.right) + 1)
        step = max(1, round(len(decades) * 34 / max(inner.width(), 1)))
        for decade in decades[::step]:
            x = self._pixel(axes.spot(area, 10.0**decade, 10.0**axes.bottom).x())
            painter.setPen(QPen(self.theme.colour("line"), 1))
            painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
            painter.setPen(self.theme.colour("text-3"))
            painter.drawText(QRectF(x - 24, area.bottom() + 3, 48, 14), Qt.AlignmentFlag.AlignHCenter, _power(decade))
        painter.setPen(self.theme.colour("text-3"))
        bottom, middle = area.bottom() + 17, Qt.AlignmentFlag.AlignHCenter
        painter.drawText(QRectF(inner.left(), bottom, inner.width(), 15), middle, "FLOP per byte")
        if axes.gutter:
            painter.drawText(QRectF(area.left() - 6, area.bottom() + 3, GUTTER + 12, 14), middle, "none")
        if first:
            painter.drawText(QRectF(0, bottom, area.left() + 8, 15), Qt.AlignmentFlag.AlignRight, "TFLOP/s")

    def _roofs(self, area: QRectF, named: bool) -> None:
        """The slope of the memory up to each ceiling; the lower ceilings go on as thin lines."""
        painter, axes, roofline = self.painter, self.axes, self.roofline
        highest = roofline.ceilings[-1][1]
        foot = axes.spot(area, roofline.left, roofline.bandwidth * roofline.left)
        ridge = axes.spot(area, highest / roofline.bandwidth, highest)
        end = axes.spot(area, 10.0**axes.right, highest)
        painter.setPen(QPen(self.theme.colour("text-3"), 1.4))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        start = QPointF(area.left(), foot.y()) if axes.gutter else foot
        painter.drawPolyline([start, foot, ridge, end])
        for _, ceiling in roofline.ceilings[:-1]:
            corner = axes.spot(area, ceiling / roofline.bandwidth, ceiling)
            painter.setPen(QPen(self.theme.colour("edge"), 1.0))
            painter.drawLine(corner, QPointF(end.x(), corner.y()))
        if named and area.height() >= ROOM:
            self._roof_names(area, foot, ridge, end)

    def _roof_names(self, area: QRectF, foot: QPointF, ridge: QPointF, end: QPointF) -> None:
        painter = self.painter
        painter.setFont(face(10.5))
        painter.setPen(self.theme.colour("text-3"))
        for name, ceiling in self.roofline.ceilings:
            y = self.axes.spot(area, 10.0**self.axes.left, ceiling).y()
            box = QRectF(end.x() - ROOF_NAME, y - 15, ROOF_NAME, 14)
            painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, name)
        slope = ridge - foot
        painter.save()
        painter.translate(foot + slope * NAMED_AT)
        painter.rotate(-_degrees(slope))
        rate = amount(self.roofline.bandwidth, "B/s")
        painter.drawText(QRectF(-50, -16, 100, 14), Qt.AlignmentFlag.AlignHCenter, rate)
        painter.restore()

    def _roof_boxes(self, area: QRectF) -> list[QRectF]:
        """Where the names of the roofs stand, or would."""
        axes, roofline = self.axes, self.roofline
        ends = (axes.spot(area, 10.0**axes.right, ceiling) for _, ceiling in roofline.ceilings)
        ridge = roofline.ceilings[-1][1] / roofline.bandwidth
        part = ridge**NAMED_AT * roofline.left ** (1 - NAMED_AT)
        slope = axes.spot(area, part, roofline.bandwidth * part)
        names = [QRectF(end.x() - ROOF_NAME, end.y() - 15, ROOF_NAME, 14) for end in ends]
        return [*names, QRectF(slope.x() - 30, slope.y() - 34, 46, 56)]

    def _nothing(self, side: OriginPoints, area: QRectF) -> None:
        self.painter.setFont(face(11))
        self.painter.setPen(self.theme.colour("text-3"))
        flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
        box = QRectF(area.center().x() - 84, area.center().y() - 34, 168, 68)
        self.painter.fillRect(box, self.theme.colour("panel"))
        self.painter.drawText(box, flags, NOTHING_PREDICTED if side.origin == "predicted" else NOTHING_MEASURED)

    def _ghosts(self, plot: Plot) -> None:
        """The same kernels at the baseline: small and pale, straight above or below; none under its own point."""
        moved = ~np.isnan(plot.ghosts[:, 1])
        ghosts = plot.ghosts[moved]
        self.painter.setPen(QPen(self.theme.colour("edge"), 1.0))
        for (x, then), now in zip(ghosts, plot.spots[moved, 1], strict=True):
            self.painter.drawLine(QPointF(x, then), QPointF(x, now))
        self._marks(ghosts, plot.side.origin, self.theme.colour("edge"), GHOST)

    def _points(self, plot: Plot) -> None:
        """Every kernel; what is selected or pointed at over the others."""
        origin, points = plot.side.origin, plot.side.points
        above = [n for n, point in enumerate(points) if point.group in (self.selected, self.hovered)]
        self._marks(np.delete(plot.spots, above, axis=0), origin, self.theme.colour("text"), DOT)
        for number in above:
            chosen, hovered = (points[number].group == one for one in (self.selected, self.hovered))
            self._marks(plot.spots[[number]], origin, self.theme.colour("accent" if chosen else "text"), DOT)
            if hovered or self.focused:
                self.painter.setPen(QPen(self.theme.colour("accent"), 1.2))
                self.painter.setBrush(Qt.BrushStyle.NoBrush)
                self.painter.drawEllipse(QPointF(*plot.spots[number]), DOT + 4, DOT + 4)

    def _marks(self, spots: Values, origin: str, colour: QColor, radius: float) -> None:
        """One mark, copied to the pixel at each spot: thousands painted one by one would stall the window."""
        scale = self.painter.deviceTransform().m11()
        mark = self._mark(origin, colour, radius, scale)
        corners = np.unique(np.round(spots * scale - mark.width() / 2), axis=0) / scale
        for x, y in zip(*corners.T.tolist(), strict=True):
            self.painter.drawPixmap(QPointF(x, y), mark)

    def _mark(self, origin: str, colour: QColor, radius: float, scale: float) -> QPixmap:
        """Hollow when predicted, filled when measured, dotted when synthetic; its middle is that of a pixel."""
        side = 2 * ceil((radius + 1) * scale) + 1
        mark = QPixmap(side, side)
        mark.setDevicePixelRatio(scale)
        mark.fill(Qt.GlobalColor.transparent)
        painter = QPainter(mark)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        style = Qt.PenStyle.DotLine if origin == "synthetic" else Qt.PenStyle.SolidLine
        painter.setPen(QPen(colour, 1.5, style))
        painter.setBrush(colour if origin == "measured" else self.theme.colour("panel"))
        middle = side / scale / 2
        painter.drawEllipse(QPointF(middle, middle), radius, radius)
        painter.end()
        return mark

    def _names(self, plot: Plot) -> None:
        """Names of what is selected and pointed at, and of what is dear where no other name stands."""
        painter, taken, points = self.painter, self._roof_boxes(plot.area), plot.side.points
        room = plot.area.adjusted(0, 2, 8, 0)
        first = [number for number, point in enumerate(points) if point.group in (self.selected, self.hovered)]
        dear = nlargest(NAMED, range(len(points)), key=lambda number: points[number].share)
        for number in dict.fromkeys([*first, *dear]):
            point = points[number]
            chosen = point.group == self.selected
            painter.setFont(semibold(10.5) if chosen else face(10.5))
            width = min(text_width(painter, point.title) + 2, NAME_WIDTH)
            inside = [box for box in _places(QPointF(*plot.spots[number]), width) if room.contains(box)]
            others = np.delete(plot.spots, number, axis=0)
            covered = [_dots_in(box, others) + sum(box.intersects(other) for other in taken) for box in inside]
            least = min(covered, default=0)
            if inside and (least == 0 or number in first):
                box = inside[covered.index(least)]
                if least:
                    painter.fillRect(box, self.theme.colour("panel"))
                painter.setPen(self.theme.colour("accent" if chosen else "text-2"))
                draw_text(painter, box, point.title)
                taken.append(box)

    def _pixel(self, value: float) -> float:
        return round(value) + 0.5


def _dots_in(box: QRectF, dots: Values) -> int:
    """How many dots with these middles reach into a box."""
    low, high = (box.left() - DOT, box.top() - DOT), (box.right() + DOT, box.bottom() + DOT)
    return int(((dots > low) & (dots < high)).all(axis=1).sum())


def _places(at: QPointF, width: float) -> list[QRectF]:
    """Where the name of a point may stand, the best first: right, left, below, above."""
    return [
        QRectF(at.x() + 8, at.y() - 8, width, 16),
        QRectF(at.x() - 8 - width, at.y() - 8, width, 16),
        QRectF(at.x() + 5, at.y() + 5, width, 16),
        QRectF(at.x() - width / 2, at.y() + 9, width, 16),
        QRectF(at.x() + DOT - width, at.y() + 10, width, 16),
        QRectF(at.x() + DOT - width, at.y() + 24, width, 16),
        QRectF(at.x() - width / 2, at.y() - 24, width, 16),
    ]


def _power(decade: int, unit: float = 1.0) -> str:
    """A power of ten as the axes write it: "0.01", "1,000"."""
    value = 10.0**decade / unit
    return f"{value:,.0f}" if value >= 1 else f"{value:.{-round(log10(value))}f}"


def _degrees(slope: QPointF) -> float:
    return degrees(atan2(-slope.y(), slope.x()))
