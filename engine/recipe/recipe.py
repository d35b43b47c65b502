"""The recipe, and the advice that it holds for each group."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.recipe.entries import Entry, checked_entry
from engine.support import serialization as text
from engine.support.budgets import MAX_ENTRIES
from engine.support.errors import BadInput
from engine.support.files import parse_json
from engine.support.units import several

VERSION = 2
"""Version of the JSON form; a newer one is refused, an older one is read.  2: entries can say `rewrite`."""

AUTHORS = ("user", "stitch", "vectorize", "map", "tensorize", "pipeline", "tune")
"""Authors of advice, in order of precedence in the composed tree."""

NOT_INSIDE = "a rewrite changes the program for all alternatives, it cannot stand in one of them"
"""Why `_check_scenario`, the text form and `compose` refuse such an entry."""

Path = tuple[int, ...]
"""Place of an entry in the advice of a group: number of the advice, of the alternative at each level, of the entry."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Entries that belong together, and alternatives for what follows, best first."""

    entries: tuple[Entry, ...] = ()
    alternatives: tuple[Scenario, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """One author's tree of entries."""

    author: str
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Recipe:
    """Every choice that compiling a graph depends on."""

    target: str
    """Name of a GPU description in `engine/target`, e.g. "h200"."""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    """Sizes bound to the graph's symbolic dimensions."""
    numerics: Mapping[str, str] = field(default_factory=dict)
    """How numbers are rounded (`tensor/numerics.py`); empty means as the graph says, sums in float32."""
    fusion: Mapping[str, str] = field(default_factory=dict)
    """Fusion choices: "policy" and the operators that a user joined or kept apart."""
    groups: Mapping[str, tuple[Advice, ...]] = field(default_factory=dict)
    """Group name -> its advice in order."""

    def advise(self, author: str, *entries: Entry, group: str | None = None) -> Recipe:
        """A recipe with `entries` added to the author's advice for `group` (which may be left out if there is one).

        BadInput for an unknown author, for what is no entry, or when the group is not clear.
        """
        if author not in AUTHORS:
            raise BadInput("recipe", f"author {author!r}", "is unknown", f"authors are {', '.join(AUTHORS)}")
        for one in entries:
            if not isinstance(one, Entry):
                raise BadInput("recipe", f"advice of {author}", f"{one!r} is no entry", "engine.entry makes them")
        if group is None:
            if len(self.groups) != 1:
                names = ", ".join(self.groups) or "none"
                raise BadInput("recipe", "advise", "say which group the entries are for", f"the recipe holds {names}")
            group = next(iter(self.groups))
        return self.with_group(group, with_entries(self.groups.get(group, ()), author, entries))

    def with_group(self, group: str, advice: tuple[Advice, ...]) -> Recipe:
        """A recipe whose `group` has exactly this advice."""
        return replace(self, groups={**self.groups, group: advice})

    def __str__(self) -> str:
        lines = [f"recipe for {self.target}: {several(len(self.groups), 'group')}"]
        for group, advice in self.groups.items():
            said = [f"  {author}: {entry}" for _, author, entry in walk_entries(advice)]
            lines += [f"{group}: {several(len(said), 'line')}", *said]
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Plain data for `json.dumps`, with its version."""
        plain = text.to_json(self)
        assert isinstance(plain, dict)
        return {"version": VERSION, **plain}

    def dumps(self) -> str:
        """The JSON text of a recipe's file."""
        return json.dumps(self.to_json(), indent=2) + "\n"

    @staticmethod
    def from_json(data: object) -> Recipe:
        """Read what `to_json` wrote.  BadInput names the place of what is unknown, missing, or of a wrong type."""
        if not isinstance(data, dict):
            raise BadInput("recipe", "recipe", f"is {type(data).__name__}, not an object")
        version = data.get("version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise BadInput("recipe", "version", "must be a whole number from 1", f"this program writes {VERSION}")
        if version > VERSION:
            hint = "read it with a newer program"
            raise BadInput("recipe", "version", f"{version} is newer than {VERSION}, which this program reads", hint)
        recipe = text.from_json(Recipe, _without_version(data, version))
        for name, size in recipe.dimensions.items():
            if size < 1:
                raise BadInput("recipe", f"dimensions.{name}", f"must be a size from 1, not {size}")
        return replace(recipe, groups={name: _check_advice(name, advice) for name, advice in recipe.groups.items()})

    @staticmethod
    def loads(content: str, source: str = "recipe") -> Recipe:
        """Read the JSON text of a recipe; BadInput with the line where it is not JSON."""
        try:
            data = parse_json(content)
        except json.JSONDecodeError as error:
            raise BadInput("recipe", f"{source}, line {error.lineno}", f"not JSON: {error.msg}") from None
        except ValueError as error:
            raise BadInput("recipe", source, str(error)) from None
        return Recipe.from_json(data)


def with_entries(advice: Sequence[Advice], author: str, entries: Sequence[Entry]) -> tuple[Advice, ...]:
    """The advice of a group with more entries of an author, after those that the author has."""
    result = list(advice)
    position = next((k for k, one in enumerate(result) if one.author == author), len(result))
    if position == len(result):
        result.append(Advice(author, Scenario()))
    scenario = result[position].scenario
    result[position] = Advice(author, replace(scenario, entries=(*scenario.entries, *entries)))
    return tuple(result)


def walk_entries(advice: Sequence[Advice]) -> Iterator[tuple[Path, str, Entry]]:
    """(path, author, entry) of everything, each scenario's own entries before those of its alternatives."""

    def below(scenario: Scenario, path: Path, author: str) -> Iterator[tuple[Path, str, Entry]]:
        yield from (((*path, number), author, entry) for number, entry in enumerate(scenario.entries))
        for number, alternative in enumerate(scenario.alternatives):
            yield from below(alternative, (*path, number), author)

    for number, one in enumerate(advice):
        yield from below(one.scenario, (number,), one.author)


def entry_at(advice: Sequence[Advice], path: Path) -> Entry:
    """The entry at a path."""
    return next(entry for at, _, entry in walk_entries(advice) if at == path)


def replace_entry(advice: Sequence[Advice], path: Path, *entries: Entry) -> tuple[Advice, ...]:
    """The advice with these entries, or none, in place of the one at a path."""

    def change(scenario: Scenario, number: int, *below: int) -> Scenario:
        if not below:
            return replace(scenario, entries=(*scenario.entries[:number], *entries, *scenario.entries[number + 1 :]))
        inner = list(scenario.alternatives)
        inner[number] = change(inner[number], *below)
        return replace(scenario, alternatives=tuple(inner))

    result = list(advice)
    result[path[0]] = replace(advice[path[0]], scenario=change(advice[path[0]].scenario, *path[1:]))
    return tuple(result)


def _without_version(data: Mapping[str, object], version: int) -> dict[str, object]:
    """The fields of a recipe's JSON form without its version.  Version 1 had a list of rewrites that no stage
    implemented."""
    content = {key: value for key, value in data.items() if key != "version"}
    if version == 1 and content.pop("rewrites", []) != []:
        hint = "say “rewrite ...” in the advice of a group"
        raise BadInput("recipe", "rewrites", "names changes that version 1 could not make", hint)
    return content


def _check_advice(group: str, advice: Sequence[Advice]) -> tuple[Advice, ...]:
    """The advice of one group with every entry checked."""
    count = sum(1 for _ in walk_entries(advice))
    if count > MAX_ENTRIES:
        raise BadInput("recipe", f"groups.{group}", f"holds {count} entries", f"at most {MAX_ENTRIES} are read")
    found: list[Advice] = []
    for number, one in enumerate(advice):
        where = f"groups.{group}[{number}]"
        if one.author not in AUTHORS:
            raise BadInput("recipe", f"{where}.author", f"{one.author!r} is unknown", f"one of {', '.join(AUTHORS)}")
        found.append(Advice(one.author, _check_scenario(one.scenario, f"{where}.scenario")))
    return tuple(found)


def _check_scenario(scenario: Scenario, where: str, inside: bool = False) -> Scenario:
    """The scenario with its entries checked.  inside: whether it is an alternative."""
    entries = []
    for number, item in enumerate(scenario.entries):
        try:
            entries.append(checked_entry(item))
            if inside and item.field == "rewrite":
                raise BadInput("recipe", item.field, NOT_INSIDE)
        except BadInput as error:
            place, reason = f"{where}.entries[{number}]", f"{error.subject} {error.reason}"
            raise BadInput("recipe", place, reason, error.hint) from None
    inner = (_check_scenario(a, f"{where}.alternatives[{k}]", True) for k, a in enumerate(scenario.alternatives))
    return Scenario(tuple(entries), tuple(inner), scenario.label)
