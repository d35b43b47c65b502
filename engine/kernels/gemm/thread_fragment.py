"""A thread's part of one operand's tile, on CUDA cores: which elements it owns and how they come into registers.

    depth inner   tile[row][depth]     a thread reads 4 depths of one of its rows at a time
    free inner    tile[depth][row]     a thread reads 4 neighbouring rows at one depth
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.kernels.gemm.operand import Operand
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.index import Index
from engine.tensor.nodes import Access
from engine.tile.emit import Emitter
from engine.tile.nodes import Load, Slot
from engine.tile.source import Line

READ_ELEMENTS = 4
"""Of one read from shared memory, at most: four float32 fill a vector."""


def fragment_elements(element_bytes: int) -> int:
    """Elements that one shared-memory read brings into registers."""
    return min(READ_ELEMENTS, VECTOR_BYTES // element_bytes)


@dataclass(frozen=True, slots=True)
class ThreadPart:
    """What one thread owns of an operand's side, and the registers that hold it for some depths."""

    operand: Operand
    owned: int
    """Elements of a thread's part."""
    slot: Index
    """Number of this thread along the side."""
    step: int
    """Depths that are brought into registers together."""
    registers: str

    @property
    def run(self) -> int:
        """Neighbouring elements of the side that a thread owns together."""
        return 1 if self.operand.depth_inner else min(fragment_elements(self.operand.copy.element_bytes), self.owned)

    def local(self, emitter: Emitter, owned: Index, run: int) -> Index:
        """Place in the tile of a thread's element: runs of `run` neighbours, dealt round the threads."""
        across = self.operand.side.tile // self.owned
        extents = emitter.extents
        return owned.floordiv(run, extents) * (across * run) + self.slot * run + owned.mod(run, extents)

    def element(self, owned: Index, depth: Index) -> Access:
        """The register of one owned element at one depth of the step."""
        if self.operand.depth_inner:
            return Access(self.registers, (owned, depth))
        extents = dict.fromkeys(owned.iterators(), self.owned)
        return Access(self.registers, (depth, owned.floordiv(self.run, extents), owned.mod(self.run, extents)))


def part_of(emitter: Emitter, operand: Operand, owned: int, slot: Index, step: int) -> ThreadPart:
    """A thread's part of an operand, with registers for it."""
    part = ThreadPart(operand, owned, slot, step, "")
    shape = (owned, step) if operand.depth_inner else (step, owned // part.run, part.run)
    register = emitter.register(f"{operand.access.array}_part", operand.dtype, shape)
    return ThreadPart(operand, owned, slot, step, register)


def load_part(emitter: Emitter, part: ThreadPart, depth: Index, step: int, at: Line) -> None:
    """A thread's elements of `step` depths from shared memory into registers."""
    operand, run = part.operand, part.run
    emitter.declare(part.registers)
    if operand.depth_inner:
        with emitter.loop("r", part.owned, at) as owned:
            place = operand.local(part.local(emitter, owned, 1), depth)
            slot = Slot(part.registers, (owned,) if step > 1 else (owned, Index()))
            emitter.add(Load(slot, operand.tile, place, step, None, None, at))
        return
    with emitter.loop("q", step, at) as q, emitter.loop("r", part.owned // run, at) as group:
        place = operand.local(part.local(emitter, group * run, run), depth + q)
        slot = Slot(part.registers, (q, group) if run > 1 else (q, group, Index()))
        emitter.add(Load(slot, operand.tile, place, run, None, None, at))
