"""Loops of one iteration become what stands in them: detection wants a loop where a pass leaves none to be read.

    for tile in 0 .. 0:  copy A[32 * tile]; use A    ->    copy A[0]; use A
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.pipeline.stage_indices import Change, Known
from engine.tensor.index import Index
from engine.tile.nodes import Declare, For, If, Let, Load, Mask, TileOp, UniformIf


def without_single_loops(body: Sequence[TileOp], extents: Known) -> tuple[TileOp, ...]:
    """The operations without loops of one iteration, as far as no name would then be made twice in one body."""
    result: list[TileOp] = []
    for op in body:
        if isinstance(op, For | If | UniformIf):
            op = replace(op, body=without_single_loops(op.body, extents))
        if isinstance(op, For) and op.extent == 1 and not _made(op.body) & _made((*result, *body)):
            result += Change({op.name: Index()}, {}, {}, extents).operations(op.body)
        else:
            result.append(op)
    return tuple(result)


def _made(body: Sequence[TileOp]) -> set[str]:
    """Names that a body itself makes."""
    named = {op.name for op in body if isinstance(op, Let | Mask)}
    return named | {op.buffer for op in body if isinstance(op, Declare)} | {
        op.slot.buffer for op in body if isinstance(op, Load) and not op.slot.indices
    }
