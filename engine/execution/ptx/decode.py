"""Instructions made ready to run: what each does, with which operands, and what the control of a warp asks of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.execution.ptx import arithmetic, convert, transfers, warp
from engine.execution.ptx.nodes import Instruction, PtxKernel
from engine.execution.ptx.operands import Operands, Read, Step, Write, refuse

_BOOL = np.dtype(np.bool_)


@dataclass(frozen=True, slots=True)
class DecodedInstruction:
    """An instruction ready to run."""

    instruction: Instruction
    step: Step | None
    """None for branches, barriers, sleep and returns, and where `atomic` says what it does."""
    guard: Read | None
    target: int = 0
    """Of a branch."""
    atomic: Step | None = None
    """What an atomic operation does in a kernel whose blocks wait for each other: half of them come to it late."""
    voted: tuple[Read, Write, str] | None = None
    """Of a barrier with a vote: what each thread says, where the result goes, "and" or "or"."""
    is_of_warp: bool = False
    """Whether all lanes of a warp take part."""


def sleeps(entry: PtxKernel) -> bool:
    """Whether blocks of a kernel wait for each other."""
    return any(instruction.parts[0] == "nanosleep" for instruction in entry.code)


_DECODERS = {**arithmetic.DECODERS, **convert.DECODERS, **transfers.DECODERS, **warp.DECODERS}


def decode(entry: PtxKernel, operands: Operands) -> list[DecodedInstruction]:
    """All instructions of a kernel; raises Unsupported for the first that is not known."""
    code = [_decode_one(instruction, entry, operands) for instruction in entry.code]
    if not sleeps(entry):
        return code
    return [replace(one, step=None, atomic=one.step) if one.instruction.parts[0] == "atom" else one for one in code]


def _decode_one(i: Instruction, entry: PtxKernel, operands: Operands) -> DecodedInstruction:
    guard = operands.read(("!" if i.negated else "") + i.guard, _BOOL) if i.guard else None
    name = i.parts[0]
    if i.opcode in ("bra", "bra.uni"):
        return DecodedInstruction(i, None, guard, entry.labels[i.operands[0]])
    if i.opcode in ("ret", "exit", "nanosleep.u32"):
        return DecodedInstruction(i, None, guard)
    if i.opcode == "bar.sync" and i.operands == ("0",):
        return DecodedInstruction(i, None, guard)
    if i.opcode in ("bar.red.or.pred", "bar.red.and.pred") and i.operands[1] == "0" and len(i.operands) == 3:
        voted = operands.read(i.operands[2], _BOOL), operands.write(i.operands[0]), i.parts[2]
        return DecodedInstruction(i, None, guard, voted=voted)
    if name not in _DECODERS:
        raise refuse(i)
    return DecodedInstruction(i, _DECODERS[name](i, operands), guard, is_of_warp=name in warp.DECODERS)
