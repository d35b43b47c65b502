"""Clock and temperature of the GPU under the dots, on the samples' axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QWidget

from views.theme import Theme, face
from views.timing.live import GpuReading, Live
from views.timing.plot import LEFT, RIGHT
from views.timing.scale import SampleAxis, sample_axis

ROW = 24
LEAST = {"MHz": 60.0, "°C": 4.0}
"""The least span of an axis: a steady clock is drawn as a steady line."""


class ClockStrip(QWidget):
    """Two lines: the clock of the SMs in MHz, the temperature in degrees."""

    def __init__(self) -> None:
        super().__init__()
        self._live: Live | None = None
        self.theme: Theme | None = None
        self.setFixedHeight(2 * ROW + 4)
        self.setAccessibleName("Clock and temperature")

    def show_live(self, live: Live | None) -> None:
        """Replaces what was seen of the GPU; says so where nothing was."""
        self._live = live
        looks = live.series.looks if live else ()
        last = f"{looks[-1].clock:.0f} MHz, {looks[-1].temperature:.0f} °C" if looks else "not recorded"
        self.setAccessibleDescription(last)
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        self.theme = theme
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """A line for each of the two, its last value at the right."""
        if self.theme is None or self._live is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(face(10.5))
        series = self._live.series
        area = QRectF(LEFT, 0, max(self.width() - LEFT - RIGHT, 1.0), ROW)
        axis = sample_axis(area, len(series.samples), series.total)
        if not series.looks:
            painter.setPen(self.theme.colour("text-3"))
            both = QRectF(LEFT, 0, area.width(), 2 * ROW)
            painter.drawText(both, Qt.AlignmentFlag.AlignVCenter, "clock and temperature were not recorded")
            return
        self._row(painter, area, axis, "clock", "MHz", series.looks, lambda look: look.clock)
        below = area.translated(0, ROW)
        self._row(painter, below, axis, "temp.", "°C", series.looks, lambda look: look.temperature)

    def _row(
        self, painter: QPainter, area: QRectF, axis: SampleAxis, name: str, unit: str,
        looks: Sequence[GpuReading], value: Callable[[GpuReading], float],
    ) -> None:  # fmt: skip
        assert self.theme is not None
        values = [value(look) for look in looks]
        low, high = min(values), max(values)
        air = max(LEAST[unit] - (high - low), 0.0) / 2
        low, high = low - air, high + air
        inner = area.adjusted(0, 5, 0, -5)
        heights = [inner.bottom() - (each - low) / (high - low) * inner.height() for each in values]
        points = [QPointF(axis.x(max(look.at - 1, 0)), y) for look, y in zip(looks, heights, strict=True)]
        painter.setPen(QPen(self.theme.colour("line"), 1))
        painter.drawLine(QPointF(area.left(), area.bottom()), QPointF(area.right(), area.bottom()))
        painter.setPen(QPen(self.theme.colour("text-2"), 1.2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(QPolygonF(points))
        painter.setPen(self.theme.colour("text-3"))
        box = QRectF(0, area.y(), LEFT - 8, area.height())
        painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, name)
        painter.setPen(self.theme.colour("text-2"))
        box = QRectF(area.right() + 8, area.y(), RIGHT - 8, area.height())
        painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, f"{values[-1]:,.0f} {unit}")
