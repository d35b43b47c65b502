"""Variables, masks and values that nothing uses leave the program: lowerings may name more than a shape needs."""

from __future__ import annotations

from engine.tile.nodes import Declare, Let, Mask, TileOp, names_in


def without_unused(body: tuple[TileOp, ...]) -> tuple[TileOp, ...]:
    """The operations without each `Let`, `Mask` and declared value whose name appears nowhere else."""
    while True:  # what only an unused variable needed is unused in the next round
        shorter = _keep_used(body, names_in(body))
        if shorter == body:
            return body
        body = shorter


def _keep_used(body: tuple[TileOp, ...], used: set[str]) -> tuple[TileOp, ...]:
    kept = (op for op in body if not _only_names(op) or op.defines[0] in used)
    return tuple(op.map_bodies(lambda inner: _keep_used(inner, used)) for op in kept)


def _only_names(op: TileOp) -> bool:
    """Whether an operation does nothing but give a name to a value."""
    return isinstance(op, Let | Mask) or (isinstance(op, Declare) and op.value is not None)
