"""What must hold of every tile program before it becomes text."""

from __future__ import annotations

from collections.abc import Iterator

from engine.codegen.tile import (
    Assign,
    AsyncCopy,
    Barrier,
    Commit,
    Declare,
    For,
    Load,
    Store,
    TileOp,
    TileProgram,
    Wait,
    WarpReduce,
    When,
    operations,
)

TOGETHER = (Barrier, AsyncCopy, Commit, Wait, WarpReduce)
"""Operations that all threads of a warp or block take part in."""


def check_tile(program: TileProgram) -> tuple[str, ...]:
    """Violations in words: collective operations under a branch, unknown buffers, loads wider than 16 bytes."""
    return (*_collectives(program.body, ""), *_buffers(program), *_widths(program))


def _collectives(body: tuple[TileOp, ...], mask: str) -> Iterator[str]:
    """No barrier, cooperative copy or warp collective may stand where some threads do not come."""
    for op in body:
        if mask and isinstance(op, TOGETHER):
            yield f"{type(op).__name__} stands under the branch on {mask}, which threads take differently"
        if isinstance(op, When):
            yield from _collectives(op.body, op.mask)
        elif isinstance(op, For):
            yield from _collectives(op.body, mask)


def _buffers(program: TileProgram) -> Iterator[str]:
    for op in operations(program.body):
        names: tuple[str, ...] = ()
        match op:
            case Load(slot, source):
                names = (slot.buffer, source)
            case Store(target, _, slot):
                names = (target, slot.buffer)
            case AsyncCopy(target, _, source):
                names = (target, source)
            case Assign(slot) | WarpReduce(slot):
                names = (slot.buffer,)
            case Declare(buffer):
                names = (buffer,)
            case _:
                continue
        for name in names:
            if name not in program.buffers:
                yield f"{type(op).__name__} uses {name}, which is no buffer"


def _widths(program: TileProgram) -> Iterator[str]:
    for op in operations(program.body):
        if isinstance(op, Load | Store | AsyncCopy) and op.width not in (1, 2, 4, 8, 16):
            yield f"{type(op).__name__} moves {op.width} elements at once"
