"""Entries: single statements about a schedule, with their text form and the values that each field may have."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from numbers import Integral

from engine.support.errors import BadInput

ENTRY_FIELDS = ("pin", "terms", "equal", "parallel", "objective", "cut", "split", "mark", "rewrite")
"""What an entry can say, each with a value; `enabled` is a switch of the entry itself."""

FAMILY = "family"
"""The mark that names the family of the kernel."""
MARKS = (
    "block", "thread", "warp", "lane", "vector", "tile", "intrinsic", "stages", "register_stages", "raster", "slices",
    "split_k", "turns", "scope", "unroll", "axis", FAMILY,
)  # fmt: skip
"""What a mark can select (value of a `mark` entry: one of these names and a number or a word)."""

ASSOCIATIVE, RECOMPUTE, ONLINE = "associative", "recompute", "online"
REWRITES = (ASSOCIATIVE, RECOMPUTE, ONLINE)
"""Algebraic changes of a group's program, made before it is scheduled (value of a `rewrite` entry: one of these names,
then the statement that a value is recomputed in)."""

Value = bool | int | float | str | tuple["Value", ...]

DEPTH = re.compile(r"depth (\d{1,4})", re.ASCII)
"""A dimension by the number of those around it, as an entry names it."""

_WORD = re.compile(r"[A-Za-z_][\w.\-/]*", re.ASCII)
# Words of the text form: a statement or dimension of such a name is written in quotes.
_RESERVED = ("all", "any", "true", "false", "required", "off", "after", "advice", "either", "or", "rewrite")


@dataclass(frozen=True, slots=True)
class Entry:
    """A request `field = value` for `statements` at `dimension`.  Prints as its line of the text form.

    pin: allowed iterator names, e.g. ("j",).  parallel: True.  cut: ordered partition of statement names,
    (("S0",), ("S1", "S2")).  split: factor; dimension d becomes d_tile and d, the place in a tile.  mark: (name,
    value), e.g. ("stages", 3) or ("vector", 4).  rewrite: ("associative",), ("online",), or ("recompute", "S3") for a
    value that S3 is to compute again; about one statement, no dimension.
    """

    statements: tuple[str, ...]
    """Names the entry speaks of; empty means all statements of the group."""
    dimension: str
    """"outermost", "innermost", "after NAME", "depth N" (inside N others), or the name of a dimension; "" where the
    field needs none."""
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

    >>> str(engine.entry("S1", pin="j", at="innermost", because="rows are contiguous"))
    'S1 @ innermost: pin j'
    """
    fields: dict[str, Value | None] = {
        "pin": pin, "parallel": parallel, "cut": cut, "split": split, "mark": mark, "rewrite": rewrite, "equal": equal,
        "terms": terms, "objective": objective,
    }  # fmt: skip
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
            if value[0] not in MARKS:
                raise BadInput("recipe", f"mark {value[0]!r}", "is unknown", f"marks are {', '.join(MARKS)}")
            value = tuple(int(one) if isinstance(one, Integral) and not isinstance(one, bool) else one for one in value)
            reason = f"{value[0]} takes a whole number from 1 below 2^31 or a word, not {value[1]}"
            _require(_is_count(value[1]) or isinstance(value[1], str), entry, reason, f"mark {value[0]} 4")
        case "rewrite":
            value = (value,) if isinstance(value, str) else value
            _require(_is_names(value), entry, "takes a name", "rewrite associative S2")
            _check_rewrite(replace(entry, value=value))
    # JSON has no infinities, and a solver could not use one.
    _require(_is_plain(value), entry, "holds a number that is not finite", "")
    return replace(entry, value=value)


def _check_rewrite(entry: Entry) -> None:
    """BadInput for an unknown rewrite, or one with missing or extra statements."""
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


def _dimension(dimension: str) -> str:
    if DEPTH.fullmatch(dimension):
        return dimension
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
