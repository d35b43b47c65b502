"""What must hold of every tile program before it becomes text."""

from __future__ import annotations

from collections.abc import Iterator

from engine.graph.nodes import DTYPES
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.index import Index
from engine.tile.hazards import hazards
from engine.tile.names import names_read
from engine.tile.nodes import (
    BLOCK,
    THREAD,
    Assign,
    AsyncCopy,
    Barrier,
    BlockRanges,
    BreakIf,
    Commit,
    Declare,
    For,
    If,
    LastArrival,
    Let,
    Load,
    MapFragment,
    Mask,
    MatrixLoad,
    MatrixMultiply,
    Store,
    TileOp,
    TileProgram,
    UniformIf,
    Wait,
    WarpReduce,
    WarpSync,
    operations,
)

TOGETHER = (Barrier, AsyncCopy, Commit, Wait, WarpReduce, WarpSync, MatrixLoad, MatrixMultiply, LastArrival)
"""Operations that all threads of a warp or block take part in."""


def check_tile(program: TileProgram) -> tuple[str, ...]:
    """Violations in words: collective operations under a branch, unknown buffers, names out of scope, odd widths.

    Where there are none of these, bytes of shared memory that threads use without meeting.
    """
    scope = (*_buffers(program), *_scope(program.body, {BLOCK, THREAD}, program))
    uniform = _uniform(program.body, {BLOCK})
    found = (*_collectives(program.body, ""), *uniform, *_loose(program.body), *scope, *_widths(program))
    return found or tuple(hazards(program))


def _collectives(body: tuple[TileOp, ...], mask: str) -> Iterator[str]:
    """No barrier, cooperative copy or warp collective may stand where some threads do not come."""
    for op in body:
        if mask and isinstance(op, TOGETHER):
            yield f"{type(op).__name__} stands under the branch on {mask}, which threads take differently"
        if isinstance(op, If):
            yield from _collectives(op.body, op.mask)
        elif isinstance(op, For | UniformIf):
            yield from _collectives(op.body, mask)
        elif isinstance(op, BlockRanges):
            for _, part in op.parts:
                yield from _collectives(part, mask)


def _uniform(body: tuple[TileOp, ...], same: set[str]) -> Iterator[str]:
    """Branches that all threads take together may depend only on what is the `same` in all of them."""
    for op in body:
        match op:
            case Let(name, index) if set(index.iterators()) <= same:
                same |= {name}
            case UniformIf(condition, inner):
                yield from _differing(condition, same)
                yield from _uniform(inner, set(same))
            case BreakIf(condition) | LastArrival(position=condition):
                yield from _differing(condition, same)
            case For(name, _, inner):
                yield from _uniform(inner, {*same, name})
            case If(_, inner):
                yield from _uniform(inner, set(same))
            case BlockRanges(parts):
                for _, inner in parts:
                    yield from _uniform(inner, set(same))
            case _:
                continue


def _loose(body: tuple[TileOp, ...]) -> Iterator[str]:
    """Only a loop can be left."""
    for op in body:
        match op:
            case BreakIf(condition):
                yield f"there is no loop to leave where {condition} >= 0"
            case If(_, inner) | UniformIf(_, inner):
                yield from _loose(inner)
            case BlockRanges(parts):
                for _, inner in parts:
                    yield from _loose(inner)
            case _:
                continue


def _differing(condition: Index, same: set[str]) -> Iterator[str]:
    """Names of a condition for all threads that may differ between them."""
    for name in sorted(set(condition.iterators()) - same):
        yield f"the branch on {condition} is meant for all threads, but {name} may differ between them"


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
            case MatrixLoad(_, slot, source):
                names = (slot.buffer, source)
            case MapFragment(slot):
                names = (slot.buffer,)
            case MatrixMultiply(_, sums, first, second):
                names = (sums.buffer, first.buffer, second.buffer)
            case Declare(buffer):
                names = (buffer,)
            case LastArrival(counters):
                names = (counters,)
            case _:
                continue
        for name in names:
            if name not in program.buffers:
                yield f"{type(op).__name__} uses {name}, which is no buffer"


def _scope(body: tuple[TileOp, ...], visible: set[str], program: TileProgram) -> Iterator[str]:
    """Variables, masks and registers must be made before they are used, in the same body or one around it."""
    for op in body:
        needed = set(names_read(op)) - {""}
        match op:
            case Let(name) | Mask(name) | Declare(name):
                made = {name}
            case Load(slot) if slot.buffer in program.buffers and not program.buffers[slot.buffer].shape:
                made = {slot.buffer}
            case Load(slot):
                needed, made = needed | {slot.buffer}, set()
            case _:
                made = set()
        for name in sorted(needed - visible):
            yield f"{type(op).__name__} uses {name} before it is known"
        visible |= made
        if isinstance(op, For):
            yield from _scope(op.body, visible | {op.name}, program)
        elif isinstance(op, If | UniformIf):
            yield from _scope(op.body, set(visible), program)
        elif isinstance(op, BlockRanges):
            for _, part in op.parts:
                yield from _scope(part, set(visible), program)


def _widths(program: TileProgram) -> Iterator[str]:
    for op in operations(program.body):
        if not isinstance(op, Load | Store | AsyncCopy):
            continue
        memory = program.buffers.get(op.target if isinstance(op, Store) else op.source)
        widest = VECTOR_BYTES // DTYPES[memory.dtype] if memory else VECTOR_BYTES
        if op.width > widest or op.width & (op.width - 1):
            yield f"{type(op).__name__} moves {op.width} elements at once, the hardware powers of two up to {widest}"
