"""Where the entries and alternatives of advice stand in its text: paths as the documents have them, lines as written.

Comments and layout stay as a person wrote them, so edits change lines of the text instead of printing it anew.
"""

from __future__ import annotations

from collections import Counter
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
    open_scenarios: list[tuple[Path, int]] = []
    """Those around the line, each with its indent."""
    inside: Counter[tuple[Path, bool]] = Counter()
    """Scenario -> its alternatives (True) and entries (False) so far; () holds the advice of the authors."""
    for number, line in enumerate(lines):
        if not _is_code(line):
            continue
        indent, word = _indent(line), line.split()[0]
        is_advice, is_head = word == "advice" and indent == 0, word in ("either", "or")
        if is_advice:
            open_scenarios.clear()
        while len(open_scenarios) > 1 and indent <= open_scenarios[-1][1]:
            open_scenarios.pop()
        if not (is_advice or open_scenarios):
            continue
        around = open_scenarios[-1][0] if open_scenarios else ()
        path = (*around, inside[around, is_advice or is_head])
        inside[around, is_advice or is_head] += 1
        if is_advice or is_head:
            heads[path] = number
            open_scenarios.append((path, indent))
        else:
            entries[path] = number
    return AdviceSpans(lines, entries, heads)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")
