"""Variables and masks that nothing uses leave the program: lowerings may name more than a shape needs."""

from __future__ import annotations

from dataclasses import replace

from engine.tile.names import names_read
from engine.tile.nodes import For, If, Let, Mask, TileOp, UniformIf, operations


def without_unused(body: tuple[TileOp, ...]) -> tuple[TileOp, ...]:
    """The operations without `Bind` and `Mask` whose name appears nowhere."""
    while True:
        used = {name for op in operations(body) for name in names_read(op)}
        shorter = _kept(body, used)
        if shorter == body:
            return body
        body = shorter


def _kept(body: tuple[TileOp, ...], used: set[str]) -> tuple[TileOp, ...]:
    kept: list[TileOp] = []
    for op in body:
        if isinstance(op, Let | Mask) and op.name not in used:
            continue
        kept.append(replace(op, body=_kept(op.body, used)) if isinstance(op, For | If | UniformIf) else op)
    return tuple(kept)
