"""A long listing, of which only the lines in sight are painted: a kernel's PTX or SASS has tens of thousands."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea

from views.code.spans import assembly_spans
from views.theme import Theme, code_face
from views.themed import Themed

LABEL, NUMBER, BAR = 38.0, 44.0, 12.0
GUTTER = LABEL + NUMBER + BAR
TAB = 4
"""Columns of a tabulator."""
AROUND = 3
"""Lines above the first marked one when it is brought into sight."""

Keys = Qt.Key


class ListingText(QAbstractScrollArea, Themed):
    """Text with a gutter: the line of the CUDA text that a line comes from, and its own number."""

    line_selected = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Listing")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self._lines: list[str] = []
        self._labels: Mapping[int, str] = {}
        self._marked: frozenset[int] = frozenset()
        self._current = 1
        self._pitch = QFontMetricsF(code_face()).lineSpacing()
        self._column = QFontMetricsF(code_face()).horizontalAdvance("0")

    @property
    def lines(self) -> list[str]:
        """The text, line by line."""
        return self._lines

    @property
    def marked(self) -> frozenset[int]:
        """The marked lines, from 1."""
        return self._marked

    def show_listing(self, text: str, labels: Mapping[int, str]) -> None:
        """Replaces the text; `labels` names what a line (from 1) comes from."""
        self._lines = text.expandtabs(TAB).splitlines()
        self._labels, self._marked, self._current = labels, frozenset(), 1
        self._fit()
        self.verticalScrollBar().setValue(0)
        self.viewport().update()

    def mark(self, lines: Collection[int]) -> None:
        """Marks lines as selected; scrolls only if the first of them is not in sight."""
        self._marked = frozenset(lines)
        if self._marked:
            self._current = min(self._marked)
            self._reveal(self._current)
        self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The lines in sight."""
        if self.theme is None:
            return
        painter, theme = QPainter(self.viewport()), self.theme
        painter.fillRect(self.viewport().rect(), theme.colour("panel"))
        painter.setFont(code_face())
        first, left = self.verticalScrollBar().value(), self.horizontalScrollBar().value() * self._column
        for place in range(self._in_sight + 1):
            number = first + place + 1
            if number > len(self._lines):
                return
            self._paint_line(painter, theme, number, QRectF(0, place * self._pitch, self.width(), self._pitch), left)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keeps the scroll bars right."""
        self._fit()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Chooses a line."""
        if event.button() == Qt.MouseButton.LeftButton:
            self._choose(self.verticalScrollBar().value() + int(event.position().y() // self._pitch) + 1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Up and Down choose lines, Page Up and Down, Home and End go further."""
        steps = {
            Keys.Key_Up: -1, Keys.Key_Down: 1, Keys.Key_PageUp: -self._in_sight, Keys.Key_PageDown: self._in_sight,
            Keys.Key_Home: -len(self._lines), Keys.Key_End: len(self._lines),
        }  # fmt: skip
        by = steps.get(Qt.Key(event.key()))
        if by is None:
            super().keyPressEvent(event)
        else:
            self._choose(self._current + by)

    @property
    def _in_sight(self) -> int:
        return max(1, int(self.viewport().height() // self._pitch))

    def _paint_line(self, painter: QPainter, theme: Theme, number: int, box: QRectF, left: float) -> None:
        marked, label = number in self._marked, self._labels.get(number, "")
        if marked:
            painter.fillRect(box, theme.colour("accent-bg"))
        painter.save()
        painter.setClipRect(QRectF(GUTTER, box.top(), max(box.width() - GUTTER, 0), box.height()))
        plain = theme.colour("text" if label or marked else "text-2")
        base, text, done = box.top() + QFontMetricsF(painter.font()).ascent(), self._lines[number - 1], 0
        for start, length, token in (*assembly_spans(text), (len(text), 0, "text")):
            for colour, begin, end in ((plain, done, start), (theme.colour(token), start, start + length)):
                painter.setPen(colour)
                painter.drawText(QPointF(GUTTER - left + begin * self._column, base), text[begin:end])
            done = start + length
        painter.restore()
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if label != self._labels.get(number - 1, ""):
            painter.setPen(theme.colour("text-2"))
            painter.drawText(QRectF(0, box.top(), LABEL - 4, box.height()), right, label)
        painter.setPen(theme.colour("text-2" if marked else "text-3"))
        painter.drawText(QRectF(LABEL, box.top(), NUMBER - 2, box.height()), right, str(number))
        if label:
            x = LABEL + NUMBER + 4
            painter.fillRect(QRectF(x, box.top(), 2, box.height()), theme.colour("accent" if marked else "line"))

    def _fit(self) -> None:
        rows, columns = self._in_sight, int((self.viewport().width() - GUTTER) / self._column)
        self.verticalScrollBar().setRange(0, max(0, len(self._lines) - rows))
        self.verticalScrollBar().setPageStep(rows)
        longest = max(map(len, self._lines), default=0)
        self.horizontalScrollBar().setRange(0, max(0, longest - columns))
        self.horizontalScrollBar().setPageStep(max(columns, 1))

    def _choose(self, number: int) -> None:
        if self._lines:
            self._current = min(max(number, 1), len(self._lines))
            self._reveal(self._current)
            self.setAccessibleDescription(f"Line {self._current}: {self._lines[self._current - 1].strip()}")
            self.line_selected.emit(self._current)

    def _reveal(self, number: int) -> None:
        first = self.verticalScrollBar().value()
        if not first < number <= first + self._in_sight:
            self.verticalScrollBar().setValue(max(0, number - 1 - AROUND))
