"""Split loops of a product and its epilogue where one has an axis as a single loop and the other as two.

    y[24 * g + m] = sum(c) x[20 * g + c] * w[24 * g + m, c];  z[j] = max(y[j], 0)    ->    z[24 * j' + j"] = ..
    y[r, n] = sum(k) x[r, k] * w[k, n];  z[b, i, n] = y[128 * b + i, n] + c[n]       ->    y[128 * r' + r", n] = ..
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.fusion.axis_splitting import digits, quotient
from engine.fusion.row_epilogue import row_reductions
from engine.tensor.index import Index
from engine.tensor.nodes import Statement
from engine.tensor.rewrite import plain_iterator

WIDE = 32
"""Points of an inner loop that tiles of a product can go along."""


def group_splits(
    statements: Sequence[Statement], anchor: Statement, kept: Collection[str]
) -> dict[tuple[str, str], int]:
    """(statement, iterator) -> points of the inner loop, for all that walk an axis of `anchor` which one has in two.

    kept: arrays needed outside.  A result that is read there reads best as one array, by a kernel of all its readers.
    Where rows of results are reduced, what is made of them may be read in any pieces: no tile goes along them.
    """
    made = {s.write.array for s in statements}
    cut: dict[tuple[str, int], int] = {}
    splits: dict[tuple[str, str], int] = {}
    has_rows, own = bool(row_reductions(statements, anchor)), anchor.write.array
    results = made if has_rows else {own} - set(kept)
    read = [(s, a) for s in statements for a in s.reads() if a.array in results and s is not anchor]
    for statement, access in [(anchor, anchor.write), *read]:
        for axis, index in enumerate(access.indices):
            places = sorted(digits(index, statement.extents).values())
            if len(places) == 2 and (statement is anchor or has_rows or places[1] >= WIDE):
                cut.setdefault((access.array, axis), places[1])
            divided = quotient(index) if has_rows and statement is not anchor else None
            if divided is not None and statement.extents[divided[0]] % divided[1] == 0:
                splits.setdefault((statement.name, divided[0]), divided[1])
    walked = [
        (s, a.array, axis, name)
        for s in statements
        for a in (s.write, *s.reads())
        for axis, index in enumerate(a.indices)
        if a.array in made and (name := plain_iterator(index)) is not None
    ]
    known = -1
    while (cut or splits) and known < len(cut) + len(splits):
        known = len(cut) + len(splits)
        for statement, array, axis, name in walked:
            by = cut.get((array, axis)) or splits.get((statement.name, name))
            if by and statement.extents[name] % by == 0:
                cut[array, axis] = splits[statement.name, name] = by
    return splits


def iterator_pairs(written: Index, read: Index, writer: Statement, reader: Statement) -> list[tuple[str, str]] | None:
    """(writer's iterator, reader's) of every digit of an index that both write alike; None where they do not."""
    plain = plain_iterator(written), plain_iterator(read)
    if plain[0] is not None and plain[1] is not None:
        return [(plain[0], plain[1])]
    theirs, mine = digits(written, writer.extents), digits(read, reader.extents)
    whole = theirs.keys() == set(written.iterators()) and mine.keys() == set(read.iterators())
    if not whole or sorted(theirs.values()) != sorted(mine.values()) or written.constant != read.constant:
        return None
    at = {place: name for name, place in mine.items()}
    return [(name, at[place]) for name, place in theirs.items()]
