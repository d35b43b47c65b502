"""Coloured spans: of CUDA text by Pygments, of PTX and SASS line by line."""

from __future__ import annotations

import re
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


ASSEMBLY = re.compile(
    r"(?P<comment>//.*|/\*.*?\*/)"
    r"|(?P<label>^\s*[$.\w]+:)"
    r"|(?P<directive>(?<![\w.])\.(?:version|target|address_size|visible|entry|extern|func|param|reg|shared|local|global"
    r"|align|maxntid|minnctapersm|pragma|loc|file|section)\b)"
    r"|(?P<opcode>(?:^|(?<=[;{}])|(?<=\*/))\s*(?:@!?%?\w+\s+)?[A-Za-z][A-Za-z0-9_]*(?:[.:]+[A-Za-z0-9_]+)*(?=[\s;]))"
    r"|(?P<type>(?<=\s)\.[a-z]+\d+\b)"
    r"|(?P<number>(?<![\w%$.])-?(?:0[xfdXFD][0-9A-Fa-f]+|\d+(?:\.\d+)?)\b)"
)
COLOURS = {
    "comment": "text-3", "label": "type", "directive": "keyword", "opcode": "keyword", "type": "type",
    "number": "number",
}  # fmt: skip


def assembly_spans(line: str) -> list[Span]:
    """(start, length, colour token) of what is not plain text in a line of PTX or SASS.  A line is read when it is
    painted: listings have tens of thousands, of which a panel shows fifty.
    """
    found = [match for match in ASSEMBLY.finditer(line) if match.lastgroup]
    return [(match.start(), match.end() - match.start(), COLOURS[match.lastgroup or ""]) for match in found]


def _colour_of(kind: _TokenType) -> str:
    return next((token for family, token in STYLES if kind in family), "")
