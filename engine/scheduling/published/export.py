"""A group's entries as a published advice file, where that format can say them.

The loop order, by pins or by coefficients, the elements of a block, its threads and the vector width become rows: each
axis is cut where one of the three ends.  `translate(parse(export(advice, group)), group)` gives the same entries again,
the order as coefficients, a block counted along the outermost loop that divides it evenly.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator as Iterator_
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.fusion.nodes import FusionGroup
from engine.recipe import DEPTH, Advice, Entry, Value
from engine.scheduling.published.axes import fused_axes
from engine.scheduling.published.match import written_statements
from engine.scheduling.published.nodes import Free, PublishedRow
from engine.scheduling.terms import CONST
from engine.support.budgets import MAX_PUBLISHED_NUMBER
from engine.support.errors import Unsupported
from engine.tensor.nodes import Iterator

BLOCK, THREAD, VECTOR = "block", "thread", "vector"
_LISTS = {BLOCK: "blocks", THREAD: "threads", VECTOR: "swizzle"}
_LABEL = re.compile(r"(.*?)(?: \(without ([^()]*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _ExportedDimension:
    """One schedule dimension: an axis, what is done to it, and what it is mapped to ("" for a loop)."""

    axis: int
    operations: tuple[tuple[str, int], ...]
    role: str


def export(advice: Sequence[Advice], group: FusionGroup) -> str:
    """The JSON text of a file that says what the entries say.  Unsupported, naming the entry, where it cannot."""
    entries = [e for one in advice for e in _entries(one)]
    iterators = written_statements(group)[0].iterators
    if any(s.reduction is not None for s in group.program.statements) or not iterators:
        raise _cannot(f"group {group.name}", "the format is written for element-wise groups")
    order = _order(entries, [i.name for i in iterators])
    strip = _strip(entries, order)
    counted = [e for e in entries if strip is None or e.value != (VECTOR, strip.width)]
    ends = _ends(counted, [next(i for i in iterators if i.name == name) for name in order], strip)
    axes = fused_axes(group, order)
    dimensions = _dimensions(axes, ends, order, strip)
    label = next((one.scenario.label for one in advice if one.scenario.label), group.name)
    match = _LABEL.fullmatch(label)
    assert match is not None, "the first part takes every text"
    gpu: dict[str, object] = {
        name: [k for k, d in enumerate(dimensions) if d.role == role] for role, name in _LISTS.items()
        if role in ends or (strip and role == VECTOR)
    }
    if match[2]:
        gpu["compiler flags"] = match[2].split(", ")
    return json.dumps(
        {
            "name": match[1],
            "pattern": _pattern(axes, len(written_statements(group))),
            "soft constraints": [
                {"statement": f"S_{k}", "meta": [len(axes), 0], "coefficients": rows}
                for k, rows in enumerate(_rows_of_statements(dimensions, axes, entries, group))
            ],
            "gpu": gpu,
            "disable": ["TileOuterBand"],
        },
        indent=2,
    ) + "\n"  # fmt: skip


@dataclass(frozen=True, slots=True)
class _VectorStrip:
    """Neighbours along an iterator that a thread owns, moved as one vector; the loops count the strips."""

    iterator: str
    width: int


def _strip(entries: Sequence[Entry], order: Sequence[str]) -> _VectorStrip | None:
    """The strip that a `split` asks for, with the vector that must go with it; Unsupported for another split."""
    split = next((e for e in entries if e.field == "split"), None)
    if split is None:
        return None
    together = any(e.value == (VECTOR, split.value) and e.dimension == split.dimension for e in entries)
    if not together or split.dimension not in order[:-1] or not isinstance(split.value, int):
        raise _cannot(str(split), "the published format splits what a vector moves, along a loop outside the last")
    return _VectorStrip(split.dimension, split.value)


def _cannot(subject: str, reason: str) -> Unsupported:
    return Unsupported("schedule", subject, reason, "write the text form or a recipe, which can say everything")


def _entries(advice: Advice) -> list[Entry]:
    """The entries that count, each of a kind that rows and mapped dimensions can say."""
    entries, scenario = list(advice.scenario.entries), advice.scenario
    while scenario.alternatives:
        if advice.author == "user":
            raise _cannot("advice of user", "the published format has no alternatives")
        # An adviser's first alternative is its best one.
        scenario = scenario.alternatives[0]
        entries += scenario.entries
    found = [e for e in entries if e.enabled]
    for entry in found:
        mark = entry.value[0] if entry.field == "mark" and isinstance(entry.value, tuple) else None
        counted = mark in _LISTS and isinstance(entry.value, tuple) and isinstance(entry.value[1], int)
        pinned = entry.field == "pin" and isinstance(entry.value, tuple) and len(entry.value) == 1
        if entry.required or not (counted or pinned or entry.field in ("split", "terms")):
            raise _cannot(str(entry), "the published format cannot say it")
    return found


def _order(entries: Sequence[Entry], names: Sequence[str]) -> list[str]:
    """The loop order that the pins give; loops that none names keep their place."""
    order = _order_of_terms(entries, names)
    pins = {e.dimension: str(e.value[0]) for e in entries if e.field == "pin" and isinstance(e.value, tuple)}
    where, number = "outermost", 0
    while where in pins:
        name = pins.pop(where)
        if name not in order[number:]:
            raise _cannot(f"pin {name}", f"there is no loop {name} left at {where}")
        order.remove(name)
        order.insert(number, name)
        where, number = f"after {name}", number + 1
    for where, name in pins.items():
        raise _cannot(f"pin {name} at {where}", "a published file gives the order from the outermost loop inwards")
    return order


def _order_of_terms(entries: Sequence[Entry], names: Sequence[str]) -> list[str]:
    """The loop order that rows of one iterator each give."""
    chosen: dict[int, str] = {}
    for entry in entries:
        depth = DEPTH.fullmatch(entry.dimension)
        if entry.field != "terms" or _joined_constants(entry):
            continue
        pairs = dict(_pairs(entry.value))
        moved = [name for name, c in pairs.items() if c]
        if depth is None or len(moved) != 1 or pairs[moved[0]] != 1 or moved[0] not in names:
            raise _cannot(str(entry), "a file that counts elements has one iterator a dimension")
        if chosen.setdefault(int(depth[1]), moved[0]) != moved[0]:
            raise _cannot(str(entry), "statements have different rows")
    first = [chosen[depth] for depth in sorted(chosen)]
    if sorted(chosen) != list(range(len(chosen))) or len(set(first)) < len(first):
        raise _cannot("terms", "a published file gives the order from the outermost loop inwards")
    return [*first, *(name for name in names if name not in first)]


def _pairs(value: Value) -> Iterator_[tuple[str, int]]:
    """(iterator, coefficient) of a value `((i, 1), (j, 0))`."""
    for part in value if isinstance(value, tuple) else ():
        match part:
            case (str(name), int(number)):
                yield name, number
            case _:
                raise _cannot(f"terms {value}", "the published format fixes or links single coefficients")


def _joined_constants(entry: Entry) -> bool:
    """Whether an entry says that the constants of its statements are equal."""
    parts = entry.value if isinstance(entry.value, tuple) else ()
    relations = parts if parts and isinstance(parts[-1], tuple) else (parts,)
    return all(
        isinstance(r, tuple) and len(r) == 3 and r[1:] == ("=", 0) and isinstance(r[0], tuple)
        and all(isinstance(term, tuple) and term[-1] == CONST for term in r[0])
        for r in relations
    )  # fmt: skip


def _ends(entries: Sequence[Entry], loops: Sequence[Iterator], strip: _VectorStrip | None) -> dict[str, int]:
    """Role -> elements up to which it counts: V of a vector, T*V of the threads, and those of a block.

    Where threads own strips, strips are counted; `entries` then are without those of the strip.
    """
    values: dict[str, tuple[Entry, int]] = {}
    for entry in entries:
        if entry.field == "mark" and isinstance(entry.value, tuple):
            role, value = str(entry.value[0]), int(entry.value[1]) if isinstance(entry.value[1], int) else 0
            if role in values and values[role][0].value != entry.value:
                raise _cannot(str(entry), f"{values[role][0]} says otherwise")
            values[role] = (entry, value)
    names = [i.name for i in loops]
    ends: dict[str, int] = {}
    for role in (VECTOR, THREAD, BLOCK):
        if role not in values:
            continue
        entry, value = values[role]
        position = {"innermost": len(names) - 1, "outermost": 0, "": 0}.get(entry.dimension)
        if position is None:
            position = names.index(entry.dimension) if entry.dimension in names else -1
        if position < 0 or (role != BLOCK and position != len(names) - 1):
            raise _cannot(str(entry), f"{role}s are counted along {names[-1]}, the innermost loop")
        inner = math.prod(i.extent for i in loops[position + 1 :])
        ends[role] = value * (inner if role == BLOCK else ends.get(VECTOR, 1) if role == THREAD else 1)
    if strip and BLOCK in ends:
        if ends[BLOCK] % strip.width:
            raise _cannot(str(values[BLOCK][0]), f"{ends[BLOCK]} elements are no whole number of strips")
        ends[BLOCK] //= strip.width
    if BLOCK in ends and ends[BLOCK] % ends.get(THREAD, ends.get(VECTOR, 1)):
        raise _cannot(str(values[BLOCK][0]), f"{ends[BLOCK]} elements are no whole number of passes of its threads")
    return ends


def _dimensions(
    axes: Sequence[tuple[Iterator, ...]], ends: Mapping[str, int], order: Sequence[str], strip: _VectorStrip | None
) -> tuple[_ExportedDimension, ...]:
    """Every axis, outermost first in loop order, cut where a role ends."""
    ranked = sorted(range(len(axes)), key=lambda k: order.index(axes[k][0].name))
    cuts = sorted({1, *ends.values()})
    found: list[_ExportedDimension] = []
    inner = 1
    for number in reversed(ranked):
        owned = strip.width if strip and axes[number][-1].name == strip.iterator else 1
        extent = math.prod(i.extent for i in axes[number]) // owned
        first = number == ranked[0]
        inside = [c for c in cuts if inner < c and (c < inner * extent or (first and c >= inner * extent))]
        for cut in inside:
            if cut % inner or (not first and extent % (cut // inner)) or cut > MAX_PUBLISHED_NUMBER:
                role = next(role for role, end in ends.items() if end == cut)
                raise _cannot(f"mark {role}", f"{cut} elements end inside a row, where no dimension of a file can end")
        starts = [1, *(c // inner for c in inside)]
        for low, high in zip(starts, [*starts[1:], None], strict=True):
            remainder = (("%", high * owned),) if high is not None else ()
            quotient = (("/", low * owned),) if low * owned > 1 else ()
            found.append(_ExportedDimension(number, remainder + quotient, _role(low * inner, ends)))
        inner *= extent
    roles = {d.role for d in found}
    single = [_ExportedDimension(ranked[-1], (("%", 1),), r) for r in (THREAD, VECTOR) if r in ends and r not in roles]
    vector = [
        _ExportedDimension(k, (("%", strip.width),), VECTOR)
        for k, axis in enumerate(axes) if strip and axis[-1].name == strip.iterator
    ]  # fmt: skip
    return (*reversed(found), *single, *vector)


def _role(start: int, ends: Mapping[str, int]) -> str:
    """What the elements from `start` on are counted by."""
    for role in (VECTOR, THREAD):
        if role in ends and start < ends[role]:
            return role
    return BLOCK if BLOCK in ends and start >= ends[BLOCK] else ""


def _pattern(axes: Sequence[tuple[Iterator, ...]], statements: int) -> str:
    """The schedule tree of the statements after inlining, in isl's notation."""
    names = [f"ax{k}" for k in range(len(axes))]
    bounds = " and ".join(
        f"0 <= {name} <= {math.prod(i.extent for i in axis) - 1}" for name, axis in zip(names, axes, strict=True)
    )
    points = [f"S_{k}[{', '.join(names)}]" for k in range(statements)]
    domain = "; ".join(f"{point} : {bounds}" for point in points)
    trees = [_loops(point, names) for point in points]
    filters = (f'{{ filter: "{{ {point} }}", child: {tree} }}' for point, tree in zip(points, trees, strict=True))
    child = trees[0] if statements == 1 else f"{{ sequence: [ {', '.join(filters)} ] }}"
    return f'{{ domain: "{{ {domain} }}", child: {child} }}'


def _loops(point: str, names: Sequence[str]) -> str:
    """One band for each axis."""
    text = ""
    for name in reversed(names):
        text = f'{{ schedule: "[{{ {point} -> [({name})] }}]"{f", child: {text}" if text else ""} }}'
    return text


def _rows_of_statements(
    dimensions: Sequence[_ExportedDimension], axes: Sequence[tuple[Iterator, ...]], entries: Sequence[Entry],
    group: FusionGroup,
) -> Iterator_[list[str]]:  # fmt: skip
    """The coefficient strings of each statement; the constants of an axis cut in parts are linked.

    Without entries about the order the coefficients are open.
    """
    is_ordered = any(e.field != "mark" for e in entries)
    joined = {s for e in entries if e.field == "terms" and _joined_constants(e) for s in e.statements}
    for number, statement in enumerate(written_statements(group)):
        rows = []
        for dimension in dimensions:
            parts = sum(d.axis == dimension.axis for d in dimensions)
            owner = 0 if statement.name in joined else number
            link = (owner + 1) * max(10, len(axes) + 1) + dimension.axis + 1
            unit = [int(k == dimension.axis) if is_ordered else Free() for k in range(len(axes))]
            rows.append(str(PublishedRow((*unit, Free(link if parts > 1 else None)), dimension.operations)))
        yield rows
