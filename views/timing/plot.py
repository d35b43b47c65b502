"""Samples as dots with their median and p20–p80 band, beside those of the baseline."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from views.format import figure
from views.theme import Theme, face
from views.timing.live import Live, Series
from views.timing.scale import SampleAxis, columns, limits, sample_axis, ticks

LEFT, RIGHT, TOP, BOTTOM = 52.0, 84.0, 12.0, 24.0
"""Room around the plot: figures at its left, the names of the lines at its right."""
LINES = 5
DOT = 2.6
COLUMN = 3.0
"""Pixels; of each column so wide at most three dots are drawn."""
OUTLIER = 4.0
"""Samples further from the median than so many times the band are drawn at the edge, so that the others keep room."""


class SamplePlot(QWidget):
    """Samples of one run in the order in which they came; filled when measured, dashed when synthetic."""

    def __init__(self) -> None:
        super().__init__()
        self._live: Live | None = None
        self.theme: Theme | None = None
        self.setMinimumHeight(96)
        self.setAccessibleName("Samples")

    @property
    def samples(self) -> tuple[float, ...]:
        """Microseconds, in the order in which they came."""
        return tuple(self._live.series.samples) if self._live else ()

    def show_live(self, live: Live | None) -> None:
        """Replaces the samples."""
        self._live = live
        if live is not None:
            series = live.series
            self.setAccessibleDescription(f"{len(series.samples)} samples of {series.title}, {series.origin}")
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        self.theme = theme
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Grid, baseline, band, dots, medians."""
        if self.theme is None or self._live is None or not self._live.series.samples:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        picture = _SamplePainting(painter, self.theme, plot_area(self), self._live)
        picture.grid()
        picture.bands()
        picture.dots()
        picture.medians()


def plot_area(widget: QWidget) -> QRectF:
    """The part of a plot's widget between its axes."""
    return QRectF(LEFT, TOP, max(widget.width() - LEFT - RIGHT, 1.0), max(widget.height() - TOP - BOTTOM, 1.0))


class _SamplePainting:
    """One painting of one moment."""

    def __init__(self, painter: QPainter, theme: Theme, area: QRectF, live: Live) -> None:
        self.painter, self.theme, self.area, self.live = painter, theme, area, live
        series = live.series
        self.axis: SampleAxis = sample_axis(area, len(series.samples), series.total)
        self.low, self.high = _range(live)

    def y(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return self.area.bottom() - min(max(part, 0.0), 1.0) * self.area.height()

    def grid(self) -> None:
        """Round figures at the left, the number of samples below."""
        painter, theme, area = self.painter, self.theme, self.area
        painter.setFont(face(10.5))
        for value in ticks(self.low, self.high, LINES):
            y = round(self.y(value)) + 0.5
            painter.setPen(QPen(theme.colour("line"), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(theme.colour("text-3"))
            box = QRectF(0, y - 8, area.left() - 8, 16)
            painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, figure(value))
        painter.drawText(QRectF(0, area.bottom() + 4, area.left() - 8, 16), Qt.AlignmentFlag.AlignRight, "µs")
        painter.setPen(QPen(theme.colour("edge"), 1))
        bottom = round(area.bottom()) + 0.5
        painter.drawLine(QPointF(area.left(), bottom), QPointF(area.right(), bottom))
        painter.setPen(theme.colour("text-3"))
        for number in ticks(1, max(self.axis.room, 2), 6):
            if number >= 1:
                box = QRectF(self.axis.x(number - 1) - 30, area.bottom() + 4, 60, 16)
                painter.drawText(box, Qt.AlignmentFlag.AlignHCenter, f"{number:,.0f}")
        name = QRectF(area.right() + 20, area.bottom() + 4, RIGHT - 20, 16)
        painter.drawText(name, Qt.AlignmentFlag.AlignLeft, "sample")

    def bands(self) -> None:
        """p20 to p80 of the baseline in grey, of the samples in the accent's tint."""
        if self.live.baseline is not None:
            self._band(self.live.baseline, self.theme.colour("raised"))
        self._band(self.live.series, self.theme.colour("accent-bg"))

    def _band(self, series: Series, colour: QColor) -> None:
        top, bottom = self.y(series.high), self.y(series.low)
        self.painter.fillRect(QRectF(self.area.x(), top, self.area.width(), max(bottom - top, 1.5)), colour)

    def dots(self) -> None:
        """Every sample, or of very many the extremes of each column; those beyond the axis as arrows at its edge."""
        painter, series = self.painter, self.live.series
        colour = self.theme.colour("text-2")
        hollow = series.origin != "measured"
        painter.setPen(QPen(colour, 1.1, Qt.PenStyle.DotLine) if hollow else Qt.PenStyle.NoPen)
        painter.setBrush(Qt.BrushStyle.NoBrush if hollow else colour)
        shown = columns(series.samples, max(int(self.area.width() / COLUMN), 1))
        outside: list[QPointF] = []
        for number, value in shown:
            point = QPointF(self.axis.x(number), self.y(value))
            if value > self.high:
                outside.append(point)
            else:
                painter.drawEllipse(point, DOT, DOT)
        painter.setPen(QPen(self.theme.colour("worse"), 1.2))
        for point in outside:
            painter.drawPolyline([point + QPointF(-3, 5), point + QPointF(0, 1), point + QPointF(3, 5)])

    def medians(self) -> None:
        """A line for each median with its name at the right; names that would overlap stand apart."""
        series, baseline = self.live.series, self.live.baseline
        own = self.y(series.median)
        places = [own, own]
        if baseline is not None:
            base = self.y(baseline.median)
            places = _apart(own, base, 13.0)
            self._line(base, places[1], "baseline", self.theme.colour("text-3"), Qt.PenStyle.DashLine)
        self._line(own, places[0], "median", self.theme.colour("accent"), Qt.PenStyle.SolidLine)

    def _line(self, y: float, name_y: float, name: str, colour: QColor, style: Qt.PenStyle) -> None:
        painter = self.painter
        painter.setPen(QPen(colour, 1.4, style))
        painter.drawLine(QPointF(self.area.left(), y), QPointF(self.area.right(), y))
        painter.setFont(face(10.5))
        painter.setPen(colour)
        box = QRectF(self.area.right() + 8, name_y - 8, RIGHT - 8, 16)
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, name)


def _range(live: Live) -> tuple[float, float]:
    """Values between which the axis stretches: everything but samples far outside the band."""
    series = live.series
    far = series.median + OUTLIER * max(series.high - series.low, 0.05 * series.median)
    shown = [min(series.samples), series.low, series.high, min(max(series.samples), far)]
    if live.baseline is not None:
        shown += [live.baseline.low, live.baseline.high]
    return limits(shown)


def _apart(first: float, second: float, distance: float) -> list[float]:
    """Two places moved apart where they are nearer than `distance`."""
    gap = distance - abs(first - second)
    if gap <= 0:
        return [first, second]
    shift = gap / 2 if first >= second else -gap / 2
    return [first + shift, second - shift]
