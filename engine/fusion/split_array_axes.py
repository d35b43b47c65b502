"""Array axes that every access of a group walks with two digits become two axes.

    tokens x[16 * h + w, c] of x[256, c], read at 16 * (h + r) + w + s - 17 inside an image of 16 x 16
        ->    x[h, w, c] of x[16, 16, c], read at [h + r - 1, w + s - 1, c]

What slides, and what lies beside what, is plain then.  Memory stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.tensor.index import Index
from engine.tensor.nodes import Access, Array, Statement, TensorProgram
from engine.tensor.rewrite import plain_iterator, rewrite_reads

Cuts = dict[tuple[str, int], int]
"""(array, axis) -> points of the inner of the two axes that it becomes."""


def split_array_axes(program: TensorProgram) -> TensorProgram:
    """The program over arrays with more axes, where every index of an axis is an outer and an inner one."""
    cuts: Cuts = {}
    accesses = [(access, s) for s in program.statements for access in (*s.reads(), s.write)]
    looked_up = {element.array for access, _ in accesses for index in access.indices for element in index.elements()}
    for name, array in program.arrays.items():
        touched = [(access, statement) for access, statement in accesses if access.array == name]
        for axis in range(len(array.shape)) if name not in looked_up else ():
            by = _inner_points(array, axis, touched)
            if by:
                cuts[name, axis] = by
    if not cuts:
        return program
    arrays = {name: _split_array(array, cuts) for name, array in program.arrays.items()}
    return replace(program, arrays=arrays, statements=tuple(_split_accesses(s, cuts) for s in program.statements))


def _inner_points(array: Array, axis: int, touched: Sequence[tuple[Access, Statement]]) -> int:
    """Points of the inner axis that an axis falls into; 0 where it stays one."""
    found = {
        factor
        for access, _ in touched
        for _, factor in access.indices[axis].terms
        if 1 < factor < array.shape[axis] and array.shape[axis] % factor == 0
    }
    for by in sorted(found, reverse=True):
        pairs = [(_digits(access, statement, axis, by), statement) for access, statement in touched]
        if all(pair and _both_are_kept(pair, statement) for pair, statement in pairs):
            return by
    return 0


def _both_are_kept(pair: tuple[Index, Index], statement: Statement) -> bool:
    """Whether each digit moves with the results: terms of one result alone, as of 4 * i + r, stay beside each other."""
    kept = {i.name for i in statement.parallel}
    return all(kept.intersection(index.iterators()) for index in pair)


def _digits(access: Access, statement: Statement, axis: int, by: int) -> tuple[Index, Index] | None:
    """(outer, inner) index of an access along an axis, the inner one from 0 to below `by` wherever the access happens;
    None where there are no such."""
    index = access.indices[axis]
    if not index.is_affine or plain_iterator(index) is not None:
        return None
    outer = Index.sum((atom, c // by) for atom, c in index.terms if c % by == 0)
    inner = Index.sum((atom, c) for atom, c in index.terms if c % by)
    for rest in (index.constant % by, index.constant % by - by):
        own = inner + rest
        if _holds(own, access, statement) and _holds(Index((), by - 1) - own, access, statement):
            return outer + (index.constant - rest) // by, own
    return None


def _holds(index: Index, access: Access, statement: Statement) -> bool:
    """Whether an index is at least 0 wherever an access happens, by its bounds or by one of its guards."""
    if index.bounds(statement.extents)[0] >= 0:
        return True
    slack = (index - guard.index for guard in access.guards)
    return any(not rest.terms and rest.constant >= 0 for rest in slack)


def _split_array(array: Array, cuts: Cuts) -> Array:
    shape: list[int] = []
    for axis, extent in enumerate(array.shape):
        by = cuts.get((array.name, axis))
        shape += [extent // by, by] if by else [extent]
    return replace(array, shape=tuple(shape))


def _split_accesses(statement: Statement, cuts: Cuts) -> Statement:
    def split(access: Access) -> Access:
        return _split_access(access, statement, cuts)

    return replace(rewrite_reads(statement, split), write=split(statement.write))


def _split_access(access: Access, statement: Statement, cuts: Cuts) -> Access:
    indices: list[Index] = []
    for axis, index in enumerate(access.indices):
        by = cuts.get((access.array, axis))
        found = _digits(access, statement, axis, by) if by else None
        indices += found or (index,)
    return replace(access, indices=tuple(indices))
