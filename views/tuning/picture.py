"""One painting of the progress of a group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF

from views.format import duration, figure
from views.plots.scale import ticks
from views.rows import draw_text, text_width
from views.theme import Theme, face, semibold
from views.tuning.axes import TrialAxes
from views.tuning.dots import RADIUS, paint_dots
from views.tuning.nodes import GroupProgress
from views.tuning.trials import Numbers

LINES, MARKS = 6, 6
RUG = 10.0
"""Pixels of a failure's tick."""


class ProgressPicture:
    """The parts of the plot, painted one over the other."""

    def __init__(
        self, painter: QPainter, theme: Theme, axes: TrialAxes, times: Numbers, summary: GroupProgress
    ) -> None:
        self.painter, self.theme, self.axes, self.times, self.summary = painter, theme, axes, times, summary
        self.x, self.y = axes.places(times)

    def grid(self) -> None:
        """Round times at the left, round numbers below, the start and the present as lines."""
        painter, theme, area = self.painter, self.theme, self.axes.area
        painter.setFont(face(10.5))
        for value in ticks(self.axes.low, self.axes.high, LINES):
            y = round(self.axes.y(value)) + 0.5
            painter.setPen(QPen(theme.colour("line"), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            if y > area.bottom() - 4:
                continue  # its figure would stand on the name of the ticks below
            painter.setPen(theme.colour("text-3"))
            draw_text(painter, QRectF(16, y - 8, area.left() - 24, 16), figure(value), right=True)
        axis_title(painter, area, f"{self.summary.origin} µs", theme)
        bottom = round(area.bottom()) + 0.5
        painter.setPen(QPen(theme.colour("edge"), 1))
        painter.drawLine(QPointF(area.left(), bottom), QPointF(area.right(), bottom))
        self._numbers()
        self._start()
        self._present()

    def _numbers(self) -> None:
        painter, area = self.painter, self.axes.area
        painter.setPen(self.theme.colour("text-3"))
        for number in ticks(0, self.axes.room, MARKS):
            place = max(number - 1, 0)
            box = QRectF(self.axes.x(place) - 30, area.bottom() + 2 * RUG + 12, 60, 16)
            painter.drawText(box, Qt.AlignmentFlag.AlignHCenter, f"{number:,.0f}")
        name = QRectF(area.right() - 60, area.bottom() + 2 * RUG + 26, 60, 16)
        draw_text(painter, name, "trial", right=True)

    def _start(self) -> None:
        """The time before the search."""
        if not self.summary.before:
            return
        painter, area, y = self.painter, self.axes.area, round(self.axes.y(self.summary.before)) + 0.5
        painter.setPen(QPen(self.theme.colour("edge"), 1))
        painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
        painter.setPen(self.theme.colour("text-2"))
        said = f"start {figure(self.summary.before)}"
        draw_text(painter, QRectF(area.right() - 160, y - 17, 160, 16), said, right=True)

    def _present(self) -> None:
        """How far the search has come, while there is more to come."""
        if len(self.times) >= self.axes.room:
            return
        painter, area, x = self.painter, self.axes.area, round(self.axes.x(len(self.times) - 1)) + 0.5
        painter.setPen(QPen(self.theme.colour("edge"), 1))
        painter.drawLine(QPointF(x, area.top() - 14), QPointF(x, area.bottom() + 2 * RUG + 6))
        text = f"{len(self.times):,} now"
        painter.setPen(self.theme.colour("text-2"))
        left = x + 6 if x + 6 + text_width(painter, text) <= area.right() else x - 6 - text_width(painter, text)
        draw_text(painter, QRectF(left, area.top() - 18, 90, 16), text)

    def dots(self) -> None:
        """Every trial with a time; slower ones than the axis holds as arrows at its edge."""
        shown = np.isfinite(self.times) & (self.times <= self.axes.high)
        colour = self.theme.colour("text-3")
        paint_dots(self.painter, self.axes.area, self.x[shown], self.y[shown], colour, self.summary.origin)
        beyond = np.unique(np.rint(self.x[self.times > self.axes.high] / 3) * 3)
        self.painter.setPen(Qt.PenStyle.NoPen)
        self.painter.setBrush(self.theme.colour("text-2"))
        top = self.axes.area.top()
        for x in beyond:
            corners = [QPointF(x - 3.4, top + 3), QPointF(x, top - 3.4), QPointF(x + 3.4, top + 3)]
            self.painter.drawPolygon(QPolygonF(corners))

    def spread(self, low: Numbers, high: Numbers) -> None:
        """A thin bar from the 20th to the 80th percentile of the samples of each time that has any."""
        known = np.flatnonzero(np.isfinite(self.times) & np.isfinite(low) & (low <= self.axes.high))
        self.painter.setPen(QPen(self.theme.colour("text-3"), 1))
        bars = (
            QLineF(self.x[place], self.axes.y(float(high[place])), self.x[place], self.axes.y(float(low[place])))
            for place in _apart(self.x, known)
        )
        self.painter.drawLines([bar for bar in bars if abs(bar.dy()) > 2 * RADIUS])

    def steps(self) -> None:
        """The best so far: a line of steps with a dot at each, a ring and a name at the last."""
        known = np.where(np.isnan(self.times), np.inf, self.times)
        best = np.minimum.accumulate(known)
        bests = np.flatnonzero(known < np.concatenate(([np.inf], best[:-1])))
        if not len(bests):
            return
        painter, accent = self.painter, self.theme.colour("accent")
        points: list[QPointF] = []
        for place in bests:
            y = self.axes.y(float(best[place]))
            if points:
                points.append(QPointF(self.x[place], points[-1].y()))
            points.append(QPointF(self.x[place], y))
        corners = points[::2]
        points.append(QPointF(self.x[-1], points[-1].y()))
        painter.setPen(QPen(accent, 2, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap, Qt.PenJoinStyle.MiterJoin))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(QPolygonF(points))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(accent)
        for corner in corners:
            painter.drawEllipse(corner, 3.4, 3.4)
        self._name_best(corners[-1])

    def _name_best(self, at: QPointF) -> None:
        painter, area, accent = self.painter, self.axes.area, self.theme.colour("accent")
        painter.setPen(QPen(accent, 1.2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawEllipse(at, 6.5, 6.5)
        painter.setFont(semibold(10.5))
        text = f"best {duration(self.summary.best)}, trial {self.summary.number:,}"
        width = text_width(painter, text)
        left = min(max(at.x() - width - 10, area.left() + 4), area.right() - width)
        below = at.y() + 8 if at.y() + 22 <= area.bottom() else at.y() - 22
        draw_text(painter, QRectF(left, below, width + 2, 16), text)

    def failures(self, wrong: np.ndarray) -> None:
        """A tick for each failure, wrong results in a row of their own."""
        failed, area = np.isnan(self.times), self.axes.area
        rows = (("failed", failed & ~wrong, "text-2"), ("wrong", failed & wrong, "wrong"))
        for number, (name, which, token) in enumerate(rows):
            top = area.bottom() + 6 + number * (RUG + 3)
            self.painter.setFont(face(10.5))
            self.painter.setPen(self.theme.colour(token if which.any() or token != "wrong" else "text-3"))
            draw_text(self.painter, QRectF(8, top - 3, area.left() - 16, 16), name, right=True)
            self.painter.setPen(QPen(self.theme.colour(token), 1.4))
            for x in np.unique(np.rint(self.x[which])):
                self.painter.drawLine(QPointF(x + 0.5, top), QPointF(x + 0.5, top + RUG))

    def ring(self, place: int, focused: bool) -> None:
        """A ring around one trial; a failure's tick is underlined."""
        painter, area = self.painter, self.axes.area
        painter.setPen(QPen(self.theme.colour("accent"), 2 if focused else 1.4))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if np.isnan(self.times[place]):
            x, y = self.x[place], area.bottom() + 2 * RUG + 9
            painter.drawLine(QPointF(x - 4, y), QPointF(x + 4, y))
        else:
            painter.drawEllipse(QPointF(self.x[place], self.y[place]), 5, 5)


def _apart(x: Numbers, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of places that fall onto one pixel the last: more bars than pixels are only slow."""
    columns = np.rint(x[places])
    return places[np.append(columns[1:] != columns[:-1], True)] if len(places) else places


def axis_title(painter: QPainter, area: QRectF, text: str, theme: Theme) -> None:
    """What stands on the left axis, written upwards."""
    painter.save()
    painter.setFont(face(10.5))
    painter.setPen(theme.colour("text-3"))
    painter.translate(14, area.center().y())
    painter.rotate(-90)
    painter.drawText(QRectF(-area.height() / 2, -8, area.height(), 16), Qt.AlignmentFlag.AlignCenter, text)
    painter.restore()
