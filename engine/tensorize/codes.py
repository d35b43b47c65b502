"""Factors of a product that are computed from codes where they are loaded: which arrays a tile of one needs, and how.

    sum(k) x[i,k] * float16(code(w[k, j / 2], j % 2) * s[k / 32, j])

    a tile of 32 depths and 64 columns needs 32 x 32 bytes of w and 1 x 64 scales of s
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.graph.nodes import DTYPES
from engine.target.copies import COPY_BYTES
from engine.tensor.access import position
from engine.tensor.index import Index, Quotient
from engine.tensor.nodes import Access, Array, Iterator, Scalar, accesses
from engine.tensorize.space import Source, Walk


@dataclass(frozen=True, slots=True)
class SourceBox:
    """What a tile needs of a source, and the asynchronous copies that bring it."""

    source: Source
    shape: tuple[int, int]
    """Elements along the side and along the depth."""
    is_depth_inner: bool
    """Whether neighbours along the depth lie beside each other, as they do in memory."""
    width: int
    """Elements of one copy."""

    @property
    def row(self) -> int:
        """Elements that lie beside each other."""
        return self.shape[1] if self.is_depth_inner else self.shape[0]

    @property
    def chunks(self) -> int:
        """Copies of all threads."""
        return math.prod(self.shape) // self.width

    @property
    def bytes(self) -> int:
        """Of one stage."""
        return math.prod(self.shape) * self.source.element_bytes

    def place(self, side: Index, depth: Index) -> Index:
        """Of the element of a row or column and a depth, which count from the start of the box."""
        outer, inner = (side, depth) if self.is_depth_inner else (depth, side)
        return outer * self.row + inner


def sources_of(
    factor: Scalar, arrays: Mapping[str, Array], side: Iterator, depth: Iterator
) -> dict[Access, Source] | str:
    """What a factor of codes is computed from, each element once; or why no tile of it can be copied.

    side, depth: the only iterators that may move it.  What nothing moves is read by every thread and is no source.
    """
    found: dict[Access, Source] = {}
    for access in accesses(factor):
        if access.guards or any(index.is_indirect for index in access.indices):
            return f"{access} is read under a guard or looked up"
        where = position(access, arrays)
        if not where.terms:
            continue
        walks = _walks(where, side, depth)
        if walks is None:
            return f"{access} does not lie in even steps along {side.name} and {depth.name}"
        found[access] = Source(access.array, DTYPES[arrays[access.array].dtype], walks)
    return found


def _walks(where: Index, *iterators: Iterator) -> tuple[Walk, Walk] | None:
    """The walks along two iterators of a position that is a sum of steps along each; None for any other."""
    steps: dict[str, tuple[int, int]] = {}
    for atom, coefficient in where.terms:
        base, by = (atom.of, atom.by) if isinstance(atom, Quotient) else (Index.of(atom), 1)
        name = next(iter(base.iterators()), "")
        is_plain = base == Index.of(name) and coefficient > 0 and by & (by - 1) == 0
        if not is_plain or name in steps:
            return None
        steps[name] = coefficient, by
    if where.constant or not steps.keys() <= {i.name for i in iterators}:
        return None
    first, second = (_walk(steps.get(i.name), i.extent) for i in iterators)
    return first, second


def _walk(step: tuple[int, int] | None, extent: int) -> Walk:
    return Walk(0, 1, 1) if step is None else Walk(step[0], step[1], -(-extent // step[1]))


def box_of(source: Source, tile: tuple[int, int]) -> SourceBox | str:
    """The widest asynchronous copies of what a tile needs of a source; or why there are none.

    tile: rows or columns, and depths: powers of two.
    """
    shape = source.walks[0].of_tile(tile[0]), source.walks[1].of_tile(tile[1])
    widths = [size // source.element_bytes for size in COPY_BYTES if size >= source.element_bytes]
    for width in widths:
        for inner in (0, 1):
            along, across = source.walks[inner], source.walks[1 - inner]
            is_whole = shape[inner] % width == 0 and along.size % width == 0 and across.step % width == 0
            if is_whole and (width == 1 or (along.step == 1 and along.shared <= tile[inner])):
                return SourceBox(source, shape, inner == 1, width)
    bytes_ = source.element_bytes
    return f"{shape[0]} x {shape[1]} elements of {bytes_} bytes of {source.array} are no whole copies"
