"""Split loops so that producer and consumer iterate the same axes: after a reshape, in a group norm, over slices.

    channels of a group norm    s[g] = sum(k) x[..];  y[c, j] = x[c, j] - s[c / 8]    ->    y[8 * c' + c", j] = .. s[c']
    gates of a recurrent cell   z[j] = ..;  y[u] = z[u] * z[u + 512]                  ->    z[512 * j' + j"] = ..
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.tensor.index import Index, Quotient
from engine.tensor.nodes import Iterator, Statement
from engine.tensor.rewrite import plain_iterator, rewrite_loops

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
                cut, theirs = quotient(index), plain_iterator(written)
                if cut is not None and statement.extents[cut[0]] % cut[1] == 0:
                    splits.setdefault((statement.name, cut[0]), cut[1])
                by = _inner(index, statement.extents)
                if writer and theirs and 1 < by < writer.extents[theirs] and writer.extents[theirs] % by == 0:
                    splits.setdefault((writer.name, theirs), by)
    by_name = {s.name: s for s in statements}
    waiting = list(splits)
    while waiting:
        name, iterator = waiting.pop()
        for other, theirs in _partners(by_name[name], iterator, statements, made):
            if (other.name, theirs) not in splits and other.extents[theirs] == by_name[name].extents[iterator]:
                splits[other.name, theirs] = splits[name, iterator]
                waiting.append((other.name, theirs))
    return splits


def quotient(index: Index) -> tuple[str, int] | None:
    """(iterator, divisor) of an index that is one iterator divided."""
    match index.terms:
        case ((Quotient(of, by), 1),) if not index.constant:
            name = plain_iterator(of)
            return (name, by) if name else None
        case _:
            return None


def _inner(index: Index, extents: Mapping[str, int]) -> int:
    """Points of the inner loop that an index asks its maker for: 8 of 8 * g + c, n of n + u with u < n; or 1."""
    found = digits(index, extents)
    match index.terms:
        case ((str() as name, 1),):
            return extents[name] if name in found else 1  # one of several slices of equal length
        case _:  # a part that is no loop yet, as c % 8, is cut first: what is inside it follows
            largest = max((by for _, by in index.terms), default=1)
            return largest if largest in found.values() else 1


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
    loops = {i.name: [i] for i in statement.iterators}
    for name, by in mine.items():
        loops[name] = [Iterator(outer_of(name), statement.extents[name] // by), Iterator(inner_of(name), by)]
    reduced = [loop.name for i in statement.reduced for loop in loops[i.name]]
    return rewrite_loops(statement, [loop for pair in loops.values() for loop in pair], values, reduced)


def outer_of(iterator: str) -> str:
    """The name of the outer of the two loops that an iterator becomes."""
    return f"{iterator}.outer"


def inner_of(iterator: str) -> str:
    """The name of the inner of the two loops that an iterator becomes."""
    return f"{iterator}.inner"


def digits(index: Index, extents: Mapping[str, int]) -> dict[str, int]:
    """Iterators that an index is written with like a number with digits: each with the value of its place.

    iterator = index // place % extent at every point:  512 * g + u + 1024 with g < 2, u < 512 has {g: 512, u: 1}.
    """
    name = plain_iterator(index)
    if name is not None:
        return {name: 1}
    found = ((atom, place) for atom, place in index.terms if isinstance(atom, str) and place > 0)
    return {name: place for name, place in found if _is_digit(name, place, index, extents)}


def _is_digit(name: str, place: int, index: Index, extents: Mapping[str, int]) -> bool:
    """Whether what else an index has is a multiple of the next place, and something less than this one."""
    following = place * extents[name]
    others = [(atom, c) for atom, c in index.terms if atom != name]
    if any(name in Index.of(atom).iterators() for atom, _ in others):
        return False
    below = Index.sum(((atom, c) for atom, c in others if c % following), index.constant % following)
    low, high = below.bounds(extents)
    return low >= 0 and high < place
