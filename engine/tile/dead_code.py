"""Variables and masks that nothing uses leave the program: lowerings may name more than a shape needs."""

from __future__ import annotations

from engine.tile.nodes import Let, Mask, TileOp, names_in


def without_unused(body: tuple[TileOp, ...]) -> tuple[TileOp, ...]:
    """The operations without each `Let` and `Mask` whose name appears nowhere."""
    while True:  # what only an unused variable needed is unused in the next round
        shorter = _keep_used(body, names_in(body))
        if shorter == body:
            return body
        body = shorter


def _keep_used(body: tuple[TileOp, ...], used: set[str]) -> tuple[TileOp, ...]:
    kept = (op for op in body if not isinstance(op, Let | Mask) or op.name in used)
    return tuple(op.map_bodies(lambda inner: _keep_used(inner, used)) for op in kept)
