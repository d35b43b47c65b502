"""What an edit changed, in few words: the titles of history steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine.recipe import Entry, Scenario, without
from engine.scheduling.text import from_text
from engine.support.errors import BadInput

FIRST_TITLE = "Default schedule"
OTHER_TITLE = "Order or remarks"
UNREADABLE_TITLE = "Edited advice"

Placed = tuple[str, Entry]
"""An author and one of their entries."""


def title_of(before: str, after: str) -> str:
    """ "Stages 2 → 3 on S0", "Vector 4 on S5", "Without pin j on S1 and 2 more", from two advice texts."""
    try:
        old, new = _entries(before), _entries(after)
    except BadInput:
        return UNREADABLE_TITLE  # a text that an older program accepted
    gone, come = without(old, new), without(new, old)
    phrases = list(_phrases(gone, come))
    if not phrases:
        return OTHER_TITLE
    more = f" and {len(phrases) - 1} more" if len(phrases) > 1 else ""
    return phrases[0][:1].upper() + phrases[0][1:] + more


def _phrases(gone: list[Placed], come: list[Placed]) -> Iterable[str]:
    """One phrase for every entry that changed, came or went."""
    left = list(gone)
    for placed in sorted(come, key=lambda each: each[1].field != "rewrite"):  # what changes the program comes first
        old = next((each for each in left if _subject(each) == _subject(placed)), None)
        if old is None:
            yield _phrase(placed[1])
        else:
            left.remove(old)
            yield _change(old[1], placed[1])
    yield from (f"without {_phrase(entry)}" for _, entry in left)


def _change(old: Entry, new: Entry) -> str:
    if old.enabled != new.enabled:
        return f"{'enable' if new.enabled else 'disable'} {_phrase(new)}"
    if (old.field, old.value) == (new.field, new.value):
        return f"{'require' if new.required else 'relax'} {_phrase(new)}"
    name, was = _what(old)
    _, value = _what(new)
    return f"{name} {was} → {value} {_where(new)}".rstrip()


def _phrase(entry: Entry) -> str:
    match entry.field, entry.value:
        case "terms", "shift":
            return "fuse with shifts"
        case "terms", ((str(other), int(factor)), (str(own), 1)):
            return f"skew {own} by {'' if factor == 1 else '−' if factor == -1 else f'{factor} '}{other}"
        case "terms", (str(own), -1):
            return f"reverse {own}"
        case "split", int(size):
            return f"tile {entry.dimension or 'any'} by {size}"
    name, value = _what(entry)
    return f"{name} {value} {_where(entry)}".replace(" true ", " ").rstrip()


def _what(entry: Entry) -> tuple[str, str]:
    """What an entry asks for: a name and a value as text: ("vector", "4"), ("pin", "j"), ("cut", "S0 | S1 S2")."""
    printed = str(replace(entry, required=False, enabled=True))
    printed = printed.removeprefix("rewrite ") if entry.field == "rewrite" else printed.partition(": ")[2]
    name, _, value = printed.removeprefix("mark ").partition(" ")
    return name, value


def _where(entry: Entry) -> str:
    if entry.field == "rewrite":
        return ""  # its value says it
    return f"on {', '.join(entry.statements)}" if entry.statements else f"at {entry.dimension or 'any'}"


def _subject(placed: Placed) -> tuple[str, tuple[str, ...], str, str]:
    author, entry = placed
    return author, entry.statements, entry.dimension, _what(entry)[0]


def _entries(text: str) -> list[Placed]:
    """Author and entry without its reason, alternatives included, in the text's order."""

    def visit(author: str, scenario: Scenario) -> Iterable[Placed]:
        yield from ((author, replace(entry, because="")) for entry in scenario.entries)
        for inner in scenario.alternatives:
            yield from visit(author, inner)

    return [placed for one in from_text(text) for placed in visit(one.author, one.scenario)]
