"""The index arithmetic of a pipeline (ALCOP, figure 7), and putting it into operations.

Over loops k inside k1 inside k2 ..., g = k + E*k1 + E*E1*k2 + ... counts their iterations.  A buffer of S stages is
filled in stage (g + S - 1) mod S with what iteration g + S - 1 uses, and used in stage g mod S.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from engine.tensor.index import Extents, Index
from engine.tensor.nodes import Access, Apply, Literal, Position, Scalar
from engine.tile.nodes import AsyncCopy, For, Let, Load, MatrixLoad, Slot, Store, TileOp


def counter(loops: Sequence[For]) -> Index:
    """g over loops, innermost first."""
    result, inside = Index(), 1
    for loop in loops:
        result = result + Index.of(loop.name) * inside
        inside *= loop.extent
    return result


def shifted(loops: Sequence[For], ahead: int, extents: Extents) -> dict[str, Index]:
    """Counters of the iteration `ahead` later, innermost loop first: past the end of one, the next is one further.

        k  ->  (k + a) mod E        k1  ->  k1 + floor((k + a) / E)

    The outermost is not wrapped: past its end there is no iteration.
    """
    values: dict[str, Index] = {}
    carry = Index.of(ahead)
    for loop in loops[:-1]:
        moved = Index.of(loop.name) + carry
        values[loop.name] = moved.mod(loop.extent, extents)
        carry = moved.floordiv(loop.extent, extents)
    return values | {loops[-1].name: Index.of(loops[-1].name) + carry}


@dataclass(frozen=True, slots=True)
class Change:
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
        if not set(index.iterators()) & set(self.counters):
            return index
        return index.substitute(self.counters, self.extents)

    def slot(self, slot: Slot) -> Slot:
        """A register element, in its stage where the register has several."""
        indices = tuple(map(self.index, slot.indices))
        stage = (self.stages[slot.buffer],) if slot.buffer in self.stages else ()
        return Slot(slot.buffer, (*stage, *indices))

    def scalar(self, value: Scalar) -> Scalar:
        """An expression over registers."""
        match value:
            case Access(name, indices):
                moved = self.slot(Slot(name, indices))
                return replace(value, indices=moved.indices)
            case Apply(_, operands):
                return replace(value, operands=tuple(map(self.scalar, operands)))
            case Position(index, _):
                return replace(value, index=self.index(index))
            case Literal():
                return value

    def operation(self, op: TileOp) -> TileOp:
        """An operation and everything below it."""
        changes: dict[str, Any] = {}
        for field in fields(op):
            value = getattr(op, field.name)
            match value:
                case Index():
                    changes[field.name] = self.index(value)
                case Slot():
                    changes[field.name] = self.slot(value)
                case Access() | Apply() | Position():
                    changes[field.name] = self.scalar(value)
                case (Index(), *_):
                    changes[field.name] = tuple(map(self.index, value))
                case tuple() if field.name == "body":
                    changes[field.name] = self.operations(value)
        return self._in_stage(replace(op, **changes))

    def operations(self, body: Sequence[TileOp]) -> tuple[TileOp, ...]:
        """Several of them, in order."""
        return tuple(map(self.operation, body))

    def _in_stage(self, op: TileOp) -> TileOp:
        """An access of shared memory, moved to its stage."""
        match op:
            case Load(_, buffer, position) | MatrixLoad(_, _, buffer, position) | Store(buffer, position):
                return replace(op, position=self._moved(buffer, position))
            case AsyncCopy(buffer, position):
                return replace(op, target_position=self._moved(buffer, position))
            case _:
                return op

    def _moved(self, buffer: str, position: Index) -> Index:
        if buffer not in self.sizes or buffer not in self.stages:
            return position
        return position + self.stages[buffer] * self.sizes[buffer]


class Known(dict[str, int]):
    """Extents of variables; what is not known is as large as an int."""

    def __missing__(self, name: str) -> int:
        return 2**31

    def note(self, body: Sequence[TileOp]) -> None:
        """Every counter and named integer of a program; of equal names the largest extent."""
        for op in body:
            match op:
                case For(name, extent, inner):
                    self[name] = max(extent, self.get(name, 1))
                    self.note(inner)
                case Let(name, index, _, limit):
                    high = index.bounds(self)[1]
                    self[name] = max(self.get(name, 1), (high if limit is None else min(high, limit)) + 1)
                case _:
                    self.note(getattr(op, "body", ()))
