"""How the registers of a tile program appear in the text: whole vectors as packs, values that change as variables."""

from __future__ import annotations

from collections import Counter

from engine.tile.nodes import Declare, Load, TileProgram, operations
from engine.tile.nodes.expressions import HELD, STORED
from engine.tile.nodes.writer import RegisterForms


def register_forms(program: TileProgram) -> RegisterForms:
    """The forms that all operations together allow."""
    ops = tuple(operations(program.body))
    writes = Counter(name for op in ops for name in op.buffers_written)
    return RegisterForms(
        changed=frozenset(writes),
        declared=frozenset(op.buffer for op in ops if isinstance(op, Declare)),
        packs=_packs(program),
        loaded_once=frozenset(op.slot.buffer for op in ops if isinstance(op, Load) and writes[op.slot.buffer] == 1),
    )


def _packs(program: TileProgram) -> frozenset[str]:
    """Registers held as they are stored, whose vector accesses all cover exactly the last axis."""
    widths: dict[str, set[int]] = {}
    for op in operations(program.body):
        for slot, width in op.vectors:
            is_whole = len(slot.indices) == len(program.buffers[slot.buffer].shape) - 1
            widths.setdefault(slot.buffer, set()).add(width if is_whole else 0)
    return frozenset(
        name
        for name, found in widths.items()
        # An access of a part of the axis needs an array: a pack is only moved whole.
        if found == {program.buffers[name].shape[-1]}
        # 16-bit floats are widened on their way into registers, element by element.
        and HELD[program.buffers[name].dtype] == STORED[program.buffers[name].dtype]
    )
