"""A read-only text with a gutter: what a line belongs to or comes from, its number, and a bar beside those that do.

Lines are coloured when they come into sight: PTX or SASS of a kernel has tens of thousands, of which fifty are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from PySide6.QtCore import QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextLayout,
)
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from views.code.spans import Span, spans
from views.theme import Theme, code_face
from views.themed import Themed

LABEL, NUMBER, BAR = 38, 30, 12
"""Pixels of the gutter's columns; numbers of more than four digits take more."""
TAB = 4
"""Columns of a tabulator."""
AHEAD = 24
"""Pixels left and right of what is brought into sight."""
AROUND = 3
"""Lines above the first marked one when it is brought into sight."""
INK = {"found-bg": "text", "accent-fill": "on-accent"}
"""Colour behind what was found -> that of its letters."""
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter

Keys = Qt.Key


class CodeText(QPlainTextEdit, Themed):
    """A text; `line_selected` carries the number of a line, from 1, that was clicked or reached by a key."""

    line_selected = Signal(int)
    escape_pressed = Signal()

    def __init__(self, name: str) -> None:
        super().__init__()
        self._labels: Mapping[int, str] = {}
        self._colours: Callable[[int, str], Iterable[Span]] = lambda line, text: ()
        self._found: Callable[[int], Iterable[Span]] = lambda line: ()
        self._coloured: set[int] = set()
        self.marked: frozenset[int] = frozenset()
        """The lines that stand for what is selected."""
        self._current, self._number = 1, NUMBER
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setFont(code_face())
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setAccessibleName(name)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        metrics = QFontMetricsF(code_face())
        self._pitch, self._digit = metrics.lineSpacing(), metrics.horizontalAdvance("0")
        self._gutter = _Gutter(self)
        self.updateRequest.connect(lambda area, by: self._gutter.update())

    @property
    def lines(self) -> list[str]:
        """The text, line by line."""
        return self.toPlainText().split("\n")

    def show_text(
        self, text: str, labels: Mapping[int, str], colours: Callable[[int, str], Iterable[Span]]
    ) -> None:
        """Replaces the text.

        labels: what a line (from 1) belongs to.  colours: the spans of a line, asked for when it comes into sight.
        """
        self._labels, self._colours, self._coloured = labels, colours, set()
        self.marked, self._current = frozenset(), 1
        self.setPlainText(text.expandtabs(TAB).rstrip("\n"))
        digits = len(str(self.blockCount()))
        self._number = max(NUMBER, round(digits * self._digit) + 4)
        self.setViewportMargins(self._width, 0, 0, 0)
        self._place_gutter()

    def show_cuda(self, text: str, labels: Mapping[int, str]) -> None:
        """Replaces the text by one in CUDA C++, which is read as a whole."""
        found = spans(text)
        self.show_text(text, labels, lambda line, _: found[line - 1])

    def mark(self, lines: Collection[int]) -> None:
        """Marks lines as selected; scrolls only if the first of them is not in sight."""
        self.marked = frozenset(lines)
        if self.marked:
            self._reveal(min(self.marked))
        self._repaint()

    def show_found(self, found: Callable[[int], Iterable[Span]]) -> None:
        """Marks what was found.  found: the spans of a line and the colour behind them, asked for as colours are."""
        self._found, self._coloured = found, set()
        self.viewport().update()

    @property
    def present_place(self) -> tuple[int, int]:
        """Line and column, in sight: of the selected text, else of the line chosen last, else of the first line."""
        cursor = self.textCursor()
        block = self.document().findBlock(cursor.selectionStart())
        if cursor.hasSelection() and self._is_in_sight(block.blockNumber() + 1):
            return block.blockNumber() + 1, cursor.selectionStart() - block.position()
        return (self._current if self._is_in_sight(self._current) else self.verticalScrollBar().value() + 1), 0

    def reveal(self, line: int, column: int, length: int) -> None:
        """Brings a part of a line into sight without choosing the line."""
        self._reveal(line)
        block = self.document().findBlockByNumber(line - 1)
        self.blockBoundingRect(block)  # lays it out: how far there is to scroll counts the lines that are
        text, bar, room = block.layout().lineAt(0), self.horizontalScrollBar(), self.viewport().width()
        left, right = (round(text.cursorToX(each)[0]) for each in (column, column + length))  # type: ignore[index]
        if left < bar.value() or right > bar.value() + room - AHEAD:
            bar.setValue(0 if right <= room - AHEAD else min(left - AHEAD, right + AHEAD - room // 2))

    def select(self, line: int, column: int, length: int) -> None:
        """Selects a part of a line, as a person does to copy it; what is in sight stays."""
        bars = self.verticalScrollBar(), self.horizontalScrollBar()
        places = [bar.value() for bar in bars]
        cursor = QTextCursor(self.document().findBlockByNumber(line - 1))
        cursor.setPosition(cursor.position() + column)
        cursor.setPosition(cursor.position() + length, QTextCursor.MoveMode.KeepAnchor)
        self.setTextCursor(cursor)
        for bar, place in zip(bars, places, strict=True):
            bar.setValue(place)

    def show_theme(self, theme: Theme) -> None:
        """Takes over the tokens of `theme`."""
        self._coloured = set()
        self._repaint()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A click without a selection of text chooses its line."""
        super().mouseReleaseEvent(event)
        if not self.textCursor().hasSelection() and event.button() == Qt.MouseButton.LeftButton:
            self._choose(self.cursorForPosition(event.position().toPoint()).blockNumber() + 1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Up and Down choose lines, Page Up and Down, Home and End go further; with Shift text is selected."""
        if event.key() == Keys.Key_Escape:
            self.escape_pressed.emit()
        steps = {
            Keys.Key_Up: -1, Keys.Key_Down: 1, Keys.Key_PageUp: -self._rows, Keys.Key_PageDown: self._rows,
            Keys.Key_Home: -self.blockCount(), Keys.Key_End: self.blockCount(),
        }  # fmt: skip
        by = steps.get(Qt.Key(event.key()))
        if by is None or event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            super().keyPressEvent(event)
        else:
            self._choose(self._current + by)
            self.select(self._current, 0, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keeps the gutter as tall as the text."""
        super().resizeEvent(event)
        self._place_gutter()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Colours the lines that came into sight and tints those that are marked, then writes them."""
        if self.theme is not None:
            painter = QPainter(self.viewport())
            for line, block, box in self._lines_in_sight():
                self._colour(line, block, self.theme)
                if line in self.marked:
                    painter.fillRect(box, self.theme.colour("accent-bg"))
            painter.end()
        super().paintEvent(event)

    def paint_gutter(self, painter: QPainter, theme: Theme) -> None:
        """Labels where they change, numbers and bars of the lines in sight."""
        painter.setFont(code_face())
        before, numbers = "", LABEL + self._number
        for line, _, box in self._lines_in_sight():
            label, marked = self._labels.get(line, ""), line in self.marked
            if marked:
                painter.fillRect(box, theme.colour("accent-bg"))
            painter.setPen(theme.colour("text-2"))
            painter.drawText(QRectF(0, box.top(), LABEL - 4, box.height()), RIGHT, label if label != before else "")
            painter.setPen(theme.colour("text-2" if marked else "text-3"))
            painter.drawText(QRectF(LABEL, box.top(), self._number - 2, box.height()), RIGHT, str(line))
            if label:
                bar = QRectF(numbers + 4, box.top(), 2, box.height())
                painter.fillRect(bar, theme.colour("accent" if marked else "line"))
            before = label

    @property
    def _width(self) -> int:
        """Pixels of the gutter."""
        return LABEL + self._number + BAR

    @property
    def _rows(self) -> int:
        return max(1, int(self.viewport().height() // self._pitch))

    def _lines_in_sight(self) -> Iterator[tuple[int, QTextBlock, QRectF]]:
        """Number, block and place of each, as wide as the widget."""
        block, bottom = self.firstVisibleBlock(), self.viewport().height()
        top = self.blockBoundingGeometry(block).translated(self.contentOffset()).top()
        while block.isValid() and top <= bottom:
            height = self.blockBoundingRect(block).height()
            yield block.blockNumber() + 1, block, QRectF(0, top, self.width(), height)
            block, top = block.next(), top + height

    def _colour(self, line: int, block: QTextBlock, theme: Theme) -> None:
        if line in self._coloured:
            return
        self._coloured.add(line)
        ranges = []
        for start, length, token in self._colours(line, block.text()):
            look = QTextCharFormat()
            look.setForeground(theme.colour(token))
            ranges.append(_range(start, length, look))
        for start, length, token in self._found(line):
            look = QTextCharFormat()
            look.setBackground(theme.colour(token))
            look.setForeground(theme.colour(INK[token]))
            ranges.append(_range(start, length, look))
        block.layout().setFormats(ranges)

    def _choose(self, line: int) -> None:
        self._current = min(max(line, 1), self.blockCount())
        self._reveal(self._current)
        text = self.document().findBlockByNumber(self._current - 1).text()
        self.setAccessibleDescription(f"Line {self._current}: {text.strip()}")
        self.line_selected.emit(self._current)

    def _reveal(self, line: int) -> None:
        self._current = line
        if not self._is_in_sight(line):
            self.verticalScrollBar().setValue(max(0, line - 1 - AROUND))

    def _is_in_sight(self, line: int) -> bool:
        first = self.verticalScrollBar().value()
        return first < line <= first + self._rows

    def _repaint(self) -> None:
        self.viewport().update()
        self._gutter.update()

    def _place_gutter(self) -> None:
        area = self.contentsRect()
        self._gutter.setGeometry(QRect(area.left(), area.top(), self._width, area.height()))


def _range(start: int, length: int, look: QTextCharFormat) -> QTextLayout.FormatRange:
    made = QTextLayout.FormatRange()
    made.start, made.length, made.format = start, length, look
    return made


class _Gutter(QWidget):
    """The strip beside the text; the text paints it."""

    def __init__(self, text: CodeText) -> None:
        super().__init__(text)
        self._text = text

    def paintEvent(self, event: QPaintEvent) -> None:
        """Hands over to the text, which knows where its lines are."""
        if self._text.theme:
            painter = QPainter(self)
            painter.fillRect(self.rect(), self._text.theme.colour("panel"))
            self._text.paint_gutter(painter, self._text.theme)
