"""Variables, masks and values that nothing uses leave the program: lowerings may name more than a shape needs."""

from __future__ import annotations

from collections import Counter

from engine.tile.nodes import Declare, Let, Mask, TileOp, operations

_NAMING = (Let, Mask)


def without_unused(body: tuple[TileOp, ...]) -> tuple[TileOp, ...]:
    """The operations without each `Let`, `Mask` and declared value whose name appears nowhere else."""
    uses: Counter[str] = Counter()
    named: dict[str, list[frozenset[str]]] = {}
    """Variable -> what each operation needs that does nothing but name it."""
    for op in operations(body):
        names = op.names
        uses.update(names)
        if _only_names(op):
            named.setdefault(op.defines[0], []).append(names)
    unused = [name for name in named if not uses[name]]
    for name in unused:  # which grows: what only an unused variable needed is unused, too
        for names in named[name]:
            uses.subtract(names)
            unused += [one for one in names if not uses[one] and one in named]
    return _without(body, frozenset(unused)) if unused else body


def _without(body: tuple[TileOp, ...], unused: frozenset[str]) -> tuple[TileOp, ...]:
    kept = (op for op in body if not _only_names(op) or op.defines[0] not in unused)
    return tuple(op.map_bodies(lambda inner: _without(inner, unused)) for op in kept)


def _only_names(op: TileOp) -> bool:
    """Whether an operation does nothing but give a name to a value."""
    return isinstance(op, _NAMING) or (isinstance(op, Declare) and op.value is not None)
