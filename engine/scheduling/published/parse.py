"""Parse a published advice file, and check it for contradictions.

Everything is checked against everything: declared iterators against the pattern, vectors against the declared sizes,
the mapped dimensions against the rows and against each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TypeVar

from engine.scheduling.published.explicit import rows_of_maps, rows_of_tree
from engine.scheduling.published.nodes import (
    Coefficient,
    Free,
    Loops,
    Published,
    PublishedRow,
    StatementRows,
    contradiction,
    unreadable,
)
from engine.scheduling.published.pattern import parse_domain, parse_pattern
from engine.support.budgets import (
    MAX_PUBLISHED_CHARACTERS,
    MAX_PUBLISHED_NAME,
    MAX_PUBLISHED_NUMBER,
    MAX_PUBLISHED_ROWS,
    MAX_PUBLISHED_STATEMENTS,
)
from engine.support.errors import BadInput, Unsupported
from engine.support.files import parse_json

KEYS = (
    "name", "pattern", "operator", "domain", "schedule", "tree", "soft constraints", "gpu", "disable", "check schedule",
    "attrs", "verbosity",
)  # fmt: skip
_GPU_KEYS = ("blocks", "threads", "swizzle", "compiler flags")
_WISH_KEYS = ("statement", "meta", "coefficients")

_ROW = re.compile(r"\s*\[([^\[\]()]*)\]\s*(?:\(([^()]*)\)\s*)?", re.ASCII)
_INTEGER = re.compile(r"\s*(-?\d{1,10})\s*", re.ASCII)
_FREE = re.compile(r"\s*\?(\d{0,9})\s*", re.ASCII)
_OPERATION = re.compile(r"\s*([/%])\s*(\d{1,10})\s*", re.ASCII)
_FLAG = re.compile(r"-[\w\-=.+]{1,80}", re.ASCII)

Object = dict[str, object]
T = TypeVar("T")

_KINDS = {str: "text", bool: "true or false", dict: "an object", list: "a list"}


def parse(text: str, source: str) -> Published:
    """Read an advice file.  source: what to call it until its own name is known.

    Raises BadInput, with the name of the advice, for text in another format and for a file that contradicts itself;
    Unsupported for `attrs`.  A `tree` counts before a `schedule`, that before `soft constraints`.
    """
    data = _expect_type(_json(text, source), dict, "the file", source)
    name = _expect_type(data.get("name", source), str, "name", source)
    if len(name) > MAX_PUBLISHED_NAME or not name.isprintable():
        raise unreadable(source, f"its name is not one line of up to {MAX_PUBLISHED_NAME} characters")
    _check_keys(data, KEYS, "", name)
    if data.get("attrs"):
        hint = "use `soft constraints`, `gpu` and `disable`"
        raise Unsupported("schedule", f"advice {name}", "says 'attrs', which are of AKG's own passes", hint)
    pattern = _pattern(data, name)
    wishes = _said_outright(data, pattern, name) or _wishes(
        data.get("soft constraints", []), {loops.statement: loops for loops in pattern}, name
    )
    gpu = _expect_type(data.get("gpu", {}), dict, "gpu", name)
    _check_keys(gpu, _GPU_KEYS, "gpu.", name)
    blocks, threads, vectors = (_dimensions(gpu, key, wishes, name) for key in _GPU_KEYS[:3])
    _mapped_once({"blocks": blocks, "threads": threads, "swizzle": vectors}, name)
    flags = _words(gpu, "compiler flags", name)
    for flag in flags:
        if not _FLAG.fullmatch(flag):
            raise unreadable(name, f"gpu.compiler flags: {flag[:60]!r} is no compiler flag")
    operator = data.get("operator")
    return Published(
        name=name,
        pattern=pattern,
        wishes=wishes,
        blocks=blocks,
        threads=threads,
        vectors=vectors,
        flags=flags,
        disabled=_words(data, "disable", name),
        checked=_expect_type(data.get("check schedule", True), bool, "check schedule", name),
        operator=None if operator is None else _expect_type(operator, str, "operator", name),
    )


def _json(text: str, source: str) -> object:
    if len(text) > MAX_PUBLISHED_CHARACTERS:
        raise unreadable(source, f"has {len(text)} characters", f"at most {MAX_PUBLISHED_CHARACTERS} are read")
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        raise unreadable(source, f"line {error.lineno}: not JSON: {error.msg}", "is the file whole?") from None
    except ValueError as error:
        raise unreadable(source, str(error)) from None


def _pattern(data: Object, name: str) -> tuple[Loops, ...]:
    """The statements that the advice is for, from `pattern` and `domain`, which must agree."""
    pattern, domain = data.get("pattern"), data.get("domain")
    if pattern is None and domain is None:
        raise unreadable(name, "has neither pattern nor domain", "its coefficients speak of iterators given there")
    statements = None if domain is None else parse_domain(_expect_type(domain, str, "domain", name), name)
    if pattern is None:
        assert statements is not None
        return statements
    found = parse_pattern(_expect_type(pattern, str, "pattern", name), name)
    if statements is not None and set(statements) != set(found):
        said = "; ".join(map(str, statements))
        raise contradiction(name, f"its domain is {said} and its pattern is for {'; '.join(map(str, found))}")
    return found


def _said_outright(data: Object, pattern: Sequence[Loops], name: str) -> tuple[StatementRows, ...]:
    """The rows of an explicit tree or schedule; none where the file has neither."""
    if data.get("tree"):
        return rows_of_tree(_expect_type(data["tree"], str, "tree", name), pattern, name)
    if data.get("schedule"):
        return rows_of_maps(_list(data["schedule"], "schedule", MAX_PUBLISHED_ROWS, name), pattern, name)
    return ()


def _wishes(data: object, pattern: dict[str, Loops], name: str) -> tuple[StatementRows, ...]:
    items = _list(data, "soft constraints", MAX_PUBLISHED_STATEMENTS, name)
    if not items:
        raise unreadable(name, "has no soft constraints", "there is nothing to do")
    found: dict[str, StatementRows] = {}
    for number, item in enumerate(items):
        where = f"soft constraints[{number}]"
        wish = _wish(_expect_type(item, dict, where, name), pattern, where, name)
        if wish.statement in found:
            raise contradiction(name, f"soft constraints speak of {wish.statement} twice")
        found[wish.statement] = wish
    counts = {s: len(wish.rows) for s, wish in found.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{s} {count}" for s, count in counts.items())
        raise contradiction(name, f"statements have different numbers of dimensions: {said}")
    return tuple(found.values())


def _wish(data: Object, pattern: dict[str, Loops], where: str, name: str) -> StatementRows:
    """The rows of one statement; its `meta` must be what the pattern says."""
    _check_keys(data, _WISH_KEYS, f"{where}.", name)
    statement = _expect_type(data.get("statement"), str, f"{where}.statement", name)
    loops = pattern.get(statement)
    if loops is None:
        there = ", ".join(pattern)
        raise contradiction(name, f"soft constraints speak of {statement[:60]}, its pattern is for {there}")
    meta = [_integer(n, f"{where}.meta", name) for n in _list(data.get("meta"), f"{where}.meta", 2, name)]
    if len(meta) != 2 or min(meta) < 0:
        raise unreadable(name, f"{where}.meta is not [iterators, parameters]")
    if meta[0] != len(loops.axes):
        axes = ", ".join(a.name for a in loops.axes)
        declared = f"{statement} declares {_count(meta[0], 'iterator')} (meta)"
        reason = f"{declared}, its pattern has {len(loops.axes)} ({axes})"
        raise contradiction(name, reason, f"write meta [{len(loops.axes)}, {meta[1]}]")
    if meta[1]:
        raise contradiction(name, f"{statement} declares {_count(meta[1], 'parameter')} (meta), its domain has none")
    rows = _list(data.get("coefficients"), f"{where}.coefficients", MAX_PUBLISHED_ROWS, name)
    if not rows:
        raise unreadable(name, f"{where}.coefficients is empty")
    parsed = tuple(_row(row, f"{statement}, dimension {k}", name) for k, row in enumerate(rows))
    for number, row in enumerate(parsed):
        if len(row.coefficients) != sum(meta) + 1:
            reason = f"{statement}, dimension {number}: {_count(len(row.coefficients), 'coefficient')}"
            wanted = f"{_count(meta[0], 'iterator')} and a constant need {sum(meta) + 1}"
            raise contradiction(name, f"{reason}, but {wanted}")
    return StatementRows(statement, parsed)


def _row(data: object, where: str, name: str) -> PublishedRow:
    """`[1, 0, ?12] (%64, /4)`."""
    text = _expect_type(data, str, where, name)
    match = _ROW.fullmatch(text) if len(text) <= 1_000 else None
    if match is None:
        raise unreadable(name, f"{where}: {text[:60]!r} is no row of coefficients", "for example “[1, 0, ?12] (/4)”")
    coefficients = tuple(_coefficient(part, where, name) for part in match[1].split(","))
    operations = []
    for part in match[2].split(",") if match[2] is not None else ():
        operation = _OPERATION.fullmatch(part)
        if operation is None or not 1 <= int(operation[2]) <= MAX_PUBLISHED_NUMBER:
            reason = f"{where}: {part.strip()[:40]!r} is no division or remainder"
            raise unreadable(name, reason, f"“/4” or “%4”, by 1 to {MAX_PUBLISHED_NUMBER}")
        operations.append((operation[1], int(operation[2])))
    return PublishedRow(coefficients, tuple(operations))


def _coefficient(text: str, where: str, name: str) -> Coefficient:
    number, free = _INTEGER.fullmatch(text), _FREE.fullmatch(text)
    if number is not None and abs(int(number[1])) <= MAX_PUBLISHED_NUMBER:
        return int(number[1])
    if free is not None:
        return Free(int(free[1]) if free[1] else None)
    hint = "a whole number, “?” or “?” and a number"
    raise unreadable(name, f"{where}: {text.strip()[:40]!r} is no coefficient", hint)


def _dimensions(gpu: Object, key: str, wishes: Sequence[StatementRows], name: str) -> tuple[int, ...]:
    """A list of schedule dimensions, each of which the rows must have."""
    numbers = _list(gpu.get(key, []), f"gpu.{key}", MAX_PUBLISHED_ROWS, name)
    found = tuple(_integer(n, f"gpu.{key}", name) for n in numbers)
    count = max(len(wish.rows) for wish in wishes)
    for number in found:
        if not 0 <= number < count:
            raise contradiction(name, f"gpu.{key} maps dimension {number}, its statements have 0 to {count - 1}")
        if found.count(number) > 1:
            raise contradiction(name, f"gpu.{key} maps dimension {number} twice")
    return found


def _mapped_once(lists: dict[str, tuple[int, ...]], name: str) -> None:
    roles = {"blocks": "the grid", "threads": "the threads of a block", "swizzle": "a vector"}
    owner: dict[int, str] = {}
    for key, numbers in lists.items():
        for number in numbers:
            if number in owner:
                reason = (
                    f"dimension {number} is mapped to {roles[owner[number]]} (gpu.{owner[number]}) "
                    f"and to {roles[key]} (gpu.{key})"
                )
                raise contradiction(name, reason, "a dimension can be one of the two: take it out of one list")
            owner[number] = key


def _check_keys(data: Object, keys: Sequence[str], where: str, name: str) -> None:
    for key in data:
        if key not in keys:
            raise unreadable(name, f"{where}{key[:60]} is unknown", f"known are {', '.join(keys)}")


def _list(data: object, what: str, limit: int, name: str) -> list[object]:
    items = _expect_type(data, list, what, name)
    if len(items) > limit:
        raise unreadable(name, f"{what} has {len(items)} elements", f"at most {limit} are read")
    return items


def _words(data: Object, key: str, name: str) -> tuple[str, ...]:
    return tuple(_expect_type(word, str, key, name) for word in _list(data.get(key, []), key, 100, name))


def _integer(data: object, what: str, name: str) -> int:
    """A whole number, which published files also write as text."""
    text = data if isinstance(data, str) else str(data) if type(data) is int else ""
    match = _INTEGER.fullmatch(text)
    if match is None or abs(int(match[1])) > MAX_PUBLISHED_NUMBER:
        raise _wrong(data, what, "a whole number below 2147483648", name)
    return int(match[1])


def _expect_type(data: object, kind: type[T], what: str, name: str) -> T:
    if not isinstance(data, kind):
        raise _wrong(data, what, _KINDS[kind], name)
    return data


def _wrong(data: object, what: str, wanted: str, name: str) -> BadInput:
    shown = "missing" if data is None else _KINDS[type(data)] if isinstance(data, dict | list) else repr(data)[:60]
    return unreadable(name, f"{what} is {shown}, not {wanted}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
