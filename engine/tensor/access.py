"""Memory access analysis: positions, strides, contiguity and vector widths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from engine.graph.nodes import DTYPES
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.index import Extents, Index, linear
from engine.tensor.live_values import lanes_alive
from engine.tensor.nodes import Access, Array, Statement, TensorProgram
from engine.tensor.rewrite import indices_of, looked_up

NEAR, SHORT = (1, 2), 128
"""Strides between results at which neighbouring threads share cache lines, and the longest reduction that one thread
does alone."""
_VECTOR, _LANE = "vector number", "vector lane"


def position(access: Access, arrays: Mapping[str, Array]) -> Index:
    """Row-major position of an access in its array, over the statement's iterators."""
    return linear(access.indices, arrays[access.array].shape)


def contiguous_along(where: Index, run: Sequence[str], width: int, extents: Mapping[str, int]) -> bool:
    """Whether `width` neighbouring points of a run, starting at a multiple of `width`, are one aligned vector access.

    where: a row-major position over iterators with `extents`.  run: iterators walked as one, outermost first; the last
    one moves fastest.
    """
    if width == 1:
        return True
    # Lanes walk the last iterator, one of one point aside: neighbours lie as far apart as its points do.
    if run and extents[run[-1]] > 1 and stride(where, run[-1]) not in (1, None):
        return False
    split = _in_lanes(where, run, width, extents)
    if split is None or split.coefficient(_LANE) != 1 or split.constant % width:
        return False
    return all(a == _LANE or (c % width == 0 and _LANE not in Index.of(a).iterators()) for a, c in split.terms)


def uniform_along(condition: Index, run: Sequence[str], width: int, extents: Mapping[str, int]) -> bool:
    """Whether `condition >= 0` has one value for all lanes of an aligned vector, so that no lane needs a mask.

        j - 8 >= 0 and 63 - j >= 0   do for vectors of 4 along j;   j - 3 >= 0   does not
    """
    split = _in_lanes(condition, run, width, extents)
    if split is None:
        return False
    slope = split.coefficient(_LANE)
    rest = split + Index.of(_LANE) * -slope
    if _LANE in rest.iterators() or slope not in (-1, 0, 1):
        return False
    return slope == 0 or (all(c % width == 0 for _, c in rest.terms) and (rest.constant + (slope == -1)) % width == 0)


def _in_lanes(where: Index, run: Sequence[str], width: int, extents: Mapping[str, int]) -> Index | None:
    """An index rewritten for a vectorized run, point = vector * width + lane; None if `width` does not divide the
    run."""
    sizes = [extents[name] for name in run]
    if math.prod(sizes) % width:
        return None
    inner = {**extents, _VECTOR: math.prod(sizes) // width, _LANE: width}
    point = Index.of(_VECTOR) * width + Index.of(_LANE)
    return where.substitute(dict(zip(run, delinearize_nested(point, sizes, inner), strict=True)), inner)


def delinearize_nested(point: Index, sizes: Sequence[int], extents: Extents) -> tuple[Index, ...]:
    """The indices of a row-major point with nested divisions, which `linear` merges again."""
    found: list[Index] = []
    for size in reversed(sizes[1:]):
        found.append(point.mod(size, extents))
        point = point.floordiv(size, extents)
    return (point, *reversed(found)) if sizes else ()


def stride(where: Index, iterator: str) -> int | None:
    """Elements between neighbours along `iterator`; None where the distance is not the same everywhere."""
    if any(iterator in Index.of(a).iterators() for a, _ in where.terms if not isinstance(a, str)):
        return None
    return where.coefficient(iterator)


def reads_beside(statement: Statement, arrays: Mapping[str, Array]) -> bool:
    """Whether neighbouring results of a short reduction read neighbouring elements, as in a sliding window.

    A thread for each result then reads as well as threads that share one, and none of them is idle.
    """
    if not statement.parallel or math.prod(i.extent for i in statement.reduced) > SHORT:
        return False
    beside = statement.parallel[-1].name
    steps = {stride(position(access, arrays), beside) for access in statement.reads()}
    return steps <= {0, *NEAR} and not steps.isdisjoint(NEAR)


def vector_limit(statements: Sequence[Statement], program: TensorProgram, runs: Mapping[str, Sequence[str]]) -> int:
    """The largest power of two that `statements` allow as vector width, 1 when no access is contiguous.

    runs: statement -> its iterators that the vector runs along, outermost first; more than one where vectors go over
    the ends of rows.  Accesses that do not move with them do not count, nor those of arrays inside the `program`.  A
    width is allowed when it divides the run, no index is looked up along it (each lane would have its own), no guard
    changes inside a vector, the widest element type stays within `VECTOR_BYTES`, at least one access is an aligned
    vector, and registers have room for what its lanes hold at once.
    """
    arrays, outside = program.arrays, {*program.inputs, *program.outputs}
    moving: list[tuple[Access, Statement, Sequence[str]]] = []
    for statement in statements:
        run = runs.get(statement.name, ())
        # Each lane would have its own address.
        if _looks_up(statement, run):
            return 1
        for access in (*statement.reads(), statement.write):
            if access.array in outside and _moves(access, run):
                moving.append((access, statement, run))
    if not moving:
        return 1
    width = VECTOR_BYTES // max(DTYPES[arrays[a.array].dtype] for a, _, _ in moving)
    while width > 1 and not _is_allowed(width, moving, arrays):
        width //= 2
    loaded = len({access for access, statement, _ in moving if access is not statement.write})
    return lanes_alive(statements, loaded, width)


def _is_allowed(
    width: int, moving: Iterable[tuple[Access, Statement, Sequence[str]]], arrays: Mapping[str, Array]
) -> bool:
    """Whether a width divides the runs, no guard changes inside a vector, and some access is a vector."""
    wide = False
    for access, statement, run in moving:
        extents = statement.extents
        if math.prod(extents[name] for name in run) % width:
            return False
        if not all(uniform_along(g.index, run, width, extents) for g in (*access.guards, *statement.guards)):
            return False
        # One aligned vector is enough to pay: other accesses are loaded lane by lane.
        wide = wide or contiguous_along(position(access, arrays), run, width, extents)
    return wide


def _moves(access: Access, run: Sequence[str]) -> bool:
    moved = {n for i in (*access.indices, *(g.index for g in access.guards)) for n in i.iterators()}
    return not moved.isdisjoint(run)


def _looks_up(statement: Statement, run: Sequence[str]) -> bool:
    """Whether a statement has an indirect index that varies along a run."""
    if not looked_up(statement):
        return False
    elements = [element for index in indices_of(statement) for element in index.elements()]
    return any(not set(index.iterators()).isdisjoint(run) for element in elements for index in element.indices)
