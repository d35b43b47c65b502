"""CUDA colours: the text is read once, the highlighter only looks spans up."""

from __future__ import annotations

from PySide6.QtGui import QFont, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from views.code.spans import STYLES, Span, spans
from views.theme import Theme


class CudaHighlighter(QSyntaxHighlighter):
    """Colours the blocks of a document from spans found beforehand."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self._spans: list[list[Span]] = []
        self._formats: dict[str, QTextCharFormat] = {}

    def show_text(self, text: str) -> None:
        """Finds the spans; call it before the document gets the text."""
        self._spans = spans(text)

    def set_theme(self, theme: Theme) -> None:
        """Takes the colours of `theme`."""
        for _, token in STYLES:
            shape = QTextCharFormat()
            shape.setForeground(theme.colour(token))
            shape.setFontWeight(QFont.Weight.Normal)
            self._formats[token] = shape
        self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        """Looks up the spans of one line."""
        number = self.currentBlock().blockNumber()
        for start, length, token in self._spans[number] if number < len(self._spans) else ():
            self.setFormat(start, length, self._formats.get(token, QTextCharFormat()))
