"""Entries as rows of the constraint tree: under the statements that they speak of, witnesses under what cannot hold."""

from __future__ import annotations

from collections.abc import Sequence

from engine.documents import EntryDoc
from views.rows import Row

OUTCOMES = ("honoured", "relaxed", "infeasible", "not reached", "disabled", "matches nothing")


def rows_of(entries: Sequence[EntryDoc]) -> tuple[Row, ...]:
    """One heading for each set of statements, in the order of their first entries."""
    headings: dict[tuple[str, ...], list[EntryDoc]] = {}
    for entry in sorted(entries, key=lambda entry: len(entry.statements) > 0):
        headings.setdefault(entry.statements, []).append(entry)
    return tuple(
        Row(
            "/".join(names) or "all",
            ", ".join(names) or "All statements",
            names,
            tuple(_row(entry) for entry in inside),
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


def _row(entry: EntryDoc) -> Row:
    explained = entry.outcome not in ("honoured", "infeasible", "disabled") and entry.verdict
    witness = (
        (Row(f"{key_of(entry)}!", f"{entry.verdict} {entry.witness}", entry, (), 62),)
        if entry.outcome == "infeasible"
        else ()
    )
    title = f"{wish(entry)}, {entry.author}, {entry.outcome}"
    return Row(key_of(entry), title, entry, witness, 42 if explained else 24)
