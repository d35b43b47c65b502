"""Changed lines of a text with their numbers on both sides: marks, tints, and a gap where equal lines are left out."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QAbstractScrollArea

from engine.documents.exploration import DiffLine
from views.theme import code_face
from views.themed import Themed
from views.themed_painter import RIGHT, ThemedPainter

LINE = 17
GAP = 12
"""Pixels of a gap between two groups of lines."""
NUMBER = 44
"""Pixels of one column of line numbers."""
TEXT = 2 * NUMBER + 36


class DiffLines(QAbstractScrollArea, Themed):
    """Paints the lines in sight."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.lines: tuple[DiffLine, ...] = ()
        self._tops: list[int] = []
        self._size = QSize()

    def show_lines(self, lines: Sequence[DiffLine]) -> None:
        """Replaces the lines."""
        self.lines = tuple(lines)
        self._tops, top = [], 6
        for number, line in enumerate(self.lines):
            top += GAP if number and _apart(self.lines[number - 1], line) else 0
            self._tops.append(top)
            top += LINE
        longest = max((len(line.text) for line in self.lines), default=0)
        width = self.fontMetrics().horizontalAdvance("m") * longest
        self._size = QSize(TEXT + width, top + 6)
        self.setAccessibleDescription("\n".join(line.mark + line.text for line in self.lines if line.mark != " "))
        self._show_range()
        self.verticalScrollBar().setValue(0)
        self.viewport().update()

    def resizeEvent(self, event: object) -> None:
        """Keeps the scroll bars in step with the size."""
        self._show_range()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paints the lines in sight."""
        if self.theme is None:
            return
        painter = ThemedPainter(self.viewport(), self.theme)
        down, right = self.verticalScrollBar().value(), self.horizontalScrollBar().value()
        width, height = self.viewport().width(), self.viewport().height()
        for line, top in zip(self.lines, self._tops, strict=True):
            if -LINE <= top - down <= height:
                self._paint_line(painter, line, QRectF(0, top - down, width, LINE), right)

    def _paint_line(self, painter: ThemedPainter, line: DiffLine, box: QRectF, right: int) -> None:
        new, font = line.mark == "+", code_face()
        if line.mark != " ":
            painter.area(box, "accent-bg" if new else "raised")
        for column, number in enumerate((line.a, line.b)):
            place = QRectF(column * NUMBER, box.y(), NUMBER - 8, LINE)
            painter.text(place, str(number or ""), "text-3", font, RIGHT)
        painter.text(QRectF(2 * NUMBER + 8, box.y(), 16, LINE), line.mark, "accent" if new else "text-2", font)
        painter.qt.setClipRect(box.adjusted(TEXT - 4, 0, 0, 0))
        place = QRectF(TEXT - right, box.y(), self._size.width(), LINE)
        painter.text(place, line.text, "text" if new else "text-2", font)
        painter.qt.setClipping(False)

    def _show_range(self) -> None:
        view = self.viewport().size()
        for bar, whole, page in (
            (self.horizontalScrollBar(), self._size.width(), view.width()),
            (self.verticalScrollBar(), self._size.height(), view.height()),
        ):
            bar.setRange(0, max(whole - page, 0))
            bar.setPageStep(page)
            bar.setSingleStep(LINE)


def _apart(before: DiffLine, line: DiffLine) -> bool:
    """Whether equal lines are left out between two."""
    return bool((before.a and line.a and line.a > before.a + 1) or (before.b and line.b and line.b > before.b + 1))
