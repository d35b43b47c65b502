"""Inline loops of one iteration: detection needs the loop that fills and uses a buffer, the text does not.

    for tile in 0 .. 0:  copy A[32 * tile]; use A    ->    copy A[0]; use A
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.pipeline.stage_indices import Known, StageRewrite
from engine.tensor.index import Index
from engine.tile.nodes import For, TileOp


def without_single_loops(body: Sequence[TileOp], extents: Known) -> tuple[TileOp, ...]:
    """The operations with the bodies of such loops in their place, unless a name would be defined twice in one body."""
    result: list[TileOp] = []
    for op in body:
        op = op.map_bodies(lambda inner: without_single_loops(inner, extents))
        if isinstance(op, For) and op.extent == 1 and not _names_of(op.body) & _names_of((*result, *body)):
            result += StageRewrite({op.name: Index()}, {}, {}, extents).body(op.body)
        else:
            result.append(op)
    return tuple(result)


def _names_of(body: Sequence[TileOp]) -> set[str]:
    """Names that a body itself makes."""
    return {name for op in body for name in op.defines}
