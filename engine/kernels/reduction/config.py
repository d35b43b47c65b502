"""What a reduction gives to its blocks and threads: what the marks ask for, as far as it can be had.

    lane 32, block 8 @ i     a warp shares a row, a block takes 8 rows
    warp 8                   neighbouring threads own neighbouring columns, the 8 warps of a block share their terms
    split 1024, unroll 4     a loop over strips of 1024 elements, the chunks of a strip written out
    scope register           what several loops use waits in registers; `recompute`: it is read and computed again
    turns 4, stages 2        a block takes four groups of rows in turn, the next is copied while one is used
    split_k 64               64 blocks share the terms of a row or column, the last to come joins their parts
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from engine.fusion.nodes import AGAIN, REGISTER
from engine.graph.nodes import DTYPES
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks, divisor_of, power_up_to
from engine.support.errors import Unsupported
from engine.target.hardware import BLOCK_REGISTERS, MAX_THREADS, VECTOR_BYTES, WARP
from engine.target.registers import (
    COLUMN_RESERVE,
    HELD_ELEMENTS,
    MAX_PRIVATE,
    REDUCTION_BASE,
    REDUCTION_RESERVE,
    VALUE_REGISTERS,
)
from engine.target.teams import whole_parts
from engine.tensor.access import vector_limit
from engine.tensor.live_values import most_alive, overwritten_before
from engine.tensor.nodes import TensorProgram
from engine.tensor.rewrite import looked_up, plain_iterator
from engine.tensor.traffic import has_slow_path
from engine.tile.nodes import KernelConfig

MOST_ELEMENTS_WRITTEN_OUT = 32
"""Elements of a thread whose chunks are written out where nothing asks for it: more loads at once crowd the registers,
and thousands take the compiler a minute."""


MOST_REDUCTION_PARTS = 1024
"""Blocks that share a row: the threads of the last one join their parts together."""
MOST_JOINS = 8
"""Parts of other blocks that a thread of the last one reads at once; more wait for each other in a loop."""
SHARED_OPERATIONS = ("sum", "prod", "max", "min", "any", "all")

REFUSED = {
    "tile": "a reduction keeps what it uses again in registers, not in a tile",
    "thread": "threads of a reduction are asked for as lanes of a row or warps of a column",
}
"""Marks that no reduction has a use for, and why."""
BY_ROW = {"warp": "threads share whole rows: ask for lanes"}
BY_COLUMN = {
    "lane": "neighbouring threads own neighbouring columns: ask for warps",
    "block": "a block owns the columns of one warp's threads",
}
"""Those that only one kind of reduction has none for."""


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
    parts: int = 1
    """Blocks that share the terms of a row."""

    @property
    def threads(self) -> int:
        return self.lanes * (self.rows_per_block if self.by_row else WARP)

    @property
    def chunk(self) -> int:
        """Reduced elements that the sharers take at once."""
        return self.lanes * (self.vector if self.by_row else 1)

    @property
    def joins(self) -> int:
        """Parts that each sharer of the last block reads."""
        return -(-self.parts // self.lanes)

    @property
    def strips(self) -> int:
        return -(-self.columns // (self.chunk * self.strip * self.parts))

    @property
    def chunks(self) -> int:
        """Of one block, in all strips together."""
        return self.strips * self.strip

    @property
    def blocks(self) -> int:
        """That take rows of their own; each of them is a team of `parts`."""
        return -(-self.rows // (self.rows_per_block if self.by_row else WARP * self.vector))


@dataclass(frozen=True, slots=True)
class ReductionConfig(KernelConfig):
    """Who walks what, what waits in registers, and how far ahead rows are copied."""

    layout: Layout
    kept: frozenset[str]
    """Arrays whose elements wait in the registers of a thread for later loops."""
    turns: int
    """Groups of rows that a block takes one after the other."""
    stages: int
    """Groups of rows in shared memory at once; 1 without turns."""
    slow: tuple[bool, ...]
    """Of each loop over reduced elements, whether a function in it has a slow path (`has_slow_path`)."""

    @property
    def side_by_side(self) -> int:
        """Chunks that a loop has written out."""
        return self.layout.chunks if self.kept else self.layout.strip if self.layout.is_unrolled else 1

    @property
    def load_turns(self) -> int:
        """See `KernelConfig`: a chunk at a time in loops with a slow path, else all that a thread has registers for; of
        several loops the mean.  What is kept has registers, and is loaded by the first loop."""
        room = BLOCK_REGISTERS // self.layout.threads - REDUCTION_BASE
        at_once = 1 if self.kept else -(-self.layout.vector * self.side_by_side // room)
        loops = self.slow[:1] if self.kept else self.slow
        turns = sum(self.side_by_side if is_slow else at_once for is_slow in loops)
        return -(-turns // len(loops)) if loops else at_once

    def with_stages(self, stages: int, register_stages: int) -> ReductionConfig:
        """See `KernelConfig`."""
        return replace(self, stages=stages)


def read_config(program: TensorProgram, nest: Nest, marks: Marks, by_row: bool) -> ReductionConfig:
    """What the marks ask for.  by_row: whether neighbouring threads share a row; else they own columns."""
    lost = _overwritten(program, nest)
    layout = _read_layout(program, nest, marks, by_row, bool(lost))
    _check_order(program, layout)
    kept = _kept_arrays(program, nest, marks, layout, lost)
    inner = [m for phase in nest.phases for m in phase.members]
    if kept and not layout.is_unrolled:
        because = "later loops use its values again, from registers that only a loop written out can reach"
        marks.note_change("unroll", layout.strip, because, inner)
    marks.refuse(REFUSED | (BY_ROW if by_row else BY_COLUMN))
    marks.refuse({"stages": "threads share a row: copies run ahead from row to row"}, inner)
    needs, fit = f"a divisor of its {layout.blocks} blocks", divisor_of(layout.blocks)
    if layout.parts > 1:
        needs, fit = f"1: {layout.parts} blocks share a row, each takes its part of it once", lambda asked: 1
    turns, slow = marks.number("turns", 1, fit, needs, nest.outer), slow_loops(program, nest)
    if turns == 1:
        because = "a block takes its rows at once, there is nothing to copy ahead: ask for turns"
        marks.refuse({"stages": because}, nest.outer)
        return ReductionConfig(layout, kept, turns, 1, slow)
    return ReductionConfig(layout, kept, turns, marks.stages("stages", 2, nest.outer), slow)


def slow_loops(program: TensorProgram, nest: Nest) -> tuple[bool, ...]:
    """Of each loop over reduced elements, whether a function in it has a slow path."""
    loops = (phase.statements for phase in nest.phases if phase.members)
    return tuple(any(has_slow_path(s.expression, program.approximates) for s in inner) for inner in loops)


def _check_order(program: TensorProgram, layout: Layout) -> None:
    """Unsupported where threads would share terms that must come in order; one thread takes them in order."""
    ordered = [s.name for s in program.statements if s.reduction and not s.reduction.associative]
    if ordered and layout.lanes > 1:
        reason = f"its terms must come in order, and {layout.lanes} threads would share them"
        hint = f"say “rewrite associative {ordered[0]}”, or mark {'lane' if layout.by_row else 'warp'} 1"
        raise Unsupported("codegen", f"{ordered[0]} of {program.name}", reason, hint)


def row_order(program: TensorProgram, nest: Nest) -> tuple[str, ...]:
    """The iterators of the reduced elements, in the one order that all loops share; Unsupported without one."""
    orders = {
        tuple(n for m in phase.members if (n := plain_iterator(m.rows[s.name])))
        for phase in nest.phases
        if phase.members
        for s in phase.statements
    }
    if len(orders) > 1:
        shown = " and ".join(" ".join(order) for order in sorted(orders))
        reason = f"its loops walk a row in different orders ({shown}), so a thread would not meet its elements again"
        raise Unsupported("codegen", f"schedule of {program.name}", reason, "pin the same order for all statements")
    return next(iter(orders), ())


def _kept_arrays(
    program: TensorProgram, nest: Nest, marks: Marks, layout: Layout, lost: frozenset[str]
) -> frozenset[str]:
    """Arrays that several loops use, kept in registers where they fit and nobody asks for the loops to read again.

    lost: what cannot be made again, since an input of it is overwritten before its last use: it is kept whatever it
    takes.
    """
    again = used_again(program, nest)
    lost &= again
    scheme = REGISTER if again and (lost or fits_registers(layout, len(again))) else AGAIN
    asked = marks.word("scope")
    if asked == AGAIN and again and not lost:
        scheme = AGAIN
    because = "nothing is used again" if not again else _why_scheme(scheme, bool(lost))
    if asked not in (None, scheme):
        marks.refuse({"scope": because})
    if scheme == AGAIN:
        return frozenset()
    return again if fits_registers(layout, len(again)) else lost


def used_again(program: TensorProgram, nest: Nest) -> frozenset[str]:
    """Arrays whose elements several loops over the reduced iterators use: results of loops, and inputs."""
    loops = [p for p in nest.phases if p.members]
    made = {s.write.array: n for n, p in enumerate(loops) for s in p.statements if s.reduction is None}
    inner = set(row_order(program, nest))
    used: dict[str, set[int]] = {}
    for number, phase in enumerate(loops):
        for statement in phase.statements:
            for access in statement.reads():
                if inner & {n for i in access.indices for n in i.iterators()}:
                    used.setdefault(access.array, set()).add(number)
    again = {a for a, phases in used.items() if len(phases) > 1 or (a in made and phases - {made[a]})}
    indices = {array for statement in program.statements for array in looked_up(statement)}
    return frozenset({a for a in again if a in made or a in program.inputs} - indices)


def _overwritten(program: TensorProgram, nest: Nest) -> frozenset[str]:
    """Arrays that a later loop can neither read nor compute again: what they are made of is overwritten before it."""
    loops = [(phase.statements, bool(phase.members)) for phase in nest.phases]
    return overwritten_before(loops, frozenset(program.inputs) & frozenset(program.outputs))


def fits_registers(layout: Layout, arrays: int) -> bool:
    """Whether a thread can keep its elements of so many arrays."""
    reserve = REDUCTION_RESERVE + (0 if layout.by_row else COLUMN_RESERVE)
    of_one, most = layout.chunks * layout.vector, BLOCK_REGISTERS // layout.threads - reserve
    return of_one <= most and of_one * arrays <= HELD_ELEMENTS


def _why_scheme(scheme: str, is_in_place: bool) -> str:
    if is_in_place:
        return "what is overwritten cannot be read again: its values stay in registers"
    if scheme == AGAIN:
        return "a thread has not the registers for its part of a row: later loops read and compute again"
    return "later loops find what they use again in registers"


def _read_layout(program: TensorProgram, nest: Nest, marks: Marks, by_row: bool, keeps: bool) -> Layout:
    """The layout that the marks ask for.

    keeps: whether threads must keep their elements of a row, which then are no more than fit `MAX_PRIVATE`.
    """
    rows = math.prod(m.extent for m in nest.outer)
    columns = math.prod(m.extent for m in next((p.members for p in nest.phases if p.members), ()))
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
        needs = f"whole warps, up to {most} rows" if most > 1 else "one row per block"
        usual = min(8, rows)
        per_block = marks.number("block", usual, lambda asked: -(-min(asked, most) // whole) * whole, needs, nest.outer)
    else:
        most, per_block = MAX_THREADS // WARP, 1
        lanes = marks.power("warp", 8, most, inner, least)
    chunk = lanes * (vector if by_row else 1)
    parts = _parts(program, nest, marks, -(-columns // chunk))
    strip = _strip(nest, marks, -(-columns // parts), chunk)
    # Loops written out one after the other share what they read: all of it may be alive at once.
    has_room = strip * vector * most_alive(program.statements).values <= VALUE_REGISTERS
    is_unrolled = marks.is_written_out(strip, strip * vector <= MOST_ELEMENTS_WRITTEN_OUT and has_room, inner)
    return Layout(by_row, rows, columns, per_block, lanes, vector, strip, is_unrolled, parts)


def _parts(program: TensorProgram, nest: Nest, marks: Marks, chunks: int) -> int:
    """Blocks that share a row, as a mark asks.  chunks: of a row."""
    inner = [m for phase in nest.phases for m in phase.members]
    why_not = why_not_shared(program, nest)
    if not why_not and marks.first("turns", "split_k") == "turns":
        why_not = "a block that takes rows in turn shares none of them"
    most = 1 if why_not else min(chunks, MOST_REDUCTION_PARTS)
    needs = f"1: {why_not}" if why_not else f"at most {most}, and no part without one of {chunks} chunks"
    return marks.number("split_k", 1, lambda asked: whole_parts(chunks, min(asked, most)), needs, inner)


def why_not_shared(program: TensorProgram, nest: Nest) -> str:
    """Why blocks cannot share the terms of a row; "" where they can."""
    sums = [s.reduction for s in nest.statements if s.reduction is not None]
    if any(not one.associative for one in sums):
        return "blocks would join terms in another order"
    if any(one.operation not in SHARED_OPERATIONS for one in sums):
        return "blocks hand over sums, products and extrema"
    walked = [phase for phase in nest.phases if phase.members]
    if not walked or walked[0] is not nest.phases[0] or any(s.reduction for one in walked[:-1] for s in one.statements):
        return "the row is walked again once its result is known, which only the last block knows"
    return ""


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


def widest_vector(program: TensorProgram, nest: Nest, along_rows: bool) -> int:
    """The widest vector that the accesses allow.

    along_rows: vectors run along the innermost loop of each phase; else along the last outer dimension.
    """
    runs: dict[str, tuple[str, ...]] = {}
    for phase in nest.phases:
        members = phase.members if along_rows else nest.outer
        for statement in phase.statements if members else ():
            name = plain_iterator(members[-1].rows[statement.name])
            if name is not None:
                runs[statement.name] = (name,)
    limit = vector_limit(nest.statements, program, runs)
    if not along_rows:
        # A lane of the vector is an accumulator of its own, and they are handed over together.
        held = [DTYPES[s.reduction.accumulate] for s in nest.statements if s.reduction]
        limit = min(limit, VECTOR_BYTES // max(held, default=1))
    return limit


def vector_width(program: TensorProgram, nest: Nest, marks: Marks, along_rows: bool) -> int:
    """The width asked for by the `vector` mark, halved until the accesses allow it.

    along_rows: see `widest_vector`.
    """
    limit = widest_vector(program, nest, along_rows)
    needs = f"at most {limit} here: extent, alignment, guards and element type allow no more"
    along = [m for phase in nest.phases for m in phase.members] if along_rows else nest.outer
    return marks.number("vector", 1, power_up_to(limit), needs, along)

