"""Concatenations of few operands become one element-wise statement, so that they fuse like one.

    y[i, j] = a[i, j];  y[i, j + 3] = b[i, j]     ->     y[i, j] = a[i, j] if j < 3 else b[i, j - 3]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.fusion.operator_folding import Folded
from engine.tensor.index import Index
from engine.tensor.nodes import (
    Access,
    Apply,
    Array,
    Guard,
    Iterator,
    Literal,
    Position,
    Scalar,
    Statement,
    several_writers,
)
from engine.tensor.rewrite import looked_up, rewrite_scalar

MOST_PARTS = 4
"""Operands up to which choosing one for every element costs less than another kernel."""


def join_concatenations(folded: Folded) -> Folded:
    """The program with arrays of few parts along one axis made by one statement, where an element-wise one reads
    them."""
    program = folded.program
    writers = several_writers(program.statements)
    few = {array: parts for array, parts in writers.items() if len(parts) <= MOST_PARTS}
    joinable = {array: parts for array, parts in few.items() if array not in program.inputs}
    if not joinable:
        return folded  # as in most graphs: what follows looks at every access
    read = {array for s in program.statements if s.reduction is None for array in s.sources}
    behind = lookups(program.statements)
    joined: dict[str, Statement] = {}
    for array, parts in joinable.items():
        if array not in read or any(source in behind for part in parts for source in part.sources):
            continue  # an index cannot be looked up under a condition
        whole = _whole(parts, program.arrays[array], program.arrays)
        if whole is not None:
            joined[parts[-1].name] = whole
    if not joined:
        return folded
    gone = {p.name for s in joined.values() for p in writers[s.write.array]}
    kept = (joined.get(s.name, s) for s in program.statements if s.name not in gone or s.name in joined)
    absorbed = dict(folded.absorbed)
    for name, whole in joined.items():
        taken = [op for part in writers[whole.write.array] for op in folded.absorbed.get(part.name, ())]
        absorbed[name] = tuple(dict.fromkeys(taken))
    return replace(folded, program=replace(program, statements=tuple(kept)), absorbed=absorbed)


def lookups(statements: Sequence[Statement]) -> frozenset[str]:
    """Arrays whose elements, computed in place, would look up an index in memory."""
    found: set[str] = set()
    for statement in statements:
        if statement.reduction is None and (looked_up(statement) or not found.isdisjoint(statement.sources)):
            found.add(statement.write.array)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Slice:
    """The elements first <= index < last along an axis, and what they are."""

    first: int
    last: int
    statement: Statement


def _whole(parts: Sequence[Statement], array: Array, arrays: Mapping[str, Array]) -> Statement | None:
    """One statement for all parts; None where they are not slices along one axis that fill the array."""
    axes = {axis for part in parts for axis, size in enumerate(array.shape) if _length(part, axis) != size}
    if len(axes) != 1:
        return None
    (axis,) = axes
    slices = [_slice(part, axis, array) for part in parts]
    found = sorted((s for s in slices if s is not None), key=lambda s: s.first)
    ends = [0, *(s.last for s in found)]
    if len(found) < len(parts) or [s.first for s in found] != ends[:-1] or ends[-1] != array.shape[axis]:
        return None
    names = [f"i{n}" for n in range(len(array.shape))]
    extents = {name: size for name, size in zip(names, array.shape, strict=True) if size > 1}
    indices = tuple(Index.of(name) if name in extents else Index((), 0) for name in names)
    value: Scalar | None = None
    for one in reversed(found):  # from the last slice inwards, so that each condition has an upper end alone
        mine = _shifted_value(one, axis, indices, extents, arrays)
        below = Apply("less", (Position(indices[axis], "int64"), Literal(one.last, "int64")), "bool")
        value = mine if value is None else Apply("select", (below, mine, value), array.dtype)
    assert value is not None
    iterators, write = tuple(Iterator(name, size) for name, size in extents.items()), Access(array.name, indices)
    return replace(parts[-1], iterators=iterators, write=write, expression=value, covers=True)


def _length(part: Statement, axis: int) -> int:
    """Elements along an axis that a part writes."""
    names = part.write.indices[axis].iterators()
    return part.extents[names[0]] if len(names) == 1 else 1 if not names else 0


def _slice(part: Statement, axis: int, array: Array) -> _Slice | None:
    """Where a part lies, if it is element-wise and moves along the axis by a constant alone."""
    if part.reduction is not None or part.guards or part.covers:
        return None
    for n, index in enumerate(part.write.indices):
        plain = all(isinstance(atom, str) and factor == 1 for atom, factor in index.terms) and len(index.terms) <= 1
        if not plain or (n != axis and index.constant):
            return None
    names = {name for index in part.write.indices for name in index.iterators()}
    if len(names) != len(part.iterators) or looked_up(part):
        return None
    first = part.write.indices[axis].constant
    return _Slice(first, first + _length(part, axis), part)


def _shifted_value(
    one: _Slice, axis: int, indices: Sequence[Index], extents: Mapping[str, int], arrays: Mapping[str, Array]
) -> Scalar:
    """The value of a part at the place of an element; outside the part nothing is read."""
    values = {
        name: indices[n] - (one.first if n == axis else 0)
        for n, written in enumerate(one.statement.write.indices)
        for name in written.iterators()
    }
    inside = [Guard(indices[axis] - one.first)] if one.first else []
    if one.last < extents[indices[axis].iterators()[0]]:
        inside.append(Guard(indices[axis] * -1 + (one.last - 1)))

    def read(access: Access) -> Scalar:
        otherwise = access.otherwise or Literal(0, arrays[access.array].dtype)
        return replace(access, guards=(*access.guards, *inside), otherwise=otherwise)

    return rewrite_scalar(one.statement.expression, values, read, extents)
