"""Threads of a reduction over the reduced and the kept elements: what the marks ask for, as far as it can be had."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks
from engine.kernels.reduction.width import vector_width
from engine.scheduling.nodes import Member
from engine.target.hardware import MAX_THREADS, WARP
from engine.target.registers import MAX_PRIVATE, VALUE_REGISTERS
from engine.tensor.live_values import most_alive
from engine.tensor.nodes import TensorProgram

WRITTEN_OUT = 32
"""Elements of a thread whose chunks are written out where nothing asks for it: more loads at once crowd the registers,
and thousands take the compiler a minute."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Who walks what."""

    by_row: bool
    rows: int
    columns: int
    rows_per_block: int
    lanes: int
    """Threads that share the reduction of one row (by column: warps that share it)."""
    vector: int
    strip: int
    """Chunks of one strip; all of them where the reduced loop is not split."""
    is_unrolled: bool
    """Whether the chunks of a strip are written out."""

    @property
    def threads(self) -> int:
        return self.lanes * (self.rows_per_block if self.by_row else WARP)

    @property
    def chunk(self) -> int:
        """Reduced elements that the sharers take at once."""
        return self.lanes * (self.vector if self.by_row else 1)

    @property
    def strips(self) -> int:
        return -(-self.columns // (self.chunk * self.strip))

    @property
    def chunks(self) -> int:
        """In all strips together."""
        return self.strips * self.strip

    @property
    def blocks(self) -> int:
        return -(-self.rows // (self.rows_per_block if self.by_row else WARP * self.vector))


def read_layout(program: TensorProgram, nest: Nest, marks: Marks, by_row: bool, keeps: bool = False) -> Layout:
    """The layout that the marks ask for.

    keeps: whether threads must keep their elements of a row, which then are no more than fit `MAX_PRIVATE`.
    """
    rows = math.prod(m.extent for m in nest.outer)
    columns = math.prod(m.extent for m in _reduced(nest))
    vector = vector_width(program, nest, marks, along_rows=by_row)
    inner = [m for phase in nest.phases for m in phase.members]
    least = 1
    if keeps:
        vector = vector if by_row else 1
        least = min(MAX_THREADS // (1 if by_row else WARP), 1 << (-(-columns // MAX_PRIVATE) - 1).bit_length())
    if by_row:
        lanes = marks.power("lane", WARP, MAX_THREADS, inner, least)
        most = MAX_THREADS // lanes if lanes <= WARP else 1
        whole = max(1, WARP // lanes)
        needs = f"whole warps, up to {most} row{'s' if most > 1 else ''}"
        per_block = marks.number(
            "block", 8, lambda asked: -(-min(asked, most) // whole) * whole, needs, nest.outer
        )
    else:
        most, per_block = MAX_THREADS // WARP, 1
        lanes = marks.power("warp", 8, most, inner, least)
    chunk = lanes * (vector if by_row else 1)
    strip = _strip(nest, marks, columns, chunk)
    # Loops written out one after the other share what they read: all of it may be alive at once.
    has_room = strip * vector * most_alive(program.statements).values <= VALUE_REGISTERS
    is_unrolled = marks.unrolled(strip, strip * vector <= WRITTEN_OUT and has_room, inner)
    return Layout(by_row, rows, columns, per_block, lanes, vector, strip, is_unrolled)


def _reduced(nest: Nest) -> tuple[Member, ...]:
    return next((p.members for p in nest.phases if p.members), ())


def _strip(nest: Nest, marks: Marks, columns: int, chunk: int) -> int:
    """Chunks of one strip, as a `split` of a reduced loop asks: a loop over strips, and one over a strip's chunks."""
    chunks = -(-columns // chunk)
    inside: dict[int, int] = {}
    for phase in nest.phases:
        for k, member in enumerate(phase.members):
            inside[id(member)] = math.prod(m.extent for m in phase.members[k + 1 :])

    def whole_chunks(asked: int) -> int:
        return asked if asked >= columns else max(1, asked // chunk) * chunk

    inner = [m for phase in nest.phases for m in phase.members]
    needs = f"multiples of {chunk}, what the threads of a row take at once"
    elements = marks.number("split", columns, whole_chunks, needs, inner, elements=lambda m: inside[id(m)])
    outer = "a loop over kept elements is shared out to blocks and threads, not split"
    marks.refuse({"split": outer, "unroll": "no thread walks this loop: it is shared out to threads"}, nest.outer)
    return min(chunks, -(-elements // chunk))
