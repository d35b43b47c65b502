"""How the registers of a tile program appear in the text: whole vectors as packs, values that change as variables."""

from __future__ import annotations

from engine.tile.expressions import HELD, STORED
from engine.tile.nodes import Assign, Load, Store, TileOp, TileProgram, WarpReduce, operations


def packs(program: TileProgram) -> set[str]:
    """Registers held as they are stored, whose vector accesses all cover exactly the last axis."""
    widths: dict[str, set[int]] = {}
    for op in operations(program.body):
        if isinstance(op, Load | Store) and op.width > 1:
            whole = len(op.slot.indices) == len(program.buffers[op.slot.buffer].shape) - 1
            widths.setdefault(op.slot.buffer, set()).add(op.width if whole else 0)
    return {
        name
        for name, found in widths.items()
        if found == {program.buffers[name].shape[-1]}
        and HELD[program.buffers[name].dtype] == STORED[program.buffers[name].dtype]
    }


def assigned(op: TileOp) -> tuple[str, ...]:
    """Registers that an operation gives a value."""
    match op:
        case Assign(slot, _, _, _) | WarpReduce(slot, _, _, _):
            return (slot.buffer,)
        case Load(slot):
            return (slot.buffer,)
        case _:
            return ()
