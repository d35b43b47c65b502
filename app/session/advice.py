"""Edits of the advice in its text form: each takes the text and gives the new one, everything else as it was."""

from __future__ import annotations

import re
import textwrap
from itertools import pairwise

from app.session.advice_spans import AdviceSpans, Path, outline
from engine.documents.model import EntryDoc

STAGES = re.compile(r"mark\s+stages\s+\d+")
SWITCHES = re.compile(r"^((required|off)\s+)*")
USER = "user"


def with_enabled(text: str, entry: EntryDoc, enabled: bool) -> str:
    """The entry switched on or off."""
    return _with_switches(text, entry, None, enabled)


def with_required(text: str, entry: EntryDoc, required: bool) -> str:
    """The entry made required, or soft."""
    return _with_switches(text, entry, required, None)


def with_stages(text: str, entry: EntryDoc, stages: int) -> str:
    """`mark stages` of the entry's dimension set; a new user entry where the entry says something else."""
    read = outline(text)
    number = _line_of(read, entry)
    if number is not None and STAGES.search(read.lines[number]):
        changed = STAGES.sub(f"mark stages {stages}", read.lines[number])
        return _join_lines([*read.lines[:number], changed, *read.lines[number + 1 :]])
    names = ", ".join(entry.statements) or "all"
    return with_pasted(text, f"{names} @ {entry.dimension}: mark stages {stages}")


def with_pasted(text: str, pasted: str) -> str:
    """Lines of the text form added: under their own headings where they have some, else to the user's advice.

    One more entry of the user comes after the others and before the user's alternatives.
    """
    lines = textwrap.dedent(pasted).strip("\n").splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("advice ")]
    first = heads[0] if heads else len(lines)
    parts = [(USER, lines[:first])]
    parts += [(lines[head].split()[1], lines[head + 1 : end]) for head, end in pairwise([*heads, len(lines)])]
    for author, block in parts:
        text = _append_block(text, author, block) if any(line.strip() for line in block) else text
    return text


def without_entry(text: str, entry: EntryDoc) -> str:
    """The entry taken out; an author's heading stays, as its number is part of other entries' paths."""
    read = outline(text)
    number = _line_of(read, entry)
    return text if number is None else _join_lines([*read.lines[:number], *read.lines[number + 1 :]])


def with_moved(text: str, path: Path, place: int) -> str:
    """The alternative at `path` moved to `place` among its neighbours, its lines and all that is nested in them."""
    read = outline(text)
    around = read.alternatives(path[:-1])
    if path not in around or not 0 <= place < len(around):
        return text
    blocks = [list(read.lines[read.heads[each] : read.end(each)]) for each in around]
    between = [list(read.lines[read.end(before) : read.heads[after]]) for before, after in pairwise(around)]
    blocks.insert(place, blocks.pop(path[-1]))
    moved: list[str] = []
    for number, block in enumerate(blocks):
        head = re.sub(r"^(\s*)(either|or)\b", rf"\1{'or' if number else 'either'}", block[0])
        moved += [head, *block[1:], *(between[number] if number < len(between) else [])]
    return _join_lines([*read.lines[: read.heads[around[0]]], *moved, *read.lines[read.end(around[-1]) :]])


def _with_switches(text: str, entry: EntryDoc, required: bool | None, enabled: bool | None) -> str:
    read = outline(text)
    number = _line_of(read, entry)
    if number is None:
        return text
    line = read.lines[number]
    body = line.lstrip()
    rest = SWITCHES.sub("", body)
    before = body[: len(body) - len(rest)].split()
    words = {
        "required": "required" in before if required is None else required,
        "off": "off" in before if enabled is None else not enabled,
    }
    switches = "".join(f"{word} " for word, on in words.items() if on)
    changed = line[: len(line) - len(body)] + switches + rest
    return _join_lines([*read.lines[:number], changed, *read.lines[number + 1 :]])


def _append_block(text: str, author: str, block: list[str]) -> str:
    """Lines at the end of an author's entries; alternatives come last, as the text form wants it."""
    read = outline(text)
    path = next((head for head in read.heads if len(head) == 1 and read.author(head) == author), None)
    indented = textwrap.indent(textwrap.dedent("\n".join(block)), "  ").splitlines()
    if path is None:
        return _join_lines([*read.lines, f"advice {author}", *indented])
    alternatives = read.alternatives(path)
    plain = all(line.split()[0] not in ("either", "or") for line in block if line.strip())
    end = read.heads[alternatives[0]] if alternatives and plain else read.end(path)
    return _join_lines([*read.lines[:end], *indented, *read.lines[end:]])


def _line_of(read: AdviceSpans, entry: EntryDoc) -> int | None:
    """The entry's line: where its path leads if the same stands there, else the author's line that says the same."""
    wanted = _core(entry.text)
    number = read.entries.get(entry.path)
    if number is not None and _core(read.lines[number]) == wanted and read.author(entry.path) == entry.author:
        return number
    same = (k for path, k in read.entries.items() if read.author(path) == entry.author)
    return next((k for k in same if _core(read.lines[k]) == wanted), None)


def _core(line: str) -> str:
    """What an entry asks for, without its reason and its switches."""
    wish = line.partition("#")[0].strip()
    return " ".join(SWITCHES.sub("", wish).split())


def _join_lines(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
