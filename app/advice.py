"""Edits of the advice in its text form: each takes the text and gives the new one."""

from __future__ import annotations

import re

from engine.documents import EntryDoc

STAGES = re.compile(r"mark\s+stages\s+\d+")
USER = "advice user"


def with_enabled(text: str, entry: EntryDoc, enabled: bool) -> str:
    """The entry switched on or off, everything else as it is."""
    lines = text.splitlines()
    number = _line_of(lines, entry)
    if number is None:
        return text
    line = lines[number]
    indent, body = line[: len(line) - len(line.lstrip())], line.lstrip()
    required = "required " if body.startswith("required ") else ""
    rest = body.removeprefix("required ").removeprefix("off ")
    lines[number] = f"{indent}{required}{'' if enabled else 'off '}{rest}"
    return _joined(lines)


def with_stages(text: str, entry: EntryDoc, stages: int) -> str:
    """`mark stages` of the entry's dimension set; a new user entry where the entry says something else."""
    lines = text.splitlines()
    number = _line_of(lines, entry)
    if number is not None and STAGES.search(lines[number]):
        lines[number] = STAGES.sub(f"mark stages {stages}", lines[number])
        return _joined(lines)
    names = ", ".join(entry.statements) or "all"
    return with_entry(text, f"{names} @ {entry.dimension}: mark stages {stages}")


def with_entry(text: str, line: str) -> str:
    """One more entry at the end of the user's advice."""
    lines = text.splitlines()
    heading = next((number for number, each in enumerate(lines) if each.strip() == USER), None)
    if heading is None:
        return _joined([*lines, USER, f"  {line}"])
    end = heading + 1
    while end < len(lines) and not lines[end].startswith("advice "):
        end += 1
    return _joined([*lines[:end], f"  {line}", *lines[end:]])


def _line_of(lines: list[str], entry: EntryDoc) -> int | None:
    """The entry's line: under its author, saying the same; None where the text has no such line."""
    author, wanted = "", _core(entry.text)
    for number, line in enumerate(lines):
        if line.startswith("advice "):
            author = line.removeprefix("advice ").strip()
        elif author == entry.author and _core(line) == wanted:
            return number
    return None


def _core(line: str) -> str:
    """An entry's wish without its reason and its switches."""
    wish = line.partition("#")[0].strip().removeprefix("required ").removeprefix("off ")
    return " ".join(wish.split())


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
