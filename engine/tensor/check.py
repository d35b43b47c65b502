"""Invariants of a `TensorProgram`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from engine.tensor.index import Index
from engine.tensor.nodes import Access, Array, Statement, TensorProgram, writers_of


def check_program(program: TensorProgram) -> tuple[str, ...]:
    """Violated invariants in words; () for a sound program.

    Names are unique, every access has its array's rank and stays inside it for all points of the box, an array is
    covered by one statement or written in parts, and nothing is read before it is written or after it was replaced.
    """
    names = Counter(s.name for s in program.statements)
    found = [f"{count} statements are called {name}" for name, count in names.items() if count > 1]
    for statement in program.statements:
        found += [f"{statement.name}: {text}" for text in check_statement(program.arrays, statement)]
    return (*found, *check_writes(program.arrays, program.statements), *_order(program))


def check_statement(arrays: Mapping[str, Array], statement: Statement) -> Iterator[str]:
    """Violations within one statement: unknown arrays and iterators, ranks, bounds."""
    extents = statement.extents
    if len(extents) < len(statement.iterators):
        yield "two iterators have the same name"
    yield from (f"iterator {i.name} has extent {i.extent}" for i in statement.iterators if i.extent < 2)
    target = arrays.get(statement.write.array)
    is_empty = target is not None and target.elements == 0  # no point is computed, whatever the indices say
    for access in (statement.write, *statement.reads()):
        array = arrays.get(access.array)
        if array is None:
            yield f"{access.array} is no array of the program"
        elif len(array.shape) != len(access.indices):
            yield f"{access} has {len(access.indices)} indices for {array}"
        elif not is_empty:
            yield from _bounds(access, array, extents)
    if statement.reduction:
        for name in statement.reduction.iterators:
            if any(name in index.iterators() for index in statement.write.indices):
                yield f"the reduced iterator {name} indexes the written element"


def _bounds(access: Access, array: Array, extents: Mapping[str, int]) -> Iterator[str]:
    """Indices outside the array, unless a guard keeps them inside."""
    guards = {guard.index for guard in access.guards}
    for axis, (index, size) in enumerate(zip(access.indices, array.shape, strict=True)):
        unknown = [name for name in index.iterators() if name not in extents]
        if unknown:
            yield f"{access}: {unknown[0]} is no iterator of the statement"
            continue
        low, high = index.bounds(extents)
        low = max(low, 0) if index in guards else low
        high = min(high, size - 1) if _upper(index, size) in guards else high
        if low < 0 or high >= size:
            yield f"{access}: axis {axis} of {array} is read or written at {low} .. {high}"


def _upper(index: Index, size: int) -> Index:
    """The guard `index <= size - 1`."""
    return index * -1 + (size - 1)


def check_writes(arrays: Mapping[str, Array], statements: Iterable[Statement]) -> Iterator[str]:
    """Arrays written by more than one covering statement, or not wholly by one that claims to."""
    for name, group in writers_of(s for s in statements if s.write.array in arrays).items():
        points, elements = sum(math.prod(i.extent for i in s.parallel) for s in group), arrays[name].elements
        if not elements:
            continue
        if len(group) > 1 and any(s.covers for s in group):
            yield f"{name} is written by {', '.join(s.name for s in group)}"
        elif points != elements:
            yield f"{', '.join(s.name for s in group)} write {points} of the {elements} elements of {name}"


def _order(program: TensorProgram) -> Iterator[str]:
    """Reads of arrays without a value, reads of an input that was already replaced, outputs without a writer."""
    inputs, outputs = frozenset(program.inputs), frozenset(program.outputs)
    ready, replaced = set(inputs), set()
    last = {s.write.array: at for at, s in enumerate(program.statements)}
    for at, statement in enumerate(program.statements):
        for access in statement.reads():
            if access.array not in ready:
                yield f"{statement.name} reads {access.array} before it is written"
            elif access.array in replaced:
                yield f"{statement.name} reads {access.array} after its update"
        target = statement.write.array
        if target in inputs:
            replaced.add(target)
            if target not in outputs:
                yield f"{statement.name} writes {target}, which is an input and no output"
        elif last[target] == at:
            ready.add(target)
    yield from (f"output {name} is never written" for name in program.outputs if name not in ready)
