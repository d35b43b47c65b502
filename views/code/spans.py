"""Coloured spans of CUDA text, by Pygments."""

from __future__ import annotations

from functools import lru_cache

from pygments.lexers.c_like import CudaLexer
from pygments.token import Token, _TokenType

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


def _colour_of(kind: _TokenType) -> str:
    return next((token for family, token in STYLES if kind in family), "")
