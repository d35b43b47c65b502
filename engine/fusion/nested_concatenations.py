"""Concatenations that another one takes as a whole: the parts are written where they end up, and copied no more.

    a[i, k, j] = e[i, j] for each k;  y[i, l] = a[i, l / 16, l % 16]     ->     y[i, 16 k + j] = e[i, j] for each k
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from engine.fusion.operator_folding import Folded
from engine.tensor.index import Index, delinearize, linear
from engine.tensor.nodes import Access, Array, Statement, TensorProgram, several_writers
from engine.tensor.rewrite import rewrite_access


def write_parts_in_place(folded: Folded) -> Folded:
    """The program without arrays that are written in parts and then only copied: their parts are the copy's."""
    program, absorbed = folded.program, dict(folded.absorbed)
    copies = _copies(program)
    if not copies:
        return folded
    made = {s.name: s for s in program.statements}
    for copy, parts in copies:
        moved = [_part_of_copy(made[part.name], made[copy.name], program.arrays) for part in parts]
        kept = [part for part in moved if part is not None]
        if len(kept) < len(moved):
            continue
        del made[copy.name]
        for part in kept:
            made[part.name] = part
            taken = (*absorbed.get(part.name, ()), *absorbed.get(copy.name, ()), copy.operator)
            absorbed[part.name] = tuple(dict.fromkeys(taken))
    if len(made) == len(program.statements):
        return folded
    return replace(folded, program=program.restrict(tuple(made.values()), program.outputs), absorbed=absorbed)


def _copies(program: TensorProgram) -> list[tuple[Statement, list[Statement]]]:
    """Statements that alone read an array and copy all of it, with its several writers; later ones first."""
    writers = several_writers(program.statements)
    if not writers:
        return []  # as in most graphs
    readers = Counter(array for s in program.statements for array in set(s.sources))
    outside = {*program.inputs, *program.outputs}
    found = []
    for copy in reversed(program.statements):
        source = copy.expression
        if not isinstance(source, Access) or source.guards or copy.guards or copy.reduction:
            continue
        array, target = program.arrays[source.array], program.arrays[copy.write.array]
        is_alone = readers[array.name] == 1 and array.name not in outside and target.name not in program.inputs
        if is_alone and copy.points == array.elements and array.dtype == target.dtype and array.name in writers:
            found.append((copy, writers[array.name]))
    return found


def _part_of_copy(part: Statement, copy: Statement, arrays: Mapping[str, Array]) -> Statement | None:
    """A part that is written where the copy puts it; None where that is not one element for each of its points."""
    assert isinstance(copy.expression, Access)
    if part.guards or part.covers:
        return None
    shape, own = tuple(i.extent for i in copy.iterators), tuple(Index.of(i.name) for i in copy.iterators)
    if linear(copy.expression.indices, arrays[copy.expression.array].shape) != linear(own, shape):
        return None  # it does not copy the elements in their order
    place = linear(part.write.indices, arrays[part.write.array].shape)
    values = dict(zip(copy.extents, delinearize(place, shape, part.extents), strict=True))
    write = rewrite_access(copy.write, values, lambda inner: inner, part.extents)
    return replace(part, write=write) if all(index.is_affine for index in write.indices) else None
