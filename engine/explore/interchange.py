"""An interchange of loops as entries: which pins ask for dimensions in another order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.recipe import Entry
from engine.scheduling.address import TreePosition
from engine.scheduling.nodes import Member
from engine.tensor.rewrite import plain_iterator


def neighbours(places: dict[str, TreePosition]) -> Iterator[tuple[str, str]]:
    """(outer, inner) of dimensions one directly inside the other, each pair once."""
    pairs = (
        (a.name, b.name) for place in places.values() for a, b in zip(place.members, place.members[1:], strict=False)
    )
    yield from dict.fromkeys(pairs)


def pins(places: dict[str, TreePosition], order: Sequence[str], required: bool = False) -> tuple[Entry, ...]:
    """Entries that put the dimensions of `order` in this order, everything outside them as it is.

    One edit for every statement that has at least two of them: statements with the same iterators share an entry.
    A statement whose rows are sums of iterators is left out.
    """
    wanted: dict[tuple[str, str], list[str]] = {}
    for statement, place in places.items():
        for address, iterator in _steps(statement, place.members, order):
            wanted.setdefault((address, iterator), []).append(statement)
    return tuple(
        Entry(tuple(statements), address, "pin", (iterator,), required=required)
        for (address, iterator), statements in wanted.items()
    )


def _steps(statement: str, members: Sequence[Member], order: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(address, iterator or tile) for each dimension of a statement from the first that moves to the last."""
    iterators = {m.name: m.name if m.tiling else plain_iterator(m.rows[statement]) for m in members}
    if None in iterators.values():
        return
    now = [m.name for m in members]
    asked = iter([name for name in order if name in iterators])
    then = [next(asked) if name in order else name for name in now]
    moved = [k for k, (a, b) in enumerate(zip(now, then, strict=True)) if a != b]
    if not moved:
        return
    for k in range(moved[0], moved[-1] + 1):
        yield (f"after {iterators[then[k - 1]]}" if k else "outermost"), iterators[then[k]] or ""
