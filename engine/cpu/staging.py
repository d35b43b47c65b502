"""A copy of a product's columns or rows that tiles read in place: windows of an image with its edges filled up.

    x[l, j + m - 1, k + n - 1]             ->   staged[l][j + m][k + n]     of shape [L][J + 2][K + 2]
    x[l, 2 * j + m, k]                     ->   staged[m % 2][l][j + m / 2][k]       one part for each phase of a stride
    x[l, 2 * j, k]                         ->   staged[l][j][k]                      what no window reads is left out

Columns are then neighbours along the whole plane, rows of the image with what lies beside them included: those between
two rows of the image are computed, too, and left out.  Each word of a depth is found at an offset that is the same for
all columns, so nothing is packed for each of a window's elements.  Rows of a product are read one by one: they need no
neighbours, so strides have no phases, neighbours of the depth stay neighbours, and nothing between two rows of an image
is computed (see `row_places`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.tensor.index import Index, linear
from engine.tensor.nodes import Access, Array, Iterator, Scalar, accesses

MOST_BYTES = 64 << 20
"""Of a staged copy."""


@dataclass(frozen=True, slots=True)
class StagedAxis:
    """One axis of the array that is copied."""

    loop: Iterator | None
    """The loop of the staged side that moves along it."""
    phases: int
    """Parts of the copy along it."""
    step: int
    """Elements of the array from one staged element to the next."""
    move: int
    """Staged elements that the loop moves at a time."""
    low: int
    """The first element that is read; below 0 for one beyond the edge."""
    size: int
    """Staged elements, of each phase."""
    inner: Index
    """What else moves along it: loops of the depth, or of batches."""
    word: int = 0
    """Elements between the neighbouring depths of a word, where they lie along this axis."""
    words: int = 1
    """Elements of this axis that one word holds side by side, where these are all that it is indexed by."""


@dataclass(frozen=True, slots=True)
class StagedSide:
    """How columns or rows are staged."""

    access: Access
    axes: tuple[StagedAxis, ...]
    loops: tuple[Iterator, ...]
    """The side's loops with the extents that they have in the staged copy, and in `real` their own."""
    real: tuple[Iterator, ...]

    @property
    def phases(self) -> tuple[int, ...]:
        """Of the axes that have several."""
        return tuple(axis.phases for axis in self.axes if axis.phases > 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Phases first, then the axes."""
        return (*self.phases, *(axis.size for axis in self.ordered))

    @property
    def ordered(self) -> tuple[StagedAxis, ...]:
        """The axes as they lie in memory: those with a loop last, unless neighbours in the array are of the depth."""
        if self.axes[-1].loop is None:
            return self.axes
        names = [loop.name for loop in self.loops]
        alone = [axis for axis in self.axes if axis.loop is None]
        moved = [axis for axis in self.axes if axis.loop is not None]
        return (*alone, *sorted(moved, key=lambda axis: names.index(axis.loop.name if axis.loop else "")))

    @property
    def words(self) -> int:
        """Of the copy."""
        return math.prod(self.shape)

    @property
    def count(self) -> int:
        """Columns in the staged copy, those between rows of the image included."""
        return math.prod(i.extent for i in self.loops) - (self.loops[-1].extent - self.real[-1].extent)

    def position(self, extents: Mapping[str, int]) -> Index:
        """Where a word lies, over loops of the side, batches and the depth's loops.  extents: of the last two."""
        phases: list[Index] = []
        places: dict[int, Index] = {}
        for axis in self.axes:
            inside = axis.inner + -axis.low
            if axis.words > 1:
                inside = inside.floordiv(axis.words, extents)
            if axis.phases > 1:
                phases.append(inside.mod(axis.phases, extents))
                inside = inside.floordiv(axis.phases, extents)
            own = Index.of(axis.loop.name) * axis.move if axis.loop else Index()
            places[id(axis)] = own + inside
        return linear([*phases, *(places[id(axis)] for axis in self.ordered)], self.shape)


def stage_side(
    factor: Scalar, loops: Sequence[Iterator], inside: Sequence[Iterator], arrays: Mapping[str, Array], step: int,
    are_columns: bool,
) -> StagedSide | None:  # fmt: skip
    """How a factor's columns or rows, of some loops, can be staged; None where they cannot.

    inside: loops of batches, then those of the depth.  step: neighbouring depths of a word.
    """
    found = accesses(factor)
    if len(found) != 1:
        return None
    (access,) = found
    array = arrays[access.array]
    names = {i.name: i for i in loops}
    extents = {i.name: i.extent for i in inside}
    if loops[-1].name not in access.indices[-1].iterators() and (are_columns or step > 1):
        return None  # neighbours are far apart in memory
    if not all(_is_edge(g.index, access.indices, array.shape) for g in access.guards):
        return None
    axes = []
    for index in access.indices:
        axis = _axis(index, names, extents, inside[-1], step, are_columns)
        if axis is None:
            return None
        axes.append(axis)
    own = [axis.loop.name for axis in axes if axis.loop]
    if sorted(own) != sorted(names) or len(set(own)) != len(own):
        return None
    if step > 1 and not any(axis.word or axis.words > 1 for axis in axes):
        return None
    sizes = {axis.loop.name: axis.size for axis in axes if axis.loop}
    virtual = tuple(replace(i, extent=sizes[i.name]) if n and are_columns else i for n, i in enumerate(loops))
    staging = StagedSide(access, tuple(axes), virtual, tuple(loops))
    return staging if 4 * staging.words <= MOST_BYTES else None


def _is_edge(guard: Index, indices: Sequence[Index], shape: Sequence[int]) -> bool:
    """Whether a guard says that an index is inside its array."""
    return any(
        guard == index or guard == Index((), size - 1) - index for index, size in zip(indices, shape, strict=True)
    )


def _axis(
    index: Index, loops: dict[str, Iterator], extents: dict[str, int], last: Iterator, step: int, are_columns: bool
) -> StagedAxis | None:
    """One axis; None where its index is none that a copy has."""
    if not index.is_affine or any(c < 0 for _, c in index.terms):
        return None
    moving = [name for name in index.iterators() if name in loops]
    if len(moving) > 1:
        return None
    stride = index.coefficient(moving[0]) if moving else 1
    inner = Index.sum(((a, c) for a, c in index.terms if a not in moving), index.constant)
    low, high = inner.bounds(extents)
    words, word = 1, 0
    if step > 1 and last.name in inner.iterators():
        if inner.terms == ((last.name, 1),) and not moving:
            words = step
        else:
            word = inner.coefficient(last.name)
    loop = loops[moving[0]] if moving else None
    if loop and low == high:
        return StagedAxis(loop, 1, stride, 1, low, loop.extent, inner, word, words)
    reach = high - low + (stride * (loop.extent - 1) if loop else 0)
    phases = stride if are_columns else 1
    size = reach // phases + 1 if words == 1 else -(-(reach + 1) // words)
    return StagedAxis(loop, phases, phases * words, stride // phases, low, size, inner, word, words)
