"""What must hold of every tile program before it becomes text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.graph.nodes import DTYPES
from engine.target.hardware import VECTOR_BYTES
from engine.tile.hazards import hazards
from engine.tile.nodes import BLOCK, THREAD, Let, TileOp, TileProgram, operations


def check_tile(program: TileProgram) -> tuple[str, ...]:
    """Violations in words: collective operations under a branch, unknown buffers, names out of scope, odd widths.

    Where there are none of these, bytes of shared memory that threads use without meeting.
    """
    found = (
        *_find_misplaced(program.body, _Around({BLOCK}, {BLOCK, THREAD})),
        *_unknown_buffers(program),
        *_odd_widths(program),
    )
    found = found or tuple(hazards(program))  # hazards look buffers and variables up, so these must be right first
    return (*found, *(wrong for later in program.later for wrong in check_tile(later)))


@dataclass(slots=True)
class _Around:
    """What surrounds a place of the program."""

    same: set[str]
    """Variables with one value in all threads of the block."""
    known: set[str]
    """Variables, masks and registers that were made here or in a body around it."""
    mask: str | None = None
    """The innermost branch that threads take differently."""
    in_loop: bool = False


def _find_misplaced(body: tuple[TileOp, ...], around: _Around) -> Iterator[str]:
    """Operations that may not stand where they do."""
    for op in body:
        if around.mask and op.execution != "thread":
            yield f"{type(op).__name__} stands under the branch on {around.mask}, which threads take differently"
        for name in sorted(op.names - around.known):
            yield f"{type(op).__name__} uses {name} before it is known"
        around.known |= set(op.defines)
        # A variable over the block and loop counters alone has one value in all threads, too.
        if isinstance(op, Let) and around.same.issuperset(op.index.iterators()):
            around.same |= {op.name}
        for condition in op.uniform:
            for name in sorted(set(condition.iterators()) - around.same):
                yield f"the branch on {condition} is meant for all threads, but {name} may differ between them"
        if op.leaves_loop and not around.in_loop:
            yield f"there is no loop to leave where {' and '.join(map(str, op.uniform))} >= 0"
        for inner in op.bodies:
            same, known = {*around.same, inner.counter}, {*around.known, inner.counter}
            in_loop = around.in_loop or bool(inner.counter)
            yield from _find_misplaced(inner.operations, _Around(same, known, inner.mask or around.mask, in_loop))


def _unknown_buffers(program: TileProgram) -> Iterator[str]:
    for op in operations(program.body):
        for name in op.buffers:
            if name not in program.buffers:
                yield f"{type(op).__name__} uses {name}, which is no buffer"


def _odd_widths(program: TileProgram) -> Iterator[str]:
    for op in operations(program.body):
        memories = ((region.width, program.buffers.get(region.buffer)) for region in op.regions)
        for width, dtype in dict.fromkeys((width, memory.dtype) for width, memory in memories if memory):
            widest = VECTOR_BYTES // DTYPES[dtype]
            if width > widest or width & (width - 1):
                yield f"{type(op).__name__} moves {width} elements at once, the hardware powers of two up to {widest}"
