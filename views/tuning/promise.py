"""What the model promised before anything was compiled against what came of it: how far its order can be trusted."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from views.format import figure
from views.plots.scale import ticks
from views.rows import draw_text
from views.theme import Theme, face, semibold
from views.themed import Themed
from views.tuning.dots import paint_dots
from views.tuning.picture import axis_title
from views.tuning.trials import NONE, Numbers, Rows, Trials

LEFT, RIGHT, TOP, BOTTOM = 60.0, 24.0, 34.0, 44.0
REACH = 10.0
AIR = 0.06
"""Part of the axis between its ends and the outermost dots."""
TICKS = 6
NOTHING = "No trial has both a promise and a time yet"


class PromisePlot(QWidget, Themed):
    """A dot for each trial on two equal logarithmic axes, and the line on which promises are kept."""

    trial_selected = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.selected = NONE
        self._trials, self._origin, self._correlation = Trials(), "predicted", float("nan")
        self._rows: Rows = np.empty(0, np.int64)
        self.setAccessibleName("Promised time against the result")
        self.setMinimumHeight(150)

    def show_trials(self, trials: Trials, rows: Rows, origin: str, correlation: float) -> None:
        """Replaces the dots.  correlation: Spearman's, NaN where there are too few trials."""
        known = np.isfinite(trials.promised[rows]) & np.isfinite(trials.microseconds[rows])
        self._trials, self._rows, self._origin, self._correlation = trials, rows[known], origin, correlation
        self.setAccessibleDescription(self.headline())
        self.update()

    def headline(self) -> str:
        """What the dots say in a sentence."""
        if np.isnan(self._correlation):
            return NOTHING if not len(self._rows) else "too few trials for a rank correlation"
        return f"rank correlation {self._correlation:.2f} (Spearman) over {len(self._rows):,} trials"

    def show_selection(self, row: int) -> None:
        """Rings a trial."""
        self.selected = row
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Axes, the line, dots, the correlation."""
        if self.theme is None:
            return
        painter, theme = QPainter(self), self.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(semibold())
        painter.setPen(theme.colour("text" if len(self._rows) else "text-3"))
        draw_text(painter, QRectF(LEFT, 8, self.width() - LEFT - RIGHT, 18), self.headline())
        if not len(self._rows):
            return
        area = self._area()
        x, y = self._places()
        self._axes(painter, theme, area)
        paint_dots(painter, area, x, y, theme.colour("text-3"), self._origin)
        place = np.flatnonzero(self._rows == self.selected)
        if len(place):
            painter.setPen(QPen(theme.colour("accent"), 1.6))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawEllipse(QPointF(x[place[0]], y[place[0]]), 5, 5)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Selects the nearest trial."""
        if len(self._rows):
            x, y = self._places()
            far = np.hypot(x - event.position().x(), y - event.position().y())
            if far.min() <= REACH:
                self.trial_selected.emit(int(self._rows[np.argmin(far)]))

    def _area(self) -> QRectF:
        return QRectF(LEFT, TOP, max(self.width() - LEFT - RIGHT, 1.0), max(self.height() - TOP - BOTTOM, 1.0))

    def _sides(self) -> tuple[Numbers, Numbers]:
        return self._trials.promised[self._rows], self._trials.microseconds[self._rows]

    def _range(self) -> tuple[float, float]:
        """Logarithms at the ends of both axes."""
        both = np.log10(np.concatenate(self._sides()))
        low, high = float(both.min()), float(both.max())
        air = max((high - low) * AIR, 0.02)
        return low - air, high + air

    def _places(self) -> tuple[Numbers, Numbers]:
        area, (low, high) = self._area(), self._range()
        promised, came = (np.log10(side) for side in self._sides())
        x = area.x() + (promised - low) / (high - low) * area.width()
        return x, area.bottom() - (came - low) / (high - low) * area.height()

    def _axes(self, painter: QPainter, theme: Theme, area: QRectF) -> None:
        low, high = self._range()
        painter.setFont(face(10.5))
        for value in ticks(10**low, 10**high, TICKS):
            part = (np.log10(value) - low) / (high - low)
            x, y = round(area.x() + part * area.width()) + 0.5, round(area.bottom() - part * area.height()) + 0.5
            painter.setPen(QPen(theme.colour("line"), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
            painter.setPen(theme.colour("text-3"))
            draw_text(painter, QRectF(16, y - 8, LEFT - 24, 16), figure(value), right=True)
            painter.drawText(QRectF(x - 30, area.bottom() + 4, 60, 16), Qt.AlignmentFlag.AlignHCenter, figure(value))
        painter.setPen(QPen(theme.colour("edge"), 1, Qt.PenStyle.DashLine))
        painter.drawLine(area.bottomLeft(), area.topRight())
        painter.setPen(theme.colour("text-3"))
        name = QRectF(area.x(), area.bottom() + 21, area.width(), 16)
        draw_text(painter, name, "promised by the model before compiling, µs", right=True)
        axis_title(painter, area, f"{self._origin} µs", theme)
