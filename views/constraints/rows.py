"""Entries as rows of the constraint tree: under their statements or alternatives; what cannot hold with its repairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.documents.model import EntryDoc, RepairDoc, ScenarioDoc
from views.rows import TreeRow

LINE, MARGIN = 21, 9
"""Heights of a line in the box under what cannot hold, and of the room above and below its lines."""
REPLACEMENTS = 3
"""How many entries in place of others are offered."""
ONE_LINE = 44
"""Characters of a witness that fit on one line."""
OUTCOMES = ("honoured", "relaxed", "infeasible", "not reached", "disabled", "matches nothing")
SHOW, RELAX, DISABLE = "Show instances", "Make optional", "Disable"


@dataclass(frozen=True, slots=True)
class EntryRefusal:
    """Why an entry cannot hold."""

    entry: EntryDoc


@dataclass(frozen=True, slots=True)
class Links:
    """What can be done about an entry that cannot hold, side by side; `last` where the box ends."""

    entry: EntryDoc
    repairs: tuple[tuple[str, RepairDoc | None], ...]
    """Link -> the repair that was tried for it, if there is one."""
    last: bool


@dataclass(frozen=True, slots=True)
class Offer:
    """A repair in the box of an entry that cannot hold; `last` where the box ends."""

    repair: RepairDoc
    last: bool


def rows_of(
    entries: Sequence[EntryDoc], repairs: Sequence[RepairDoc] = (), scenarios: Sequence[ScenarioDoc] = ()
) -> tuple[TreeRow, ...]:
    """One heading for each set of statements, in the order of their first entries, then the alternatives as a tree."""
    headings: dict[tuple[str, ...], list[EntryDoc]] = {}
    plain = [entry for entry in entries if len(entry.path) <= 2]
    for entry in sorted(plain, key=lambda entry: len(entry.statements) > 0):
        headings.setdefault(entry.statements, []).append(entry)
    common = tuple(
        TreeRow(
            "/".join(names) or "all",
            ", ".join(names) or "All statements",
            names,
            tuple(_row(entry, wish(entry), repairs_to_show(repairs)) for entry in inside),
            26,
        )
        for names, inside in headings.items()
    )
    advice = dict.fromkeys(scenario.path[0] for scenario in scenarios)
    several = len(advice) > 1
    return common + tuple(
        row for number in advice for row in _alternatives((number,), entries, repairs, scenarios, several)
    )


def scenario_key(path: tuple[int, ...]) -> str:
    """The row key of an alternative."""
    return f"scenario {'.'.join(map(str, path))}"


def wish(entry: EntryDoc) -> str:
    """What an entry asks for, without the statements that its heading names."""
    text = plain_text(entry)
    if text.startswith("rewrite "):
        _, kind, *where = text.split()
        return " ".join((kind, *where[1:]))  # "rewrite recompute S1 in S3": "recompute in S3" under S1
    return text.partition("@")[2].strip() if "@" in text else text


def plain_text(entry: EntryDoc) -> str:
    """What an entry asks for, without its switches and its reason: columns of their own tell those."""
    words = entry.text.partition("# because")[0].split()
    while words and words[0] in ("required", "off"):
        words = words[1:]
    return " ".join(words)


def summary(entries: Sequence[EntryDoc]) -> tuple[tuple[str, int], ...]:
    """How many entries came to which outcome, without zeros."""
    counts = {outcome: sum(entry.outcome == outcome for entry in entries) for outcome in OUTCOMES}
    return tuple((outcome, count) for outcome, count in counts.items() if count)


def key_of(entry: EntryDoc) -> str:
    """The row key of an entry: the same whether it is on or off, required or not."""
    return f"{entry.author}:{'.'.join(map(str, entry.path))}:{plain_text(entry)}"


def reason(entry: EntryDoc) -> str:
    """Why an entry cannot hold, without the instances that prove it."""
    return entry.verdict.removesuffix(entry.witness).rstrip(": ")


def witness_lines(entry: EntryDoc) -> list[str]:
    """The instances that prove a conflict, each on a line of its own where both are too long for one."""
    if len(entry.witness) <= ONE_LINE:
        return [entry.witness] if entry.witness else []
    return re.split(r", (?=\w+\[)", entry.witness, maxsplit=1)


def repair_title(repair: RepairDoc) -> str:
    """What a repair does."""
    return repair.text[:1].upper() + repair.text[1:]


def as_text(value: object, entries: Sequence[EntryDoc], scenarios: Sequence[ScenarioDoc]) -> str:
    """What a row stands for as lines of the text form: an entry, a heading's entries, or an alternative's."""
    if isinstance(value, EntryDoc):
        return _line(value)
    if isinstance(value, ScenarioDoc):
        return "\n".join(_lines(value.path, entries, scenarios))
    return "\n".join(_line(entry) for entry in entries if entry.statements == value and len(entry.path) <= 2)


def _lines(path: tuple[int, ...], entries: Sequence[EntryDoc], scenarios: Sequence[ScenarioDoc]) -> list[str]:
    """Entries of an alternative, then its own alternatives, indented below "either" and "or"."""
    lines = [_line(entry) for entry in entries if entry.path[:-1] == path]
    for scenario in scenarios:
        if scenario.path[:-1] == path:
            label = f' "{scenario.label}"' if scenario.label else ""
            lines.append(("or" if scenario.path[-1] else "either") + label)
            lines += [f"  {line}" for line in _lines(scenario.path, entries, scenarios)]
    return lines


def _line(entry: EntryDoc) -> str:
    return f"{entry.text}  # because {entry.because}" if entry.because else entry.text


def repairs_to_show(repairs: Sequence[RepairDoc]) -> list[RepairDoc]:
    """The repairs that are shown: of entries written in place of another only the first few."""
    replacing = [repair for repair in repairs if repair.kind == "replace"][REPLACEMENTS:]
    return [repair for repair in repairs if repair not in replacing]


def _alternatives(
    path: tuple[int, ...],
    entries: Sequence[EntryDoc],
    repairs: Sequence[RepairDoc],
    scenarios: Sequence[ScenarioDoc],
    several: bool,
) -> Iterator[TreeRow]:
    """The alternatives right below a path, each with its entries and its own alternatives."""
    for scenario in scenarios:
        if scenario.path[:-1] != path:
            continue
        place = scenario.path
        inside = tuple(
            _row(entry, plain_text(entry), repairs_to_show(repairs)) for entry in entries if entry.path[:-1] == place
        )
        nested = tuple(_alternatives(place, entries, repairs, scenarios, False))
        number = ".".join(str(each + 1) for each in place[1:])
        title = f"Scenario {number}" + (f" of {scenario.author}" if several else "")
        title += f", {scenario.label}" if scenario.label else ""
        tip = f"{title}: {scenario.outcome}. Drag it, or Alt+Up and Alt+Down, to change which is tried first"
        yield TreeRow(scenario_key(place), title, scenario, (*inside, *nested), 26, tip)


def _row(entry: EntryDoc, text: str, repairs: Sequence[RepairDoc]) -> TreeRow:
    explained = entry.outcome in ("relaxed", "matches nothing") and entry.verdict
    below = tuple(_refusal(entry, repairs)) if entry.outcome == "infeasible" else ()
    title = f"{text}, {entry.author}, {entry.outcome}"
    because = f"because {entry.because}" if entry.because else ""
    tip = "\n".join(part for part in (f"{entry.author}: {entry.text}", because, entry.verdict) if part)
    return TreeRow(key_of(entry), title, entry, below, 42 if explained else 24, tip)


def _refusal(entry: EntryDoc, repairs: Sequence[RepairDoc]) -> Iterator[TreeRow]:
    """The witness, the links, then each other change that resolves the conflict: rows of one box."""
    key, room = key_of(entry), 1 + len(witness_lines(entry))
    yield TreeRow(f"{key}!", f"{reason(entry)} {entry.witness}".strip(), EntryRefusal(entry), (), MARGIN + room * LINE)
    own = {repair.kind: repair for repair in repairs if repair.path == entry.path and repair.complete}
    links: list[tuple[str, RepairDoc | None]] = [(SHOW, None)] if entry.witness else []
    links += [(RELAX, own.get("relax"))] if entry.required else []
    links.append((DISABLE, own.get("switch off")))
    taken = [repair for _, repair in links if repair is not None]
    others = [repair for repair in repairs if repair not in taken]
    title, height = ", ".join(name for name, _ in links), LINE + (0 if others else MARGIN)
    tip = "\n".join(f"{name}: {repair.text}" for name, repair in links if repair is not None)
    yield TreeRow(f"{key}!links", title, Links(entry, tuple(links), not others), (), height, tip)
    for number, repair in enumerate(others, 1):
        last = number == len(others)
        offer = Offer(repair, last)
        yield TreeRow(f"{key}!{number}", repair_title(repair), offer, (), LINE + last * MARGIN, repair.text)
