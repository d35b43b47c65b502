"""Over the plots: the shown group in one line, and what the marks of the plot mean."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from views.format import duration, figure, plural
from views.moves.rows import gain_text
from views.rows import draw_text, text_width
from views.shapes import paint_time_mark
from views.theme import Theme, face, semibold
from views.tuning.nodes import GroupProgress

HEIGHT, PADDING, GAP = 32, 12.0, 16.0


class TuningHeadline(QWidget):
    """What finds no room is left out, the last things first; the title is cut before that."""

    def __init__(self) -> None:
        super().__init__()
        self._summary: GroupProgress | None = None
        self.theme: Theme | None = None
        self.setFixedHeight(HEIGHT)
        self.setAccessibleName("The group that is tuned")

    def show_summary(self, summary: GroupProgress | None) -> None:
        """Replaces what is said."""
        self._summary = summary
        said = " · ".join(" ".join(filter(None, pair)) for pair in self.facts())
        self.setAccessibleDescription(said)
        self.setToolTip(said)
        self.update()

    def facts(self) -> list[tuple[str, str]]:
        """(name, value) of everything that is said after the title."""
        found = self._summary
        if found is None:
            return []
        best = duration(found.best) if math.isfinite(found.best) else "none yet"
        facts = [("Best", best)]
        if found.gain:
            facts.append(("", gain_text(found.gain)))
        if found.before:
            facts.append(("Start", duration(found.before)))
        facts.append(("Trials", f"{found.trials:,} in {plural(found.rounds, 'round')}"))
        facts.append(("Failed", f"{found.failed:,}"))
        return facts

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        self.theme = theme
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Title and facts from the left, the origin in an outlined chip at the right."""
        if self.theme is None or self._summary is None:
            return
        painter, theme = QPainter(self), self.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.colour("line"), 1))
        painter.drawLine(QPointF(0, HEIGHT - 0.5), QPointF(self.width(), HEIGHT - 0.5))
        right = self._origin(painter, theme) - GAP
        left = PADDING
        painter.setFont(semibold())
        painter.setPen(theme.colour("text"))
        width = min(text_width(painter, self._summary.title), max(right - left, 0))
        draw_text(painter, QRectF(left, 0, width + 1, HEIGHT), self._summary.title)
        left += width + GAP
        for name, value in self.facts():
            left = self._fact(painter, theme, left, right, name, value)

    def _fact(self, painter: QPainter, theme: Theme, left: float, right: float, name: str, value: str) -> float:
        """One fact; where the next one begins."""
        painter.setFont(face())
        after = text_width(painter, name) + 6 if name else 0.0
        strong = name == "Best" or not name
        painter.setFont(semibold() if strong else face())
        width = text_width(painter, value)
        if left + after + width > right:
            return right
        token = {"▼": "better", "▲": "worse"}.get(value[:1], "text")
        painter.setPen(theme.colour(token))
        draw_text(painter, QRectF(left + after, 0, width + 2, HEIGHT), value)
        painter.setFont(face())
        painter.setPen(theme.colour("text-3"))
        draw_text(painter, QRectF(left, 0, after, HEIGHT), name)
        return left + after + width + GAP

    def _origin(self, painter: QPainter, theme: Theme) -> float:
        """The chip with the origin of every time; its left edge."""
        assert self._summary is not None
        painter.setFont(face(10.5))
        width = text_width(painter, self._summary.origin) + 26
        box = QRectF(self.width() - PADDING - width, 7, width, 18)
        painter.setPen(QPen(theme.colour("edge"), 1))
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
        paint_time_mark(painter, QPointF(box.x() + 11, box.center().y()), self._summary.origin, theme)
        painter.setFont(face(10.5))
        painter.setPen(theme.colour("text-2"))
        draw_text(painter, QRectF(box.x() + 18, box.y(), width - 20, 18), self._summary.origin)
        return box.x()


class PlotLegend(QWidget):
    """A step, a dot and an arrow with their names, at the right of the header; it gives way to the tabs."""

    def __init__(self) -> None:
        super().__init__()
        self.theme: Theme | None = None
        self._origin, self._edge = "", 0.0
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("What the marks mean")

    def show_legend(self, origin: str, edge: float) -> None:
        """Replaces what is said.  edge: microseconds beyond which trials stand at the edge; 0 where none does."""
        if (origin, edge) != (self._origin, self._edge):
            self._origin, self._edge = origin, edge
            self.setAccessibleDescription(", ".join(self.texts()))
            self.update()

    def texts(self) -> list[str]:
        """The names of the marks."""
        return ["best so far", "trial", *([f"above {figure(self._edge)}"] if self._edge else [])]

    def sizeHint(self) -> QSize:
        """Room for all three."""
        return QSize(250, 22)

    def minimumSizeHint(self) -> QSize:
        """None: the tabs come first."""
        return QSize(0, 22)

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        self.theme = theme
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """From the right; what finds no room is left out."""
        if self.theme is None or not self._origin:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(face(11))
        right, middle = self.width() - 8.0, self.height() / 2
        for number, text in reversed(list(enumerate(self.texts()))):
            left = right - text_width(painter, text)
            if left < 24:
                return
            painter.setPen(self.theme.colour("text-2"))
            draw_text(painter, QRectF(left, 0, right - left + 2, self.height()), text)
            self._mark(painter, self.theme, number, QPointF(left - 9, middle))
            right = left - (34 if number == 1 else 26)

    def _mark(self, painter: QPainter, theme: Theme, number: int, at: QPointF) -> None:
        painter.save()
        if number == 0:
            painter.setPen(QPen(theme.colour("accent"), 2))
            x, y = at.x(), at.y()
            step = ((x - 14, y - 4), (x - 5, y - 4), (x - 5, y + 4), (x + 4, y + 4))
            painter.drawPolyline([QPointF(*corner) for corner in step])
        elif number == 1:
            paint_time_mark(painter, at, self._origin, theme)
        else:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.colour("text-2"))
            painter.drawPolygon(QPolygonF([at + QPointF(-3.4, 3), at + QPointF(0, -3.4), at + QPointF(3.4, 3)]))
        painter.restore()
