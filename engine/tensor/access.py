"""How accesses move through memory: positions, contiguity, vector widths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.graph.nodes import DTYPES
from engine.tensor.index import Index, linear
from engine.tensor.nodes import Access, Array, Statement

VECTOR_BYTES = 16
"""The widest load or store of one thread."""


def position(access: Access, arrays: Mapping[str, Array]) -> Index:
    """Row-major position of an access in its array, over the statement's iterators."""
    return linear(access.indices, arrays[access.array].shape)


def contiguous_along(where: Index, iterator: str, width: int, extents: Mapping[str, int]) -> bool:
    """Whether `width` neighbouring values of `iterator`, from a multiple of `width` on, are an aligned vector.

    where: a row-major position over iterators with `extents`.
    """
    if width == 1:
        return True
    if extents[iterator] % width:
        return False
    lane = "vector lane"
    inner = {**extents, iterator: extents[iterator] // width, lane: width}
    split = where.substitute({iterator: Index.of(iterator) * width + Index.of(lane)}, inner)
    if split.coefficient(lane) != 1 or split.constant % width:
        return False
    return all(a == lane or (c % width == 0 and lane not in Index.of(a).iterators()) for a, c in split.terms)


def stride(where: Index, iterator: str) -> int | None:
    """Elements between neighbours along `iterator`; None where the distance is not the same everywhere."""
    if any(iterator in Index.of(a).iterators() for a, _ in where.terms if not isinstance(a, str)):
        return None
    return where.coefficient(iterator)


def vector_limit(statements: Iterable[Statement], arrays: Mapping[str, Array], iterators: Mapping[str, str]) -> int:
    """The largest power of two that the accesses of `statements` allow as vector width, 1 when none is contiguous.

    iterators: statement -> its iterator that the vector runs along.  Accesses that do not move with it do not count.
    A width is allowed when it divides the extent, no read is indirect or guarded along it, the widest element type
    stays within `VECTOR_BYTES`, and at least one access is an aligned vector.
    """
    moving: list[tuple[Access, Statement, str]] = []
    for statement in statements:
        name = iterators.get(statement.name)
        if name is None:
            continue
        for access in (*statement.reads(), statement.write):
            if access.array in arrays and _moves(access, name):
                if _irregular(access, name):
                    return 1
                moving.append((access, statement, name))
    if not moving:
        return 1
    width = VECTOR_BYTES // max(DTYPES[arrays[a.array].dtype] for a, _, _ in moving)
    extents = [s.extents[n] for _, s, n in moving]
    while width > 1 and any(extent % width for extent in extents):
        width //= 2
    while width > 1 and not any(
        contiguous_along(position(a, arrays), n, width, s.extents) for a, s, n in moving
    ):
        width //= 2
    return width


def _moves(access: Access, iterator: str) -> bool:
    return any(iterator in i.iterators() for i in (*access.indices, *(g.index for g in access.guards)))


def _irregular(access: Access, iterator: str) -> bool:
    inner = [index for i in access.indices for element in i.elements() for index in element.indices]
    indirect = any(iterator in index.iterators() for index in inner)
    return indirect or any(iterator in g.index.iterators() for g in access.guards)


def contiguous_iterator(access: Access, arrays: Mapping[str, Array], among: Sequence[str]) -> str | None:
    """The iterator of `among` whose neighbours are neighbours in memory, or None."""
    where = position(access, arrays)
    return next((n for n in among if stride(where, n) == 1), None)

