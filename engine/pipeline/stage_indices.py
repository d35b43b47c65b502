"""The index arithmetic of a pipeline (ALCOP, figure 7), and putting it into operations.

Over loops k inside k1 inside k2 ..., g = k + E*k1 + E*E1*k2 + ... counts their iterations.  A buffer of S stages is
filled in stage (g + S - 1) mod S with what iteration g + S - 1 uses, and used in stage g mod S.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_

from engine.tensor.index import Extents, Index
from engine.tensor.nodes import Access, Apply, Literal, Position, Scalar
from engine.tile.nodes import For, Let, Rewrite, Slot, TileOp


def counters_ahead(loops: Sequence[For], ahead: int, extents: Extents) -> dict[str, Index]:
    """Counters of the iteration `ahead` later, innermost loop first: past the end of one, the next is one further.

        k  ->  (k + a) mod E        k1  ->  k1 + floor((k + a) / E)

    The outermost is not wrapped: past its end there is no iteration.
    """
    values: dict[str, Index] = {}
    carry = Index.of(ahead)  # as in adding to a number of several digits, each loop a digit
    for loop in loops[:-1]:
        moved = Index.of(loop.name) + carry
        values[loop.name] = moved.mod(loop.extent, extents)
        carry = moved.floordiv(loop.extent, extents)
    return values | {loops[-1].name: Index.of(loops[-1].name) + carry}


@dataclass(frozen=True, slots=True)
class StageRewrite(Rewrite):
    """What happens to the operations of one side of a pipeline."""

    counters: Mapping[str, Index]
    """Loop counters and what stands in their place."""
    stages: Mapping[str, Index]
    """Buffers of several stages and the stage to use."""
    sizes: Mapping[str, int]
    """Elements of one stage of a buffer in shared memory."""
    extents: Extents

    def index(self, index: Index) -> Index:
        """An index with the counters replaced."""
        if self.counters.keys().isdisjoint(index.iterators()):
            return index
        return index.substitute(self.counters, self.extents)

    def slot(self, slot: Slot) -> Slot:
        """A register element, in its stage where the register has several."""
        indices = tuple(map(self.index, slot.indices))
        if slot.buffer in self.stages:
            return Slot(slot.buffer, (self.stages[slot.buffer], *indices))
        return slot if all(map(is_, indices, slot.indices)) else Slot(slot.buffer, indices)

    def scalar(self, value: Scalar) -> Scalar:
        """An expression over registers."""
        match value:
            case Access(name, indices):
                here = Slot(name, indices)
                moved = self.slot(here)
                return value if moved is here else replace(value, indices=moved.indices)
            case Apply(function, operands, dtype):
                found = tuple(map(self.scalar, operands))
                return value if all(map(is_, found, operands)) else Apply(function, found, dtype)
            case Position(index, _):
                moved_index = self.index(index)
                return value if moved_index is index else replace(value, index=moved_index)
            case Literal():
                return value

    def position(self, buffer: str, position: Index) -> Index:
        """A position in memory, moved to its stage where shared memory has several of the buffer."""
        position = self.index(position)
        if buffer not in self.sizes or buffer not in self.stages:
            return position
        return position + self.stages[buffer] * self.sizes[buffer]


class Known(dict[str, int]):
    """Extents of variables; what is not known is as large as an int.

    Too large an extent costs a simplification, too small a one would make a wrong index.
    """

    def __missing__(self, name: str) -> int:
        return 2**31

    def note(self, body: Sequence[TileOp]) -> None:
        """Every counter and named integer of a program; of equal names the largest extent."""
        for op in body:
            if isinstance(op, Let):
                high = op.index.bounds(self)[1] if op.limit is None else min(op.index.bounds(self)[1], op.limit)
                self[op.name] = max(self.get(op.name, 1), high + 1)
            for inner in op.bodies:
                if inner.counter:
                    self[inner.counter] = max(inner.extent, self.get(inner.counter, 1))
                self.note(inner.operations)
