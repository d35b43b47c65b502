"""Lines and tokens of the text form of advice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from engine.recipe import Value
from engine.support.budgets import MAX_ADVICE_LINES, MAX_BRACKET_DEPTH, MAX_DIGITS
from engine.support.errors import BadInput

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[-+]?[A-Za-z0-9_.][\w.\-+/]*|[@:,|()])', re.ASCII)
_ROW = re.compile(r'((?:[^"#]|"(?:[^"\\]|\\.)*(?:"|\\?$))*)(?:#(.*))?', re.DOTALL)
"""Content, and a comment from the first # outside a quoted name; a quotation may lack its end."""
_NUMBER = re.compile(r"[-+]?(\d+|\d*\.?\d+(e[-+]?\d+)?|\d+\.(e[-+]?\d+)?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line with content: its number, indentation, content and comment."""

    source: str
    number: int
    indent: int
    content: str
    comment: str

    def error(self, reason: str, hint: str = "") -> BadInput:
        """BadInput about this line."""
        return BadInput("recipe", f"{self.source}, line {self.number}", reason, hint)

    def word(self) -> str:
        """The first word."""
        return self.content.split()[0]

    def because(self) -> str:
        """The reason that the comment gives; "" where it gives none."""
        if not self.comment.startswith("because "):
            return ""
        text = self.comment.removeprefix("because ").strip()
        return _unquote(self, text) if text.startswith('"') else text

    def scanner(self) -> Scanner:
        """The tokens of the content."""
        return Scanner(self, list(_tokens(self)))


def lines_of(text: str, source: str) -> list[TextLine]:
    """The lines that hold more than a comment.  BadInput for a text that is too long."""
    rows = text.split("\n")
    if len(rows) > MAX_ADVICE_LINES:
        raise BadInput("recipe", source, f"has {len(rows)} lines", f"at most {MAX_ADVICE_LINES} are read")
    result = []
    for number, row in enumerate(rows, 1):
        row = row.expandtabs(2).rstrip()
        found = _ROW.fullmatch(row)
        assert found is not None, "its parts take every text"
        content, comment = found[1].strip(), found[2] or ""
        if content:
            result.append(TextLine(source, number, len(row) - len(row.lstrip()), content, comment.strip()))
    return result


def _tokens(line: TextLine) -> Iterator[str]:
    position = 0
    while position < len(line.content):
        match = _TOKEN.match(line.content, position)
        if match is None:
            rest = line.content[position:].strip()
            if not rest:
                return
            raise line.error(f"cannot read {rest[:20]!r}", "names with other characters stand in double quotes")
        yield match[1]
        position = match.end()


def _unquote(line: TextLine, text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        raise line.error(f"{text[:20]} is not a closed quotation") from None
    if not isinstance(value, str):
        raise line.error(f"{text[:20]} is not a quotation")
    return value


@dataclass(slots=True)
class Scanner:
    """Tokens of one line, taken from the left."""

    line: TextLine
    tokens: list[str]
    position: int = 0

    def peek(self) -> str:
        """The next token; "" at the end."""
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def word(self, what: str = "a word") -> str:
        """The next token as it stands."""
        token = self.peek()
        if not token:
            raise self.line.error(f"the line ends where {what} is expected")
        self.position += 1
        return token

    def name(self, what: str) -> str:
        """A plain word or a quoted name."""
        token = self.word(what)
        if token.startswith('"'):
            return _unquote(self.line, token)
        if token in "@:,|()":
            raise self.line.error(f"{token!r} stands where {what} is expected")
        return token

    def names(self, what: str) -> list[str]:
        """Names separated by commas, at least one."""
        found = [self.name(what)]
        while self.peek() == ",":
            self.position += 1
            found.append(self.name(what))
        return found

    def parts(self) -> list[tuple[str, ...]]:
        """Names separated by blanks, in parts separated by bars."""
        found = [[self.name("a statement")]]
        while self.peek():
            if self.peek() == "|":
                self.position += 1
                found.append([])
            found[-1].append(self.name("a statement"))
        return [tuple(part) for part in found]

    def value(self, depth: int = 0) -> Value:
        """A number, true, false, a name, or values in brackets."""
        if self.peek() == "(":
            if depth > MAX_BRACKET_DEPTH:
                raise self.line.error(f"brackets are nested deeper than {MAX_BRACKET_DEPTH}")
            return self._tuple(depth)
        token = self.peek()
        if token in ("true", "false"):
            self.position += 1
            return token == "true"
        if _NUMBER.fullmatch(token):
            if len(token) > MAX_DIGITS:
                raise self.line.error(f"a number has {len(token)} digits")
            self.position += 1
            return int(token) if token.lstrip("+-").isdigit() else float(token)
        return self.name("a value")

    def _tuple(self, depth: int) -> Value:
        self.expect("(", "")
        found: list[Value] = []
        while self.peek() != ")":
            found.append(self.value(depth + 1))
            if self.peek() != ")":
                self.expect(",", "values in brackets are separated by commas")
        self.expect(")", "")
        return tuple(found)

    def label(self) -> str:
        """A quoted label or nothing, then the end of the line."""
        text = self.name("a label") if self.peek() else ""
        self.end()
        return text

    def expect(self, token: str, hint: str) -> None:
        """Take this very token."""
        if self.peek() != token:
            stands = f"{self.peek()!r} stands" if self.peek() else "the line ends"
            raise self.line.error(f"{stands} where {token!r} is expected", hint)
        self.position += 1

    def end(self) -> None:
        """Nothing may follow."""
        if self.peek():
            raise self.line.error(f"{self.peek()!r} is left over at the end of the line")
