"""A read-only text with a gutter: statement, line number, and a bar where a line belongs to a statement."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from PySide6.QtCore import QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QResizeEvent, QTextCursor, QTextFormat
from PySide6.QtWidgets import QPlainTextEdit, QTextEdit, QWidget

from views.code.highlighter import CudaHighlighter
from views.theme import Theme, code_face
from views.themed import Themed

LABEL, NUMBER, BAR = 38, 30, 12
GUTTER = LABEL + NUMBER + BAR


class CodeText(QPlainTextEdit, Themed):
    """CUDA text; `line_selected` carries the 1-based number of a clicked line."""

    line_selected = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._labels: Mapping[int, str] = {}
        self._marked: frozenset[int] = frozenset()
        self.setReadOnly(True)
        self.setFont(code_face())
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setAccessibleName("CUDA text")
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.highlighter = CudaHighlighter(self.document())
        self._gutter = _Gutter(self)
        self.setViewportMargins(GUTTER, 0, 0, 0)
        self.updateRequest.connect(self._scroll_gutter)

    def show_code(self, text: str, labels: Mapping[int, str]) -> None:
        """Replaces the text; `labels` names what a line (1-based) belongs to."""
        self._labels = labels
        self._marked = frozenset()
        self.highlighter.show_text(text)
        self.setPlainText(text)

    def mark(self, lines: Collection[int]) -> None:
        """Marks lines as selected; scrolls only if the first of them is not in sight."""
        self._marked = frozenset(lines)
        self.setExtraSelections([self._selection(line) for line in sorted(self._marked)])
        self._gutter.update()
        if self._marked and not self._in_sight(min(self._marked)):
            self.setTextCursor(QTextCursor(self.document().findBlockByNumber(min(self._marked) - 1)))
            self.centerCursor()

    @property
    def marked(self) -> frozenset[int]:
        """The marked lines."""
        return self._marked

    def show_theme(self, theme: Theme) -> None:
        """Takes over the tokens of `theme`."""
        self.highlighter.set_theme(theme)
        self.mark(self._marked)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A click without a selection of text selects its line's statements."""
        super().mouseReleaseEvent(event)
        if not self.textCursor().hasSelection() and event.button() == Qt.MouseButton.LeftButton:
            self.line_selected.emit(self.cursorForPosition(event.position().toPoint()).blockNumber() + 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keeps the gutter as tall as the text."""
        super().resizeEvent(event)
        area = self.contentsRect()
        self._gutter.setGeometry(QRect(area.left(), area.top(), GUTTER, area.height()))

    def paint_gutter(self, painter: QPainter, theme: Theme) -> None:
        """Labels, numbers and bars of the lines in sight."""
        painter.setFont(code_face())
        block, shown = self.firstVisibleBlock(), ""
        while block.isValid():
            box = self.blockBoundingGeometry(block).translated(self.contentOffset())
            if box.top() > self.viewport().height():
                return
            shown = self._paint_line(painter, theme, block.blockNumber() + 1, box, shown)
            block = block.next()

    def _paint_line(self, painter: QPainter, theme: Theme, line: int, box: QRectF, shown: str) -> str:
        name, marked = self._labels.get(line, ""), line in self._marked
        if marked:
            painter.fillRect(QRectF(0, box.top(), GUTTER, box.height()), theme.colour("accent-bg"))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.setPen(theme.colour("text-2"))
        painter.drawText(QRectF(0, box.top(), LABEL - 4, box.height()), right, name)
        painter.setPen(theme.colour("text-2" if marked else "text-3"))
        painter.drawText(QRectF(LABEL, box.top(), NUMBER - 2, box.height()), right, str(line))
        if name:
            token = "accent" if marked else "line"
            painter.fillRect(QRectF(LABEL + NUMBER + 4, box.top(), 2, box.height()), theme.colour(token))
        return name

    def _selection(self, line: int) -> QTextEdit.ExtraSelection:
        made = QTextEdit.ExtraSelection()
        made.cursor = QTextCursor(self.document().findBlockByNumber(line - 1))
        if self.theme:
            made.format.setBackground(self.theme.colour("accent-bg"))
        made.format.setProperty(QTextFormat.Property.FullWidthSelection, True)
        return made

    def _in_sight(self, line: int) -> bool:
        box = self.blockBoundingGeometry(self.document().findBlockByNumber(line - 1)).translated(self.contentOffset())
        return box.top() >= 0 and box.bottom() <= self.viewport().height()

    def _scroll_gutter(self, area: QRect, by: int) -> None:
        if by:
            self._gutter.scroll(0, by)
        else:
            self._gutter.update(0, area.y(), GUTTER, area.height())


class _Gutter(QWidget):
    """The strip beside the text; the text paints it."""

    def __init__(self, text: CodeText) -> None:
        super().__init__(text)
        self._text = text

    def sizeHint(self) -> QSize:
        """As wide as its three columns."""
        return QSize(GUTTER, 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Hands over to the text, which knows where its lines are."""
        if self._text.theme:
            painter = QPainter(self)
            painter.fillRect(self.rect(), self._text.theme.colour("panel"))
            self._text.paint_gutter(painter, self._text.theme)
