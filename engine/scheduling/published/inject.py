"""Published coefficients as entries that the scheduler's linear program obeys: a `terms` entry for each dimension.

[1, 1, ?] over S1[i, j]     ->    S1 @ depth 0: terms ((i, 1), (j, 1))
[1, 0, ?2], ?2 in S2, too   ->    S1 @ depth 0: terms ((i, 1), (j, 0))
                                  S1, S2 @ depth 0: terms (((1, S1, const), (-1, S2, const)), "=", 0)

`?` says nothing: the solver chooses.  An axis that stands for several iterators is a dimension for each of them where a
row moves along it alone, else a sum with their strides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Iterator as Iterator_
from dataclasses import dataclass
from itertools import pairwise

from engine.recipe import Entry, Value, entry
from engine.scheduling.published.dimensions import Vector
from engine.scheduling.published.match import Runs
from engine.scheduling.published.nodes import Coefficient, Free
from engine.scheduling.terms import CONST
from engine.tensor.nodes import Iterator

NamedRow = tuple[tuple[str, Coefficient], ...]
"""Coefficients by the names of iterators, `CONST` among them; open ones without a link are left out."""


@dataclass(frozen=True, slots=True)
class SolverRow:
    """One dimension of ours."""

    rows: Mapping[str, NamedRow]
    """Statement -> its coefficients."""
    parts: Mapping[int, int]
    """Elements of an inner part that ends here -> values of this dimension."""


def solver_rows(rows: Mapping[str, Vector], runs: Runs, parts: Sequence[int] = ()) -> tuple[SolverRow, ...]:
    """The dimensions of ours that one of the file becomes, outermost first.

    parts: elements that its inner parts count together; each is split off where it ends.
    """
    moved = {(k, c) for row in rows.values() for k, c in enumerate(row[:-1]) if isinstance(c, int) and c}
    axis, factor = moved.pop() if len(moved) == 1 else (None, 1)
    places = None
    if axis is not None and len(runs[axis]) > 1 and len({row[-1] for row in rows.values() if row[-1]}) < 2:
        places = _places(parts, runs[axis], abs(factor))
    if axis is None or places is None:
        return (SolverRow({s: _linear(row, runs) for s, row in rows.items()}, {part: part for part in parts}),)
    found = []
    for rank, owner in enumerate(runs[axis]):
        named = {s: _along(row, runs, axis, owner, owner is runs[axis][-1]) for s, row in rows.items()}
        found.append(SolverRow(named, {part: value for part, (at, value) in places.items() if at == rank}))
    return tuple(found)


def _places(parts: Sequence[int], run: Sequence[Iterator], factor: int) -> dict[int, tuple[int, int]] | None:
    """Part -> the iterator of a run where it ends, and how many of its row's values are in it; None where one ends
    inside a value."""
    found: dict[int, tuple[int, int]] = {}
    for part in parts:
        inner, rank = 1, len(run) - 1
        while rank and part >= factor * inner * run[rank].extent:
            inner *= run[rank].extent
            rank -= 1
        if part % inner:
            return None
        found[part] = rank, part // inner
    return found


def _along(row: Vector, runs: Runs, axis: int, owner: Iterator, is_last: bool) -> NamedRow:
    """The part of a row along `axis` that one of the axis's iterators counts."""
    pairs: list[tuple[str, Coefficient]] = []
    for k, coefficient in enumerate(row[:-1]):
        pairs += [(i.name, coefficient if k != axis or i is owner else 0) for i in runs[k]]
    return _fixed_or_linked((*pairs, *([(CONST, row[-1])] if is_last else [])))


def _linear(row: Vector, runs: Runs) -> NamedRow:
    """A row over the iterators that its axes stand for."""
    pairs: list[tuple[str, Coefficient]] = []
    for coefficient, run in zip(row[:-1], runs, strict=True):
        for k, iterator in enumerate(run):
            stride = math.prod(i.extent for i in run[k + 1 :])
            if isinstance(coefficient, int):
                pairs.append((iterator.name, coefficient * stride))
            elif stride == 1:
                pairs.append((iterator.name, coefficient))
    return _fixed_or_linked((*pairs, (CONST, row[-1])))


def _fixed_or_linked(pairs: Sequence[tuple[str, Coefficient]]) -> NamedRow:
    return tuple((name, c) for name, c in pairs if isinstance(c, int) or c.link is not None)


def open_row(row: Vector, runs: Runs, axis: int) -> NamedRow:
    """What is fixed of a row that is to move along `axis` though its coefficient there is open."""
    others = [(i.name, c) for k, c in enumerate(row[:-1]) if k != axis for i in runs[k]]
    return _fixed_or_linked((*others, (CONST, row[-1])))


def plain_name(rows: Iterable[NamedRow]) -> str:
    """The iterator that is the row of every statement; "" for other rows."""
    used = {tuple((name, c) for name, c in row if c != 0 and name != CONST) for row in rows}
    pair = used.pop() if len(used) == 1 else ()
    return pair[0][0] if len(pair) == 1 and pair[0][1] == 1 else ""


def entries_at(depth: int, rows: Mapping[str, NamedRow], because: str) -> Iterator_[Entry]:
    """The entries for one dimension.  rows: by the names of our statements.  Statements with the same row share one."""
    fixed = {s: tuple((name, c) for name, c in row if isinstance(c, int)) for s, row in rows.items()}
    for value in dict.fromkeys(fixed.values()):
        owners = tuple(s for s in rows if fixed[s] == value)
        if value:
            yield entry(*owners, terms=value, at=f"depth {depth}", because=because)
    linked: dict[int, list[tuple[str, str]]] = {}
    for statement, row in rows.items():
        for name, c in row:
            if isinstance(c, Free) and c.link is not None:
                linked.setdefault(c.link, []).append((statement, name))
    for link, places in linked.items():
        relations: list[Value] = [
            (((1, *first), (-1, *second)), "=", 0) for first, second in pairwise(dict.fromkeys(places))
        ]
        if relations:
            owners = tuple(dict.fromkeys(s for s, _ in places))
            equal = tuple(relations) if len(relations) > 1 else relations[0]
            yield entry(*owners, terms=equal, at=f"depth {depth}", because=f"{because}, ?{link} has one value")
