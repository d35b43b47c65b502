"""Where the entries and alternatives of advice stand in its text: paths as the documents have them, lines as written.

Comments and layout stay as a person wrote them, so edits change lines of the text instead of printing it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AdviceSpans:
    """Paths of a text's entries and scenarios; line numbers count from 0."""

    lines: tuple[str, ...]
    entries: Mapping[Path, int]
    """(advice, alternatives ..., entry) -> its line."""
    heads: Mapping[Path, int]
    """(advice, alternatives ...) -> its line "advice", "either" or "or"."""

    def author(self, path: Path) -> str:
        """Whose advice a path lies in."""
        words = self.lines[self.heads[path[:1]]].split()
        return words[1] if len(words) > 1 else ""

    def end(self, path: Path) -> int:
        """The line after the last one of a scenario, without the blank lines and comments that follow it."""
        head = self.heads[path]
        depth = _indent(self.lines[head])
        last = head
        for number in range(head + 1, len(self.lines)):
            if _is_code(self.lines[number]):
                if _indent(self.lines[number]) <= depth:
                    break
                last = number
        return last + 1

    def alternatives(self, path: Path) -> tuple[Path, ...]:
        """The scenarios right below one."""
        return tuple(sorted(head for head in self.heads if len(head) == len(path) + 1 and head[:-1] == path))


def outline(text: str) -> AdviceSpans:
    """Reads the structure of a text; lines that make no sense are entries like any other."""
    lines = tuple(text.splitlines())
    entries: dict[Path, int] = {}
    heads: dict[Path, int] = {}
    open_scenarios: list[_Open] = []
    count = 0
    for number, line in enumerate(lines):
        if not _is_code(line):
            continue
        indent, word = _indent(line), line.split()[0]
        if word == "advice" and indent == 0:
            open_scenarios = [_Open((count,), 0)]
            heads[count,] = number
            count += 1
            continue
        while len(open_scenarios) > 1 and indent <= open_scenarios[-1].indent:
            open_scenarios.pop()
        if not open_scenarios:
            continue
        inside = open_scenarios[-1]
        if word in ("either", "or"):
            path = (*inside.path, inside.alternatives)
            inside.alternatives += 1
            heads[path] = number
            open_scenarios.append(_Open(path, indent))
        else:
            entries[*inside.path, inside.entries] = number
            inside.entries += 1
    return AdviceSpans(lines, entries, heads)


@dataclass(slots=True)
class _Open:
    """A scenario whose lines are being read."""

    path: Path
    indent: int
    entries: int = 0
    alternatives: int = 0


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")
