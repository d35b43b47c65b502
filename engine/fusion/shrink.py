"""The same group at a smaller size, with the same ragged edges.

An axis that every access uses plainly (one iterator, the whole axis) can be cut: the group then computes a slice of its
old result from slices of its old inputs, so the reference values stay valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from engine.fusion.nodes import FusionGroup
from engine.tensor.index import Element, Index
from engine.tensor.nodes import Access, Iterator, Statement, TensorProgram
from engine.tensor.rewrite import plain_iterator

RAGGED, UNIT = 128, 32
"""Axes are cut to what does not fill a block tile of the largest size, plus the smallest tile; shorter ones to 1."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A smaller group and how to cut the arrays of the old one."""

    group: FusionGroup
    cuts: Mapping[str, tuple[int, ...]]
    """Array -> its new shape: the leading elements along each axis."""

    def slice(self, array: str, value: np.ndarray) -> np.ndarray:
        """The part of an array's value that the smaller group works on."""
        return np.ascontiguousarray(value[tuple(slice(0, n) for n in self.cuts[array])])


def shrink(group: FusionGroup, points: int, *, no_further: bool = False) -> Shrunk | None:
    """Cut parallel axes, outermost first, until the widest statement has at most `points` points, about.

    no_further: leave the last axis as long as `points` allow, in place of as short as its ragged edge.
    None where no axis can be cut.
    """
    program = group.program
    widest = max(program.statements, key=lambda s: s.points)
    sizes: dict[str, int] = {}
    work = widest.points
    for iterator in widest.parallel:
        if work <= points:
            break
        extent = iterator.extent
        smaller = _longest(extent, work / points) if no_further else _shortest(extent)
        if smaller < extent and _is_plain(program, iterator.name):
            sizes[iterator.name] = smaller
            work = work // extent * smaller
    return _cut(group, sizes) if sizes else None


def _shortest(extent: int) -> int:
    """A length with the ragged edge of a longer axis."""
    return extent % RAGGED + UNIT if extent > UNIT else 1


def _longest(extent: int, times: float) -> int:
    """A `times` smaller length, about, with the same ragged edge."""
    smaller = max(1, int(extent / times))
    return smaller // RAGGED * RAGGED + (extent % RAGGED or RAGGED) if extent > RAGGED else smaller


def _is_plain(program: TensorProgram, name: str) -> bool:
    """Whether the iterator only ever stands alone, on axes of its own extent."""
    extent = {s.extents[name] for s in program.statements if name in s.extents}
    accesses = [a for s in program.statements for a in (*s.reads(), s.write)]
    places = {(a.array, axis) for a in accesses for axis, i in enumerate(a.indices) if plain_iterator(i) == name}
    for access in accesses:
        for axis, (index, size) in enumerate(zip(access.indices, program.arrays[access.array].shape, strict=True)):
            if plain_iterator(index) == name:
                if {size} != extent:
                    return False
            # An axis that something else walks too (rows against rows of one array) has to stay whole.
            elif (access.array, axis) in places or (name in index.iterators() and not _alone(index, name)):
                return False
    guarded: list[Statement | Access] = [*program.statements, *accesses]
    is_guarded = any(name in guard.index.iterators() for one in guarded for guard in one.guards)
    is_reduced = any(i.name == name for s in program.statements for i in s.reduced)
    return len(extent) == 1 and not is_guarded and not is_reduced


def _alone(index: Index, name: str) -> bool:
    """`name` itself, or an element looked up at plain positions."""
    if plain_iterator(index) == name:
        return True
    return all(
        isinstance(atom, Element) and all(_alone(i, name) for i in atom.indices if name in i.iterators())
        for atom, _ in index.terms
        if name in Index.of(atom).iterators()
    )


def _cut(group: FusionGroup, sizes: Mapping[str, int]) -> Shrunk:
    program = group.program
    shapes = {name: list(array.shape) for name, array in program.arrays.items()}
    for access in (a for s in program.statements for a in (*s.reads(), s.write)):
        for axis, index in enumerate(access.indices):
            name = plain_iterator(index)
            if name is not None and name in sizes:
                shapes[access.array][axis] = sizes[name]
    arrays = {name: replace(array, shape=tuple(shapes[name])) for name, array in program.arrays.items()}
    statements = tuple(
        replace(s, iterators=tuple(Iterator(i.name, sizes.get(i.name, i.extent)) for i in s.iterators))
        for s in program.statements
    )
    smaller = replace(program, arrays=arrays, statements=statements)
    cuts = {name: array.shape for name, array in arrays.items()}
    return Shrunk(replace(group, program=smaller, instances=group.instances[:1]), cuts)
