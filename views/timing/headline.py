"""What the samples say, over the plot: time and spread, gain against the baseline, device and date."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from views.format import duration, figure, moment, plural
from views.moves.rows import gain_text
from views.rows import draw_text, text_width
from views.shapes import paint_time_mark
from views.theme import Theme, face, semibold
from views.timing.live import Live

HEIGHT = 54
PADDING = 12.0
NO_BASELINE = "no baseline pinned; Shift+B pins these samples"


class SampleHeadline(QWidget):
    """Two lines of text; of what finds no room, device, date and origin are left out last."""

    def __init__(self) -> None:
        super().__init__()
        self._live: Live | None = None
        self._replayed = False
        self.theme: Theme | None = None
        self.setFixedHeight(HEIGHT)
        self.setAccessibleName("What the samples say")

    def show_live(self, live: Live | None, replayed: bool) -> None:
        """Replaces what is said; `replayed`: the samples come from a file."""
        self._live, self._replayed = live, replayed
        text = "\n".join(self.texts())
        self.setAccessibleDescription(text)
        self.setToolTip(text)
        self.update()

    def texts(self) -> list[str]:
        """Everything that is said, one thing a line."""
        if self._live is None:
            return []
        time, spread = _time(self._live), _spreads(self._live)[0]
        said = [f"{self._live.series.title} {time}", spread, self.origin, self.where, self._live.series.noise]
        if self._live.comparison is not None:
            said.append(" ".join(_comparison_texts(self._live)[1:]))
        return [line for line in said if line]

    @property
    def origin(self) -> str:
        """ "measured", "synthetic, replayed"."""
        if self._live is None:
            return ""
        return f"{self._live.series.origin}, replayed" if self._replayed else self._live.series.origin

    @property
    def where(self) -> str:
        """Device and date; both are said to be unknown rather than left out."""
        if self._live is None:
            return ""
        return f"{self._live.series.device or 'device unknown'} · {moment(self._live.series.date) or 'date unknown'}"

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        self.theme = theme
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Left what was found, right where it comes from."""
        if self.theme is None or self._live is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self.theme.colour("line"), 1))
        painter.drawLine(QPointF(0, self.height() - 0.5), QPointF(self.width(), self.height() - 0.5))
        upper = QRectF(PADDING, 6, self.width() - 2 * PADDING, 22)
        lower = QRectF(PADDING, 28, self.width() - 2 * PADDING, 20)
        self._upper(painter, upper, self.theme, self._live)
        self._lower(painter, lower, self.theme, self._live)

    def _upper(self, painter: QPainter, row: QRectF, theme: Theme, live: Live) -> None:
        painter.setFont(face(11))
        width = text_width(painter, self.origin)
        right = row.right() - width - 20
        paint_time_mark(painter, QPointF(row.right() - width - 9, row.center().y() + 0.5), live.series.origin, theme)
        painter.setPen(theme.colour("text-2"))
        draw_text(painter, row, self.origin, right=True)
        if live.series.noise:
            right = _noisy(painter, right, row.center().y(), theme) - 8
        left = row.left()
        for text, font, token in (
            (live.series.title, semibold(), "text"),
            (_time(live), semibold(16), "text"),
        ):
            painter.setFont(font)
            painter.setPen(theme.colour(token))
            room = max(right - left, 0.0)
            draw_text(painter, QRectF(left, row.y(), room, row.height()), text)
            left += min(text_width(painter, text), room) + 10
        painter.setFont(face(11))
        painter.setPen(theme.colour("text-3"))
        told = next((text for text in _spreads(live) if text_width(painter, text) <= right - left), "")
        draw_text(painter, QRectF(left, row.y(), max(right - left, 0.0), row.height()), told)

    def _lower(self, painter: QPainter, row: QRectF, theme: Theme, live: Live) -> None:
        painter.setFont(face(11))
        painter.setPen(theme.colour("text-2"))
        draw_text(painter, row, self.where, right=True)
        room = row.width() - text_width(painter, self.where) - 16
        if live.comparison is None:
            painter.setPen(theme.colour("text-3"))
            draw_text(painter, QRectF(row.x(), row.y(), room, row.height()), NO_BASELINE)
            return
        token, verdict, because = _comparison_texts(live)
        painter.setFont(semibold(11))
        painter.setPen(theme.colour(token))
        draw_text(painter, QRectF(row.x(), row.y(), room, row.height()), verdict)
        left = text_width(painter, verdict) + 8
        painter.setFont(face(11))
        painter.setPen(theme.colour("text-3"))
        draw_text(painter, QRectF(row.x() + left, row.y(), max(room - left, 0.0), row.height()), because)


def _time(live: Live) -> str:
    return duration(live.series.median) if live.series.samples else "no sample yet"


def _spreads(live: Live) -> tuple[str, ...]:
    """Spread and number of samples, the longest way of saying it first."""
    series = live.series
    if not series.samples:
        return ("",)
    spread, count = f"{figure(series.low)}–{figure(series.high)}", plural(len(series.samples), "sample")
    return f"p20–p80 {spread}, {count}", f"p20–p80 {spread}", spread


def _comparison_texts(live: Live) -> tuple[str, str, str]:
    """The token, the verdict, and what stands behind it."""
    found, baseline = live.comparison, live.baseline
    assert found is not None and baseline is not None, "a comparison has two sides"
    behind = f"against {live.baseline_title}, {duration(baseline.median)}; {found.because}"
    if not found.is_sure:
        return "text", found.verdict, behind
    return "better" if found.gain > 0 else "worse", gain_text(found.gain), behind


def _noisy(painter: QPainter, right: float, middle: float, theme: Theme) -> float:
    """An outlined flag in the colour of losses; its left edge."""
    painter.setFont(face(10.5))
    width = text_width(painter, "noisy") + 12
    box = QRectF(right - width, middle - 9, width, 18)
    painter.setPen(QPen(theme.colour("worse"), 1))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, "noisy")
    return box.left()
