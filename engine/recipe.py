"""The Recipe: every choice made by a person, an analysis or a tuner, as one immutable value.

A recipe names its target, then holds for each fusion group an ordered list of `Advice`.  One advice is one author's
tree of entries; an entry is one wish about one dimension of some statements, with a reason.  `schedule.compose` turns
the advice of a group into its constraint tree.  Nothing else steers the compiler.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from engine.support import serialization as text
from engine.support.errors import BadInput

T = TypeVar("T")

VERSION = 2
"""Version of the JSON form; a newer one is refused, an older one is read.  2: entries can say `rewrite`."""

AUTHORS = ("user", "stitch", "vectorize", "map", "tensorize", "pipeline", "tune")
"""Who may give advice, in order of precedence in the composed tree."""

FIELDS = ("pin", "terms", "equal", "parallel", "objective", "cut", "split", "mark", "rewrite", "enabled")
"""What an entry can say (DESIGN 5)."""

ENTRY_FIELDS = FIELDS[:-1]
"""Those that carry a value; `enabled` is a switch of the entry itself."""

MARKS = (
    "block", "thread", "warp", "lane", "vector", "tile", "intrinsic", "stages", "register_stages", "raster", "slices",
    "split_k", "turns", "scope", "unroll",
)  # fmt: skip
"""What a mark can select (value of a `mark` entry: one of these names and a number or a word)."""

ASSOCIATIVE, RECOMPUTE, ONLINE = "associative", "recompute", "online"
REWRITES = (ASSOCIATIVE, RECOMPUTE, ONLINE)
"""Algebraic changes of a group's program, made before it is scheduled (value of a `rewrite` entry: one of these names,
then the statement that a value is recomputed in)."""

Value = bool | int | float | str | tuple["Value", ...]

NOT_INSIDE = "a rewrite changes the program for all alternatives, it cannot stand in one of them"
"""Why `_check_scenario`, the text form and `compose` refuse such an entry."""
_MAX_ENTRIES = 100_000
_WORD = re.compile(r"[A-Za-z_][\w.\-/]*", re.ASCII)
_RESERVED = ("all", "any", "true", "false", "required", "off", "after", "advice", "either", "or", "rewrite")


@dataclass(frozen=True, slots=True)
class Entry:
    """One wish: `field = value` for `statements` at `dimension`.  Prints as its line of the text form.

    pin: allowed iterator names, e.g. ("j",).  parallel: True.  cut: ordered partition of statement names,
    (("S0",), ("S1", "S2")).  split: factor.  mark: (name, value), e.g. ("stages", 3) or ("vector", 4).  rewrite:
    ("associative",), ("online",), or ("recompute", "S3") for a value that S3 is to compute again; about one statement,
    no dimension.
    """

    statements: tuple[str, ...]
    """Names the entry speaks of; empty means all statements of the group."""
    dimension: str
    """"outermost", "innermost", "after NAME", or the name of a schedule dimension; "" where the field needs none."""
    field: str
    value: Value
    required: bool = False
    """A required entry is never relaxed silently: when it cannot hold, the solve fails and says why."""
    because: str = ""
    enabled: bool = True

    def __str__(self) -> str:
        switches = ("required " if self.required else "") + ("" if self.enabled else "off ")
        if self.field == "rewrite" and isinstance(self.value, tuple):
            kind, *consumer = self.value
            where = f" in {_atom(consumer[0])}" if consumer else ""
            return f"{switches}rewrite {kind} {', '.join(map(_atom, self.statements))}{where}"
        statements = ", ".join(map(_atom, self.statements)) or "all"
        return f"{switches}{statements} @ {_dimension(self.dimension)}: {self.field} {_value(self.field, self.value)}"


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
    """"accumulate" and "tensor_cores" types; empty means float32 accumulation on CUDA cores."""
    fusion: Mapping[str, str] = field(default_factory=dict)
    """Fusion choices: "policy" and what a person forced."""
    groups: Mapping[str, tuple[Advice, ...]] = field(default_factory=dict)
    """Group name -> its advice in order."""

    def advise(self, author: str, *entries: Entry, group: str | None = None) -> Recipe:
        """A recipe with `entries` added to the author's advice for `group` (which may be left out if there is one).

        BadInput for an unknown author, or when the group is not clear.
        """
        if author not in AUTHORS:
            raise BadInput("recipe", f"author {author!r}", "is unknown", f"authors are {', '.join(AUTHORS)}")
        if group is None:
            if len(self.groups) != 1:
                names = ", ".join(self.groups) or "none"
                raise BadInput("recipe", "advise", "say which group the entries are for", f"the recipe holds {names}")
            group = next(iter(self.groups))
        return self.with_group(group, with_entries(self.groups.get(group, ()), author, entries))

    def with_group(self, group: str, advice: tuple[Advice, ...]) -> Recipe:
        """A recipe whose `group` has exactly this advice."""
        return replace(self, groups={**self.groups, group: advice})

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
        return replace(recipe, groups={name: _check_advice(name, advice) for name, advice in recipe.groups.items()})

    @staticmethod
    def loads(content: str, source: str = "recipe") -> Recipe:
        """Read the JSON text of a recipe; BadInput with the line where it is not JSON."""
        try:
            data = json.loads(content)
        except json.JSONDecodeError as error:
            raise BadInput("recipe", f"{source}, line {error.lineno}", f"not JSON: {error.msg}") from None
        except RecursionError:
            raise BadInput("recipe", source, "is nested too deeply") from None
        except ValueError:
            raise BadInput("recipe", source, "holds a number with thousands of digits") from None
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


def entry(
    *statements: str,
    pin: str | tuple[str, ...] | None = None,
    parallel: bool | None = None,
    cut: tuple[tuple[str, ...] | str, ...] | None = None,
    split: int | None = None,
    mark: tuple[str, int | str] | None = None,
    rewrite: str | tuple[str, ...] | None = None,
    equal: tuple[str, ...] | None = None,
    terms: Value | None = None,
    objective: Value | None = None,
    at: str = "",
    required: bool = False,
    because: str = "",
    enabled: bool = True,
) -> Entry:
    """An entry with exactly one field; no `statements` means all of the group.  BadInput for a value it cannot have.

    >>> str(entry("S1", pin="j", at="innermost", because="rows are contiguous"))
    'S1 @ innermost: pin j'
    """
    fields: dict[str, Value | None] = {
        "pin": pin,
        "parallel": parallel,
        "cut": cut,
        "split": split,
        "mark": mark,
        "rewrite": rewrite,
        "equal": equal,
        "terms": terms,
        "objective": objective,
    }
    given = [(name, value) for name, value in fields.items() if value is not None]
    if len(given) != 1:
        names = ", ".join(name for name, _ in given) or "none"
        raise BadInput("recipe", "entry", f"needs exactly one field, got {names}", f"one of {', '.join(ENTRY_FIELDS)}")
    name, value = given[0]
    return checked_entry(Entry(statements, at, name, value, required, because, enabled))


def checked_entry(entry: Entry) -> Entry:
    """The entry with its value in canonical form; BadInput when its field cannot have that value."""
    if entry.field not in ENTRY_FIELDS:
        raise BadInput("recipe", f"field {entry.field!r}", "is unknown", f"fields are {', '.join(ENTRY_FIELDS)}")
    value = entry.value
    match entry.field:
        case "pin" | "equal":
            value = (value,) if isinstance(value, str) else value
            _require(_is_names(value), entry, "takes names", "pin i, j")
        case "parallel":
            _require(isinstance(value, bool), entry, "takes true or false", "parallel true")
        case "cut":
            parts = value if isinstance(value, tuple) else ()
            value = tuple((part,) if isinstance(part, str) else part for part in parts)
            names = [name for part in value if isinstance(part, tuple) for name in part]
            _require(len(value) > 1 and all(map(_is_names, value)), entry, "takes two or more parts", "cut S0 | S1 S2")
            _require(len(set(names)) == len(names), entry, "names a statement twice", "cut S0 | S1 S2")
        case "split":
            _require(_is_count(value), entry, "takes a factor from 1", "split 4")
        case "mark":
            _require(isinstance(value, tuple) and len(value) == 2, entry, "takes a name and a value", "mark vector 4")
            assert isinstance(value, tuple)
            _require(value[0] in MARKS, entry, f"{value[0]!r} is unknown", f"marks are {', '.join(MARKS)}")
            reason = f"{value[0]} takes a number from 1 or a word, not {value[1]}"
            _require(_is_count(value[1]) or isinstance(value[1], str), entry, reason, f"mark {value[0]} 4")
        case "rewrite":
            value = (value,) if isinstance(value, str) else value
            _require(_is_names(value), entry, "takes a name", "rewrite associative S2")
            _check_rewrite(replace(entry, value=value))
    _require(_is_plain(value), entry, "holds a number that is not finite", "")
    return replace(entry, value=value)


def _check_rewrite(entry: Entry) -> None:
    """BadInput for a rewrite of no known kind, or one that does not say what it is about."""
    assert isinstance(entry.value, tuple)
    kind, *consumer = entry.value
    hint = "rewrite recompute S0 in S3" if kind == RECOMPUTE else "rewrite associative S2"
    _require(kind in REWRITES, entry, f"{kind!r} is unknown, rewrites are {', '.join(REWRITES)}", hint)
    _require(len(entry.statements) == 1, entry, "is about exactly one statement", hint)
    _require(not entry.dimension, entry, "is about no dimension", hint)
    wanted = 1 if kind == RECOMPUTE else 0
    _require(len(consumer) == wanted, entry, f"takes {wanted or 'no'} statement after the first", hint)


def _require(condition: bool, entry: Entry, reason: str, hint: str) -> None:
    if not condition:
        raise BadInput("recipe", entry.field, reason, hint and f"for example: {hint}")


def _is_names(value: Value) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(name, str) and name for name in value)


def _is_count(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31


def _is_plain(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return not isinstance(value, float) or math.isfinite(value)


def _without_version(data: Mapping[str, object], version: int) -> dict[str, object]:
    """The content of a recipe's JSON form; version 1 had a list of rewrites that nothing ever followed."""
    content = {key: value for key, value in data.items() if key != "version"}
    if version == 1 and content.pop("rewrites", []) != []:
        hint = "say “rewrite ...” in the advice of a group"
        raise BadInput("recipe", "rewrites", "names changes that version 1 could not make", hint)
    return content


def _check_advice(group: str, advice: Sequence[Advice]) -> tuple[Advice, ...]:
    """The advice of one group with every entry checked."""
    found: list[Advice] = []
    count = 0
    for number, one in enumerate(advice):
        where = f"groups.{group}[{number}]"
        if one.author not in AUTHORS:
            raise BadInput("recipe", f"{where}.author", f"{one.author!r} is unknown", f"one of {', '.join(AUTHORS)}")
        scenario, size = _check_scenario(one.scenario, f"{where}.scenario")
        count += size
        found.append(Advice(one.author, scenario))
    if count > _MAX_ENTRIES:
        raise BadInput("recipe", f"groups.{group}", f"holds {count} entries", f"at most {_MAX_ENTRIES} are read")
    return tuple(found)


def _check_scenario(scenario: Scenario, where: str, inside: bool = False) -> tuple[Scenario, int]:
    """The scenario with its entries checked, and their number."""
    entries = []
    for number, item in enumerate(scenario.entries):
        try:
            entries.append(checked_entry(item))
            _require(not inside or item.field != "rewrite", item, NOT_INSIDE, "")
        except BadInput as error:
            raise BadInput(
                "recipe", f"{where}.entries[{number}]", f"{error.subject} {error.reason}", error.hint
            ) from None
    inner = [_check_scenario(a, f"{where}.alternatives[{k}]", True) for k, a in enumerate(scenario.alternatives)]
    count = len(entries) + sum(size for _, size in inner)
    return Scenario(tuple(entries), tuple(alternative for alternative, _ in inner), scenario.label), count


def diff(a: Recipe, b: Recipe) -> tuple[str, ...]:
    """What changes from `a` to `b`, one readable line for each change; empty for equal recipes."""
    lines: list[str] = []
    if a.target != b.target:
        lines.append(f"target: {a.target} → {b.target}")
    for name in ("dimensions", "numerics", "fusion"):
        lines += _changed_keys(name, getattr(a, name), getattr(b, name))
    for group in dict.fromkeys((*a.groups, *b.groups)):
        lines += _changed_advice(group, a.groups.get(group), b.groups.get(group))
    return tuple(lines)


def _changed_keys(what: str, a: Mapping[str, object], b: Mapping[str, object]) -> list[str]:
    """One line for every key whose value is not the same."""
    keys = [key for key in dict.fromkeys((*a, *b)) if a.get(key) != b.get(key)]
    return [f"{what} {key}: {a.get(key, 'none')} → {b.get(key, 'none')}" for key in keys]


def _changed_advice(group: str, a: tuple[Advice, ...] | None, b: tuple[Advice, ...] | None) -> list[str]:
    """Entries that went and came, each under its author; a line about the order when nothing else changed."""
    if a == b:
        return []
    if a is None or b is None:
        return [f"group {group}: {'added' if a is None else 'removed'}", *_changed_advice(group, a or (), b or ())]
    before, after = ([line for one in side for line in _lines(one)] for side in (a, b))
    gone = [f"group {group}: - {line}" for line in without(before, after)]
    come = [f"group {group}: + {line}" for line in without(after, before)]
    return gone + come or ([f"group {group}: order or labels of the advice changed"] if a and b else [])


def without(items: Sequence[T], others: Sequence[T]) -> list[T]:
    """The items that are not among `others`, counted: of two equal ones, one among `others` takes one away."""
    left = list(others)
    result = []
    for item in items:
        if item in left:
            left.remove(item)
        else:
            result.append(item)
    return result


def _lines(advice: Advice) -> list[str]:
    """ "AUTHOR[1.2]: ENTRY (because)" for each entry, with the alternatives it stands in."""

    def visit(scenario: Scenario, place: str) -> list[str]:
        own = [f"{place}: {e}" + (f" (because {e.because})" if e.because else "") for e in scenario.entries]
        inner = (visit(a, f"{place}, alternative {k + 1}") for k, a in enumerate(scenario.alternatives))
        return own + [line for lines in inner for line in lines]

    return visit(advice.scenario, advice.author)


def _dimension(dimension: str) -> str:
    if dimension.startswith("after ") and dimension != "after ":
        return f"after {_atom(dimension.removeprefix('after '))}"
    return _atom(dimension) if dimension else "any"


def _value(name: str, value: Value) -> str:
    """A value as the text form writes it for a field."""
    if isinstance(value, tuple):
        if name == "cut":
            return " | ".join(" ".join(map(_atom, part if isinstance(part, tuple) else (part,))) for part in value)
        if name in ("pin", "equal"):
            return ", ".join(map(_atom, value))
        if name == "mark":
            return " ".join(map(_atom, value))
    return _atom(value)


def _atom(value: Value) -> str:
    """A plain word or number as it stands, other text as a JSON string, a tuple in brackets."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_atom, value))})"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) and value not in _RESERVED else json.dumps(value)
    return repr(value)
