"""What the samples say, over the plot: time and spread, gain against the baseline, device and date."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QWidget

from views.format import duration, figure, moment, plural
from views.moves.rows import gain_text
from views.shapes import paint_pill_in, paint_time_mark
from views.theme import face, semibold
from views.themed import Themed
from views.themed_painter import RIGHT, ThemedPainter
from views.timing.live import Live

HEIGHT = 54
PADDING = 12.0
NO_BASELINE = "no baseline pinned; Shift+B pins these samples"


class SampleHeadline(QWidget, Themed):
    """Two lines of text; of what finds no room, device, date and origin are left out last."""

    def __init__(self) -> None:
        super().__init__()
        self._live: Live | None = None
        self._replayed = False
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

    def paintEvent(self, event: QPaintEvent) -> None:
        """Left what was found, right where it comes from."""
        if self.theme is None or self._live is None:
            return
        painter, live = ThemedPainter(self, self.theme), self._live
        painter.area(QRectF(0, self.height() - 1, self.width(), 1), "line")
        self._upper(painter, QRectF(PADDING, 6, self.width() - 2 * PADDING, 22), live)
        self._lower(painter, QRectF(PADDING, 28, self.width() - 2 * PADDING, 20), live)

    def _upper(self, painter: ThemedPainter, row: QRectF, live: Live) -> None:
        width = painter.text(row, self.origin, "text-2", face(11), RIGHT)
        paint_time_mark(painter, QPointF(row.right() - width - 9, row.center().y() + 0.5), live.series.origin)
        row = row.adjusted(0, 0, -width - 20, 0)
        if live.series.noise:
            width = painter.width("noisy", face(10.5)) + 12
            chip = QRectF(row.right() - width, row.center().y() - 9, width, 18)
            paint_pill_in(painter, chip, "noisy", outlined=True, tint="worse")
            row = row.adjusted(0, 0, -width - 8, 0)
        for text, font in ((live.series.title, semibold()), (_time(live), semibold(16))):
            row = row.adjusted(painter.text(row, text, font=font) + 10, 0, 0, 0)
        told = next((text for text in _spreads(live) if painter.width(text, face(11)) <= row.width()), "")
        painter.text(row, told, "text-3", face(11))

    def _lower(self, painter: ThemedPainter, row: QRectF, live: Live) -> None:
        row = row.adjusted(0, 0, -painter.text(row, self.where, "text-2", face(11), RIGHT) - 16, 0)
        if live.comparison is None:
            painter.text(row, NO_BASELINE, "text-3", face(11))
            return
        token, verdict, because = _comparison_texts(live)
        after = painter.text(row, verdict, token, semibold(11)) + 8
        painter.text(row.adjusted(after, 0, 0, 0), because, "text-3", face(11))


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

