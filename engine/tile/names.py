"""Which variables, masks and registers an operation reads."""

from __future__ import annotations

from collections.abc import Iterator

from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Position, Scalar
from engine.tile.nodes import (
    Assign,
    AsyncCopy,
    BreakIf,
    Declare,
    If,
    LastArrival,
    Let,
    Load,
    MapFragment,
    Mask,
    MatrixLoad,
    MatrixMultiply,
    Slot,
    Store,
    TileOp,
    UniformIf,
    WarpReduce,
)


def names_read(op: TileOp) -> Iterator[str]:
    """Every variable, mask and register that an operation reads."""
    match op:
        case Let(_, index):
            yield from index.iterators()
        case Mask(_, conditions, within):
            yield from within
            yield from _of(*conditions)
        case Declare(_, value):
            yield from _of_scalar(value)
        case Load(slot, _, position, _, mask, otherwise):
            yield from _of(position, *slot.indices)
            yield from _of_scalar(otherwise)
            yield mask or ""
        case Store(_, position, slot, _, mask):
            yield from _of_slot(slot)
            yield from position.iterators()
            yield mask or ""
        case AsyncCopy(_, to, _, start, _, mask):
            yield from _of(to, start)
            yield mask or ""
        case Assign(slot, expression):
            yield from _of_slot(slot)
            yield from _of_scalar(expression)
        case WarpReduce(slot):
            yield from _of_slot(slot)
        case MatrixLoad(_, slot, _, position):
            yield from _of_slot(slot)
            yield from position.iterators()
        case MapFragment(slot, _, element, expression):
            yield from _of_slot(slot)
            yield from (name for name in _of_scalar(expression) if name != element)
        case MatrixMultiply(_, sums, first, second):
            for slot in (sums, first, second):
                yield from _of_slot(slot)
        case If(mask):
            yield mask
        case UniformIf(condition) | BreakIf(condition):
            yield from condition.iterators()
        case LastArrival(_, position):
            yield from position.iterators()
        case _:
            return


def _of(*indices: Index) -> Iterator[str]:
    for index in indices:
        yield from index.iterators()


def _of_slot(slot: Slot) -> Iterator[str]:
    yield slot.buffer
    yield from _of(*slot.indices)


def _of_scalar(value: Scalar | None) -> Iterator[str]:
    match value:
        case Access(array, indices):
            yield array
            yield from _of(*indices)
        case Apply(_, operands):
            for operand in operands:
                yield from _of_scalar(operand)
        case Position(index, _):
            yield from index.iterators()
        case _:
            return
