"""Which buffers an operation fills and which it uses, and where in a program that happens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.pipeline.nodes import Path
from engine.tensor.nodes import accesses
from engine.tile.nodes import (
    Assign,
    AsyncCopy,
    For,
    If,
    Load,
    MapFragment,
    MatrixLoad,
    MatrixMultiply,
    Store,
    TileOp,
    UniformIf,
    WarpReduce,
)


@dataclass(frozen=True, slots=True)
class Uses:
    """The operations that fill a buffer and those that use it; one that changes it in place uses it."""

    fills: tuple[tuple[Path, TileOp], ...]
    reads: tuple[tuple[Path, TileOp], ...]


def uses(body: tuple[TileOp, ...], buffer: str) -> Uses:
    """Every operation of a program that touches a buffer."""
    fills, reads = [], []
    for path, op in numbered(body):
        if buffer in buffers_read(op):
            reads.append((path, op))
        elif buffer in buffers_written(op):
            fills.append((path, op))
    return Uses(tuple(fills), tuple(reads))


def numbered(body: tuple[TileOp, ...], path: Path = ()) -> Iterator[tuple[Path, TileOp]]:
    """Every operation with its place, outermost first."""
    for number, op in enumerate(body):
        yield (*path, number), op
        if isinstance(op, For | If | UniformIf):
            yield from numbered(op.body, (*path, number))


def at_path(body: tuple[TileOp, ...], path: Path) -> TileOp:
    """The operation at a place."""
    op = body[path[0]]
    return at_path(op.body, path[1:]) if len(path) > 1 and isinstance(op, For | If | UniformIf) else op


def buffers_written(op: TileOp) -> tuple[str, ...]:
    """Buffers of which an operation sets elements."""
    match op:
        case Store(target) | AsyncCopy(target):
            return (target,)
        case Load(slot) | Assign(slot) | WarpReduce(slot) | MatrixLoad(_, slot) | MapFragment(slot):
            return (slot.buffer,)
        case MatrixMultiply(_, sums):
            return (sums.buffer,)
        case _:
            return ()


def buffers_read(op: TileOp) -> tuple[str, ...]:
    """Buffers of which an operation uses elements."""
    match op:
        case Load(_, source) | MatrixLoad(_, _, source) | AsyncCopy(_, _, source):
            return (source,)
        case Store(_, _, slot) | WarpReduce(slot):
            return (slot.buffer,)
        case Assign(slot, expression, _, combine):
            read = tuple(access.array for access in accesses(expression))
            return (*read, slot.buffer) if combine else read
        case MapFragment(slot, _, element, expression):
            return (slot.buffer, *(a.array for a in accesses(expression) if a.array != element))
        case MatrixMultiply(_, sums, first, second):
            return (sums.buffer, first.buffer, second.buffer)
        case _:
            return ()
