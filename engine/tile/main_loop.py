"""What one warp asks for in an iteration of a kernel's main loop, or in all of a kernel without one.

    For k (step 32): 2 copies, 6 loads of fragments, 4 products    ->    LoopRequests(tensor=4, outside=2, shared=6)
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.tile.nodes import TileOp, TileProgram, only_copies
from engine.tile.trip_counts import trip_counts
from engine.tile.work import OUTSIDE


@dataclass(frozen=True, slots=True)
class LoopRequests:
    """Instructions of a warp, as `engine.cost.nodes.Work` counts them."""

    tensor: int
    """Products on tensor cores."""
    outside: int
    """Loads, stores and copies of global memory."""
    shared: int
    """Loads and stores of shared memory."""
    in_loop: bool
    """Whether they are those of one iteration."""


def main_loop_requests(tile: TileProgram) -> LoopRequests:
    """The requests of the innermost loop with any that is not written out; of several the one with most."""
    found = _innermost(tile, tile.body)
    return max(found, key=lambda one: (one.tensor, one.outside + one.shared), default=_requests(tile, tile.body, False))


def _innermost(tile: TileProgram, body: tuple[TileOp, ...]) -> list[LoopRequests]:
    """Requests of the loops that have no such loop inside."""
    found: list[LoopRequests] = []
    for inner in (inner for op in body for inner in op.bodies):
        deeper = _innermost(tile, inner.operations)
        is_walked = inner.counter and inner.extent > 1 and not inner.is_unrolled and not only_copies(inner.operations)
        if not deeper and is_walked:
            own = _requests(tile, inner.operations, True)
            deeper = [own] if own.tensor + own.outside + own.shared else []
        found += deeper
    return found


def _requests(tile: TileProgram, body: tuple[TileOp, ...], in_loop: bool) -> LoopRequests:
    tensor = outside = shared = 0
    for op, times in trip_counts(body):
        tensor += times * bool(op.tensor_instruction)
        for region in op.regions if op.bytes_moved(tile.buffers) else ():
            if tile.buffers[region.buffer].scope in OUTSIDE:
                outside += times
            elif len(op.regions) == 1:  # a copy to shared memory is one instruction, counted where it reads
                shared += times
    return LoopRequests(tensor, outside, shared, in_loop)
