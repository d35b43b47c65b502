"""What must hold of every tile program before it becomes text."""

from __future__ import annotations

from collections.abc import Iterator

from engine.graph.nodes import DTYPES
from engine.target.hardware import VECTOR_BYTES
from engine.tile.hazards import hazards
from engine.tile.nodes import BLOCK, THREAD, Let, TileOp, TileProgram, operations


def check_tile(program: TileProgram) -> tuple[str, ...]:
    """Violations in words: collective operations under a branch, unknown buffers, names out of scope, odd widths.

    Where there are none of these, bytes of shared memory that threads use without meeting.
    """
    found = (
        *_collectives(program.body, None),
        *_branches_that_differ(program.body, {BLOCK}),
        *_breaks_without_loop(program.body),
        *_unknown_buffers(program),
        *_unknown_names(program.body, {BLOCK, THREAD}),
        *_odd_widths(program),
    )
    return found or tuple(hazards(program))  # hazards look buffers and variables up, so these must be right first


def _collectives(body: tuple[TileOp, ...], mask: str | None) -> Iterator[str]:
    """No barrier, cooperative copy or warp collective may stand where some threads do not come."""
    for op in body:
        if mask and op.execution != "thread":
            yield f"{type(op).__name__} stands under the branch on {mask}, which threads take differently"
        for inner in op.bodies:
            yield from _collectives(inner.operations, inner.mask or mask)


def _branches_that_differ(body: tuple[TileOp, ...], same: set[str]) -> Iterator[str]:
    """Branches that all threads take together may depend only on what is the `same` in all of them."""
    for op in body:
        # A variable over the block and loop counters alone has one value in all threads, too.
        if isinstance(op, Let) and same.issuperset(op.index.iterators()):
            same |= {op.name}
        for condition in op.uniform:
            for name in sorted(set(condition.iterators()) - same):
                yield f"the branch on {condition} is meant for all threads, but {name} may differ between them"
        for inner in op.bodies:
            yield from _branches_that_differ(inner.operations, {*same, inner.counter})


def _breaks_without_loop(body: tuple[TileOp, ...]) -> Iterator[str]:
    """Only a loop can be left."""
    for op in body:
        if op.leaves_loop:
            yield f"there is no loop to leave where {' and '.join(map(str, op.uniform))} >= 0"
        for inner in op.bodies:
            if not inner.counter:
                yield from _breaks_without_loop(inner.operations)


def _unknown_buffers(program: TileProgram) -> Iterator[str]:
    for op in operations(program.body):
        for name in op.buffers:
            if name not in program.buffers:
                yield f"{type(op).__name__} uses {name}, which is no buffer"


def _unknown_names(body: tuple[TileOp, ...], visible: set[str]) -> Iterator[str]:
    """Variables, masks and registers must be made before they are used, in the same body or one around it."""
    for op in body:
        for name in sorted(op.names - visible):
            yield f"{type(op).__name__} uses {name} before it is known"
        visible |= set(op.defines)
        for inner in op.bodies:
            yield from _unknown_names(inner.operations, {*visible, inner.counter})


def _odd_widths(program: TileProgram) -> Iterator[str]:
    for op in operations(program.body):
        memories = ((region.width, program.buffers.get(region.buffer)) for region in op.regions)
        for width, dtype in dict.fromkeys((width, memory.dtype) for width, memory in memories if memory):
            widest = VECTOR_BYTES // DTYPES[dtype]
            if width > widest or width & (width - 1):
                yield f"{type(op).__name__} moves {width} elements at once, the hardware powers of two up to {widest}"
