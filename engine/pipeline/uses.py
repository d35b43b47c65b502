"""Which buffers an operation fills and which it uses, and where in a program that happens."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from engine.pipeline.nodes import Path
from engine.support.values import kept_with
from engine.tile.nodes import TileOp, TileProgram


@dataclass(frozen=True, slots=True)
class Uses:
    """The operations that fill a buffer and those that use it; one that changes it in place uses it."""

    fills: tuple[tuple[Path, TileOp], ...]
    reads: tuple[tuple[Path, TileOp], ...]


def uses(program: TileProgram, buffers: Collection[str]) -> dict[str, Uses]:
    """For each of some buffers every operation of a program that touches it."""
    fills: dict[str, list[tuple[Path, TileOp]]] = {buffer: [] for buffer in buffers}
    reads: dict[str, list[tuple[Path, TileOp]]] = {buffer: [] for buffer in buffers}
    for path, op in placed_operations(program):
        read, written = op.buffers_read, op.buffers_written
        for buffer in dict.fromkeys(read):  # also what it writes there: an update in place cannot run ahead
            if buffer in reads:
                reads[buffer].append((path, op))
        for buffer in dict.fromkeys(written):
            if buffer in fills and buffer not in read:
                fills[buffer].append((path, op))
    return {buffer: Uses(tuple(fills[buffer]), tuple(reads[buffer])) for buffer in buffers}


def used_after(program: TileProgram, loop: Path) -> tuple[str, ...]:
    """Buffers of shared memory without a place of their own that are used only after an outermost loop."""
    if len(loop) != 1:
        return ()
    floating = [b.name for b in program.buffers.values() if b.scope == "shared" and b.offset is None]
    found = []
    for buffer, used in uses(program, floating).items():
        places = [path for path, _ in (*used.fills, *used.reads)]
        if places and min(places)[0] > loop[0]:
            found.append(buffer)
    return tuple(found)


@kept_with
def placed_operations(program: TileProgram) -> tuple[tuple[Path, TileOp], ...]:
    """Every operation of a program with its place, outermost first."""
    return tuple(_with_places(program.body, ()))


def _with_places(body: tuple[TileOp, ...], path: Path) -> Iterator[tuple[Path, TileOp]]:
    for number, op in enumerate(body):
        here = (*path, number)
        yield here, op
        if op.bodies:
            yield from _with_places(_below(op), here)


def at_path(body: tuple[TileOp, ...], path: Path) -> TileOp:
    """The operation at a place."""
    op = body[path[0]]
    return at_path(_below(op), path[1:]) if len(path) > 1 else op


def _below(op: TileOp) -> tuple[TileOp, ...]:
    return tuple(below for inner in op.bodies for below in inner.operations)
