"""Samples as dots with their median and p20–p80 band, on one axis from zero."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from views.format import duration, figure
from views.theme import Theme, face, semibold

LEFT, RIGHT, TOP, BOTTOM = 52.0, 16.0, 30.0, 26.0
LINES = 4


class SamplePlot(QWidget):
    """Samples of one run in the order in which they came; filled when measured, dashed when synthetic."""

    def __init__(self) -> None:
        super().__init__()
        self._samples: tuple[float, ...] = ()
        self._origin = "measured"
        self._title = ""
        self.theme: Theme | None = None
        self.setMinimumHeight(120)
        self.setAccessibleName("Samples")

    @property
    def samples(self) -> tuple[float, ...]:
        """Microseconds, in the order in which they came."""
        return self._samples

    def show_samples(self, title: str, samples: Sequence[float], origin: str) -> None:
        """Replaces the samples."""
        self._title, self._samples, self._origin = title, tuple(samples), origin
        self.setAccessibleDescription(f"{len(samples)} samples of {title}")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Grid, band, median, dots."""
        if self.theme is None or not self._samples:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = QRectF(LEFT, TOP, self.width() - LEFT - RIGHT, self.height() - TOP - BOTTOM)
        ordered = sorted(self._samples)
        low, high = _limits(ordered)
        self._grid(painter, area, low, high)
        p20, median, p80 = (ordered[int(part * (len(ordered) - 1))] for part in (0.2, 0.5, 0.8))

        def height(value: float) -> float:
            return area.bottom() - (value - low) / (high - low) * area.height()

        painter.fillRect(
            QRectF(area.x(), height(p80), area.width(), height(p20) - height(p80)), self.theme.colour("raised")
        )
        painter.setPen(QPen(self.theme.colour("accent"), 1.4))
        painter.drawLine(QPointF(area.left(), height(median)), QPointF(area.right(), height(median)))
        self._dots(painter, [QPointF(self._x(area, index), height(value)) for index, value in enumerate(self._samples)])
        self._headline(painter, median, p20, p80)

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        self.theme = theme
        self.update()

    def _x(self, area: QRectF, index: int) -> float:
        return area.left() + 8 + index / max(len(self._samples) - 1, 19) * (area.width() - 16)

    def _dots(self, painter: QPainter, points: list[QPointF]) -> None:
        assert self.theme is not None
        colour = self.theme.colour("text-2")
        painter.setPen(QPen(colour, 1.2, Qt.PenStyle.DotLine if self._origin == "synthetic" else Qt.PenStyle.SolidLine))
        painter.setBrush(colour if self._origin == "measured" else Qt.BrushStyle.NoBrush)
        for point in points:
            painter.drawEllipse(point, 3, 3)

    def _grid(self, painter: QPainter, area: QRectF, low: float, high: float) -> None:
        assert self.theme is not None
        painter.setFont(face(10.5))
        for index in range(LINES + 1):
            y = area.bottom() - index / LINES * area.height()
            painter.setPen(QPen(self.theme.colour("edge" if index == 0 else "line"), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(self.theme.colour("text-3"))
            box = QRectF(0, y - 8, LEFT - 8, 16)
            painter.drawText(
                box,
                Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter,
                figure(low + (high - low) * index / LINES),
            )
        painter.drawText(
            QRectF(area.left(), area.bottom() + 5, area.width(), 16), Qt.AlignmentFlag.AlignRight, "sample"
        )

    def _headline(self, painter: QPainter, median: float, p20: float, p80: float) -> None:
        assert self.theme is not None
        painter.setFont(semibold())
        painter.setPen(self.theme.colour("text"))
        text = f"{self._title}   {duration(median)}"
        painter.drawText(QRectF(12, 4, self.width() - 24, 20), Qt.AlignmentFlag.AlignVCenter, text)
        after = 12 + painter.fontMetrics().horizontalAdvance(text) + 12
        painter.setFont(face(11))
        painter.setPen(self.theme.colour("text-3"))
        note = f"median of {len(self._samples)}, p20–p80 {figure(p20)}–{figure(p80)}, {self._origin}"
        painter.drawText(QRectF(after, 4, max(self.width() - after, 0), 20), Qt.AlignmentFlag.AlignVCenter, note)


def _limits(ordered: Sequence[float]) -> tuple[float, float]:
    """A range that holds all samples with some air; never empty."""
    spread = max(ordered[-1] - ordered[0], ordered[-1] * 0.02, 0.01)
    return max(ordered[0] - spread * 0.5, 0.0), ordered[-1] + spread * 0.5
