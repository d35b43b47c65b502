"""CUDA colours: Pygments reads the text once, the highlighter only looks spans up."""

from __future__ import annotations

from functools import lru_cache

from pygments.lexers.c_like import CudaLexer
from pygments.token import Token, _TokenType
from PySide6.QtGui import QFont, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from views.theme import Theme

STYLES = (
    (Token.Comment.Preproc, "text-2"),
    (Token.Comment, "text-3"),
    (Token.Keyword.Type, "type"),
    (Token.Keyword, "keyword"),
    (Token.Name.Builtin, "type"),
    (Token.Literal.Number, "number"),
    (Token.Literal.String, "number"),
)
"""Kind of token -> colour token; the first that fits counts."""

Span = tuple[int, int, str]


@lru_cache(maxsize=32)
def spans(text: str) -> list[list[Span]]:
    """For each line the (start, length, colour token) of what is not plain text; steps back and forth show it again."""
    lines: list[list[Span]] = [[]]
    column = 0
    for kind, value in CudaLexer(stripnl=False, ensurenl=False).get_tokens(text):
        token = _colour_of(kind)
        for number, piece in enumerate(value.split("\n")):
            if number:
                lines.append([])
                column = 0
            if token and piece:
                lines[-1].append((column, len(piece), token))
            column += len(piece)
    return lines


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


def _colour_of(kind: _TokenType) -> str:
    return next((token for family, token in STYLES if kind in family), "")
