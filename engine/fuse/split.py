"""Loops cut in two where a statement reads what was made for groups of its points: channels of a group norm.

    s[g] = sum(k) x[..];  y[c, j] = x[c, j] - s[c / 8]     ->     y[8 * c' + c", j] = x[..] - s[c']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.tensor.index import Index, Quotient
from engine.tensor.nodes import Access, Guard, Iterator, Statement
from engine.tensor.rewrite import plain_iterator, rewrite_access, rewrite_index, rewrite_scalar

Splits = Mapping[tuple[str, str], int]
"""(statement, iterator) -> points of the inner of the two loops that it becomes."""


def wanted_splits(statements: Sequence[Statement]) -> dict[tuple[str, str], int]:
    """The loops to cut: those of a quotient that looks up an intermediate, and all loops over the same axis."""
    writers = {s.write.array: s for s in statements}
    made = set(writers)
    splits: dict[tuple[str, str], int] = {}
    for statement in statements:
        for access in statement.reads():
            writer = writers.get(access.array)
            for index, written in zip(access.indices, writer.write.indices, strict=True) if writer else ():
                cut, group, theirs = _quotient(index), lead(index, statement.extents), plain_iterator(written)
                if cut is not None and statement.extents[cut[0]] % cut[1] == 0:
                    splits.setdefault((statement.name, cut[0]), cut[1])
                if writer and theirs and group and group[1] > 1 and writer.extents[theirs] % group[1] == 0:
                    splits.setdefault((writer.name, theirs), group[1])
    by_name = {s.name: s for s in statements}
    waiting = list(splits)
    while waiting:
        name, iterator = waiting.pop()
        for other, theirs in _partners(by_name[name], iterator, statements, made):
            if (other.name, theirs) not in splits and other.extents[theirs] == by_name[name].extents[iterator]:
                splits[other.name, theirs] = splits[name, iterator]
                waiting.append((other.name, theirs))
    return splits


def _quotient(index: Index) -> tuple[str, int] | None:
    """(iterator, divisor) of an index that is one iterator divided."""
    match index.terms:
        case ((Quotient(of, by), 1),) if not index.constant:
            name = plain_iterator(of)
            return (name, by) if name else None
        case _:
            return None


def _partners(
    statement: Statement, iterator: str, statements: Sequence[Statement], made: set[str]
) -> list[tuple[Statement, str]]:
    """Iterators of other statements that index the same axis of an intermediate."""
    places = {
        (a.array, n)
        for a in (statement.write, *statement.reads())
        for n, i in enumerate(a.indices)
        if a.array in made and plain_iterator(i) == iterator
    }
    return [
        (other, name)
        for other in statements
        for a in (other.write, *other.reads())
        for n, i in enumerate(a.indices)
        if (a.array, n) in places and (name := plain_iterator(i)) is not None
    ]


def split(statement: Statement, splits: Splits) -> Statement:
    """The statement with some of its loops cut in two."""
    mine = {iterator: by for (name, iterator), by in splits.items() if name == statement.name}
    if not mine:
        return statement
    values = {n: Index.of(outer_of(n)) * by + Index.of(inner_of(n)) for n, by in mine.items()}
    iterators: list[Iterator] = []
    for iterator in statement.iterators:
        by = mine.get(iterator.name)
        if by is None:
            iterators.append(iterator)
        else:
            outer = Iterator(outer_of(iterator.name), iterator.extent // by)
            iterators += [outer, Iterator(inner_of(iterator.name), by)]
    extents = {i.name: i.extent for i in iterators}
    reduction = statement.reduction
    if reduction is not None:
        names = [(outer_of(n), inner_of(n)) if n in mine else (n,) for n in reduction.iterators]
        reduction = replace(reduction, iterators=tuple(name for pair in names for name in pair))
    return replace(
        statement,
        iterators=tuple(iterators),
        write=rewrite_access(statement.write, values, _same, extents),
        expression=rewrite_scalar(statement.expression, values, _same, extents),
        reduction=reduction,
        guards=tuple(Guard(rewrite_index(g.index, values, _same, extents)) for g in statement.guards),
    )


def outer_of(iterator: str) -> str:
    return f"{iterator}.outer"


def inner_of(iterator: str) -> str:
    return f"{iterator}.inner"


def lead(index: Index, extents: Mapping[str, int]) -> tuple[str, int] | None:
    """(iterator, factor) of an index that is one iterator, or `factor` times one and less than that: 8 * g + c'."""
    name = plain_iterator(index)
    if name is not None:
        return name, 1
    for atom, by in sorted(index.terms, key=lambda term: -term[1]):
        if isinstance(atom, str) and by > 1:
            low, high = (index - Index.of(atom) * by).bounds(extents)
            return (atom, by) if low >= 0 and high < by else None
    return None


def _same(access: Access) -> Access:
    return access
