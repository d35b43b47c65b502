"""Entries as rows of the constraint tree: under the statements they speak of; what cannot hold with its repairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.documents import EntryDoc, RepairDoc
from views.rows import Row

LINE, MARGIN = 21, 9
"""Heights of a line in the box under what cannot hold, and of the room above and below its lines."""
REPLACEMENTS = 3
"""How many entries in place of others are offered."""
OUTCOMES = ("honoured", "relaxed", "infeasible", "not reached", "disabled", "matches nothing")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an entry cannot hold; `last` where the box ends, as no repair follows."""

    entry: EntryDoc
    last: bool


@dataclass(frozen=True, slots=True)
class Offer:
    """A repair in the box of an entry that cannot hold; `last` where the box ends."""

    repair: RepairDoc
    last: bool


def rows_of(entries: Sequence[EntryDoc], repairs: Sequence[RepairDoc] = ()) -> tuple[Row, ...]:
    """One heading for each set of statements, in the order of their first entries."""
    headings: dict[tuple[str, ...], list[EntryDoc]] = {}
    for entry in sorted(entries, key=lambda entry: len(entry.statements) > 0):
        headings.setdefault(entry.statements, []).append(entry)
    return tuple(
        Row(
            "/".join(names) or "all",
            ", ".join(names) or "All statements",
            names,
            tuple(_row(entry, offered(repairs)) for entry in inside),
            26,
        )
        for names, inside in headings.items()
    )


def wish(entry: EntryDoc) -> str:
    """What an entry asks for, without the statements that its heading names."""
    text = entry.text.partition("# because")[0].strip()
    return text.partition("@")[2].strip() if "@" in text else text


def summary(entries: Sequence[EntryDoc]) -> tuple[tuple[str, int], ...]:
    """How many entries came to which outcome, without zeros."""
    counts = {outcome: sum(entry.outcome == outcome for entry in entries) for outcome in OUTCOMES}
    return tuple((outcome, count) for outcome, count in counts.items() if count)


def key_of(entry: EntryDoc) -> str:
    """The row key of an entry."""
    return f"{entry.author}:{'.'.join(map(str, entry.path))}:{entry.text}"


def reason(entry: EntryDoc) -> str:
    """Why an entry cannot hold, without the instances that prove it."""
    return entry.verdict.removesuffix(entry.witness).rstrip(": ")


def repair_title(repair: RepairDoc, entry: EntryDoc) -> str:
    """What a repair does, seen from an entry that cannot hold."""
    brief = {"relax": "Relax this entry", "switch off": "Switch this entry off"}
    if repair.path == entry.path and repair.complete and repair.kind in brief:
        return brief[repair.kind]
    return repair.text[:1].upper() + repair.text[1:]


def offered(repairs: Sequence[RepairDoc]) -> list[RepairDoc]:
    """The repairs that are shown: of entries written in place of another only the first few."""
    replacing = [repair for repair in repairs if repair.kind == "replace"][REPLACEMENTS:]
    return [repair for repair in repairs if repair not in replacing]


def _row(entry: EntryDoc, repairs: Sequence[RepairDoc]) -> Row:
    explained = entry.outcome not in ("honoured", "infeasible", "disabled") and entry.verdict
    below = tuple(_refusal(entry, repairs)) if entry.outcome == "infeasible" else ()
    title = f"{wish(entry)}, {entry.author}, {entry.outcome}"
    return Row(key_of(entry), title, entry, below, 42 if explained else 24)


def _refusal(entry: EntryDoc, repairs: Sequence[RepairDoc]) -> Iterator[Row]:
    """The witness, then each change that resolves the conflict: rows of one box, which the last of them closes."""
    key, room = key_of(entry), 2 if entry.witness else 1
    title = f"{reason(entry)} {entry.witness}".strip()
    yield Row(f"{key}!", title, Refusal(entry, not repairs), (), MARGIN + room * LINE + (0 if repairs else MARGIN))
    for number, repair in enumerate(repairs, 1):
        last = number == len(repairs)
        offer = Offer(repair, last)
        yield Row(f"{key}!{number}", repair_title(repair, entry), offer, (), LINE + last * MARGIN, repair.text)
