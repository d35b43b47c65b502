"""Row and column reductions: who shares a row, what a thread loads at once, what it keeps, and how far it reads ahead.

    lanes of a row       neighbouring threads walk a row together, a block takes some rows
    warps of a column    neighbouring threads own neighbouring results, the warps of a block share the terms
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from engine.fusion.nodes import REGISTER, FusionGroup
from engine.graph.nodes import DTYPES
from engine.kernels.advice import mark
from engine.kernels.analytical_estimate import promised
from engine.kernels.loop_nest import Nest, Phase, loop_nest
from engine.kernels.nodes import Kernel
from engine.kernels.prune import Check, checked, resource_checks, user_check
from engine.kernels.reduction.layout import Layout
from engine.kernels.reduction.lower import AGAIN, fits_registers, used_again
from engine.kernels.reduction.width import widest_vector
from engine.kernels.sketch_rules import CACHE_READ, CROSS_THREAD, INLINE, PLACE_MAIN, TILING, Choices, Situation, sketch
from engine.kernels.space import KernelPrograms, Program, ResourceEstimate, Task, Value
from engine.recipe import Entry
from engine.target.copies import SMALLEST_COPY
from engine.target.hardware import MAX_THREADS, WARP
from engine.target.registers import REDUCTION_BASE
from engine.tensor.access import position, stride
from engine.tensor.nodes import Access, Statement, TensorProgram
from engine.tensor.rewrite import plain_iterator

BY_ROW, BY_COLUMN = "lanes of a row", "warps of a column"
DECIDED = frozenset(("lane", "warp", "block", "vector", "split", "unroll", "scope", "turns", "stages"))
SHARERS, WARPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), (1, 2, 4, 8, 16, 32)
"""Threads, and warps, that share a row."""
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
WRITTEN_OUT = (1, 2, 4, 8, 16, 32)
"""Chunks of a row that a thread's loop has side by side."""
TURNS, STAGES = (1, 2, 4, 8), (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a kernel of a reduction touches for one element of a row, in bytes."""

    once: int
    """Every array outside once."""
    loops: int
    """Every loop for itself: what it needs of the inputs, and what it stores."""
    copied_once: int
    """Of the inputs that differ from row to row, once."""
    copied_by_loops: int
    """The same, by every loop for itself."""
    is_contiguous: bool
    """Whether some of these have neighbours where a vector of a thread has them."""


@dataclass(frozen=True, slots=True)
class Rows(KernelPrograms):
    """The programs of a reduction that is shared out one way."""

    nest: Nest
    by_row: bool
    kept: int
    """Rows."""
    length: int
    """Elements of a row."""
    element: int
    """Bytes of an element of the widest input."""
    again: frozenset[str]
    """Arrays that several loops use."""
    traffic: Traffic

    @property
    def name(self) -> str:
        """Of the mapping."""
        return BY_ROW if self.by_row else BY_COLUMN

    decided: ClassVar[frozenset[str]] = DECIDED

    @property
    def program(self) -> TensorProgram:
        """What is scheduled."""
        return self.kernel.program

    def layout(self, program: Program) -> Layout:
        """Who walks what in a program."""
        sharers, vector, rows, wide = (value for _, value in program.values[:4] if isinstance(value, int))
        chunk = sharers * (vector if self.by_row else 1)
        chunks = -(-self.length // chunk)
        strip = min(wide, chunks) if wide > 1 else chunks
        return Layout(self.by_row, self.kept, self.length, rows, sharers, vector, strip, wide > 1 or chunks == 1)

    def entries(self, program: Program) -> Sequence[Entry]:
        """The marks that ask for a program; those that say what is so anyway are left out."""
        here, layout = self.program.statements, self.layout(program)
        everyone = tuple(s.name for s in here)
        reducing = tuple(s.name for s in here if s.reduction is not None)
        inner, outer = (reducing, "innermost"), (everyone, "outermost")
        chunks = layout.strips * layout.strip
        found = [mark(*inner, "lane" if self.by_row else "warp", layout.lanes, "")]
        if self.by_row:
            found.append(mark(reducing[:1], "innermost", "vector", layout.vector, ""))
        elif self.nest.outer:
            found.append(mark(*outer, "vector", layout.vector, ""))
        if self.by_row and self.nest.outer:
            found.append(mark(*outer, "block", layout.rows_per_block, ""))
        if layout.strips > 1:
            found.append(Entry(reducing, "innermost", "split", layout.chunk * layout.strip))
        if chunks > 1 and not self.holds(program):
            found.append(mark(*inner, "unroll", layout.strip if layout.is_unrolled else 1, ""))
        if self.again:
            found.append(Entry(everyone, "innermost", "mark", ("scope", str(program["staging"]))))
        turns = program.number("turns")
        if turns > 1:
            found += [mark(*outer, "turns", turns, ""), mark(*outer, "stages", program.number("stages"), "")]
        return found

    def holds(self, program: Program) -> bool:
        """Whether threads keep what several loops use."""
        fits = bool(self.again) and fits_registers(self.layout(program), len(self.again))
        return fits and program["staging"] == REGISTER

    def figures(self, program: Program) -> ResourceEstimate:
        """From the layout: how often each element is asked for, and what a thread has of it."""
        layout, turns = self.layout(program), program.number("turns")
        holds = self.holds(program)
        steps = 1 if holds else layout.strips * (1 if layout.is_unrolled else layout.strip)
        reads = self.traffic.once if holds else self.traffic.loops
        taken = layout.blocks * (layout.rows_per_block if self.by_row else WARP * layout.vector)
        walked = layout.chunks * layout.chunk
        of_thread = layout.vector * (layout.chunks if holds else layout.strip if layout.is_unrolled else 1)
        registers = REDUCTION_BASE + of_thread * max(1, len(self.again) if holds else 1)
        staged = self._staged(layout, holds) if turns > 1 else 0
        return ResourceEstimate(
            blocks=max(1, layout.blocks // turns),
            threads=layout.threads,
            steps=steps * turns,
            stages=program.number("stages") if turns > 1 else 1,
            shared_bytes=staged * program.number("stages") + self._scratch(layout) * (2 if turns > 1 else 1),
            registers=registers,
            requested=taken * walked * reads,
        )

    def copied(self, vector: int) -> int:
        """Bytes that one copy of a row moves."""
        return self.element * (vector if self.traffic.is_contiguous else 1)

    def _staged(self, layout: Layout, holds: bool) -> int:
        """Bytes of one turn's rows in shared memory."""
        if self.copied(layout.vector) < SMALLEST_COPY:
            return 0
        each = self.traffic.copied_once if holds else self.traffic.copied_by_loops
        return layout.threads * layout.chunks * layout.vector * each

    def _scratch(self, layout: Layout) -> int:
        """Bytes in which the warps of a block meet."""
        sums = sum(s.reduction is not None for s in self.program.statements)
        if self.by_row:
            return 4 * sums * layout.threads // WARP if layout.lanes > WARP else 0
        return 4 * sums * layout.threads * layout.vector

    def rank(self, program: Program) -> float:
        """The time that the model of compiled kernels promises, in microseconds."""
        figures, width = self.figures(program), self.element * program.number("vector")
        return promised(self.kernel.facts, figures, self.machine, figures.requested / (width * WARP))

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program that a kernel stands at."""
        sizes, tile = kernel.tile.constants, kernel.tile
        is_by_row = any("THREADS / SHARERS" in claim for claim, _ in tile.assertions)
        if is_by_row != self.by_row or "SHARERS" not in sizes:
            return None
        sharers, chunks, vector = sizes["SHARERS"], sizes["CHUNKS"], sizes["VECTOR"]
        walked = kernel.facts.blocks * sizes.get("TURNS", 1) * tile.threads * chunks * vector
        asked = 2 * kernel.facts.l2_bytes
        kept = bool(self.again) and (chunks == 1 or asked < walked * (self.traffic.once + self.traffic.loops))
        loops = kernel.facts.serial_steps // sizes.get("TURNS", 1)
        wide = 1 if loops == chunks and not kept else -(-chunks // loops)
        values: dict[str, Value] = {
            "sharers": sharers, "vector": vector, "rows": tile.threads // sharers if self.by_row else 1,
            "written_out": min(WRITTEN_OUT[-1], 1 << (wide - 1).bit_length()),
            "staging": REGISTER if kept or not self.again else AGAIN,
            "turns": sizes.get("TURNS", 1), "stages": kernel.tile.stages,
        }  # fmt: skip
        return Program(self.name, tuple((name, values[name]) for name in _FIXED))


_FIXED: dict[str, Value] = {
    "sharers": 1, "vector": 1, "rows": 1, "written_out": 1, "staging": REGISTER, "turns": 1, "stages": 1,
}  # fmt: skip
"""Every dimension: threads (warps) that share a row, elements of one access, rows of a block, chunks written out, where
what several loops use waits, groups of rows that a block takes in turn, and how many of them are under way."""


def _traffic(program: TensorProgram, nest: Nest, columns: tuple[str, ...], by_row: bool) -> Traffic:
    """See `Traffic`; accesses that do not move along a row count for nothing."""
    ends = {columns[-1]} if by_row else {plain_iterator(row) for m in nest.outer[-1:] for row in m.rows.values()}
    inner = set(columns)
    rows = {n for m in nest.outer for s in m.rows if (n := plain_iterator(m.rows[s])) is not None}
    makers = {s.write.array: s for s in program.statements if s.reduction is None}

    def moving(accesses: Iterable[Access]) -> Iterator[Access]:
        return (a for a in accesses if inner & {n for i in a.indices for n in i.iterators()})

    def needed(statement: Statement) -> dict[str, Access]:
        """The inputs that a statement's elements are made of, what is made on the way computed again."""
        found: dict[str, Access] = {}
        for access in moving(statement.reads()):
            maker = makers.get(access.array)
            found |= needed(maker) if maker not in (None, statement) else {access.array: access}
        return {name: access for name, access in found.items() if name in program.inputs}

    def size(arrays: Iterable[str]) -> int:
        return sum(DTYPES[program.arrays[name].dtype] for name in arrays)

    def differs(found: Mapping[str, Access]) -> Iterator[str]:
        return (name for name, a in found.items() if rows & {n for i in a.indices for n in i.iterators()})

    loops = [phase for phase in nest.phases if phase.members]
    of_loops = [{k: v for s in phase.statements for k, v in needed(s).items()} for phase in loops]
    written = {a.array for s in program.statements for a in moving((s.write,))} & set(program.outputs)
    everything = {name: access for found in of_loops for name, access in found.items()}
    return Traffic(
        once=size(everything) + size(written),
        loops=sum(map(size, of_loops)) + size(written),
        copied_once=size(differs(everything)),
        copied_by_loops=sum(size(differs(found)) for found in of_loops),
        is_contiguous=any(
            stride(position(everything[name], program.arrays), end) == 1
            for name in differs(everything)
            for end in ends
            if end is not None
        ),
    )


def row_tasks(group: FusionGroup, kernel: Kernel) -> list[Task]:
    """Both ways to share out a reduction, that of `kernel` first."""
    program, nest = kernel.program, loop_nest(kernel.program, kernel.schedule)
    loop = next(p for p in nest.phases if p.members)
    columns = _columns(loop)
    element = max(DTYPES[program.arrays[name].dtype] for name in program.inputs)
    ways = [
        Rows(
            group, kernel, nest, by_row, math.prod(m.extent for m in nest.outer),
            math.prod(m.extent for m in loop.members), element, used_again(program, nest, columns),
            _traffic(program, nest, columns, by_row),
        )
        for by_row in (True, False)
    ]  # fmt: skip
    ways.sort(key=lambda way: way.program_of(kernel) is None)
    return [_task(way) for way in ways if way.by_row or way.nest.outer]


def _columns(loop: Phase) -> tuple[str, ...]:
    """The iterators of the reduced elements."""
    statement = next(s for s in loop.statements if s.reduction is not None)
    return tuple(n for m in loop.members if (n := plain_iterator(m.rows[statement.name])))


def _task(family: Rows) -> Task:
    made, applied = sketch(_situation(family))
    checks = (*_checks(family), *resource_checks(family.figures, family.machine), user_check(family, family.kernel))
    funnel = checked(made.points(), checks)
    return Task(family.name, made.dimensions, funnel, applied, family)


def _situation(family: Rows) -> Situation:
    """What the rules may open of a reduction."""
    most = widest_vector(family.program, family.nest, family.by_row)
    vectors = tuple(1 << n for n in range(most.bit_length()))
    stands = family.program_of(family.kernel)
    rows = tuple(sorted({*ROWS, stands.number("rows")})) if stands else ROWS
    offers: dict[str, Choices] = {
        CROSS_THREAD: {"sharers": SHARERS if family.by_row else WARPS},
        TILING: {"vector": vectors, "rows": rows if family.by_row and family.nest.outer else (1,)},
        PLACE_MAIN: {"written_out": WRITTEN_OUT},
    }
    ahead: Choices = {"turns": TURNS, "stages": STAGES} if family.nest.outer else {}
    offers[CACHE_READ] = {**ahead, "staging": (REGISTER, AGAIN)} if family.again else ahead
    if len(family.program.statements) > 1:
        offers[INLINE] = {}
    fixed = _FIXED if family.again else {**_FIXED, "staging": REGISTER}
    return Situation(family.name, fixed, offers)


def _checks(family: Rows) -> tuple[Check, ...]:
    """What kernels of reductions take, cheapest first."""
    return (
        Check("turns", lambda p: _turns(family, p), "copies run ahead from turn to turn"),
        Check("rows of a block", lambda p: _rows_of_block(family, p), "whole warps, or the one row of several"),
        Check("length of a row", lambda p: _too_wide(family, p), "threads past the end of a row have nothing to do"),
        Check("written-out loops", lambda p: _written_out(family, p), "other numbers would be the same kernel"),
        Check("staging", lambda p: _staging(family, p), "both names would be the same kernel"),
        Check("asynchronous copies", lambda p: _copies(family, p), "cp.async moves 4, 8 or 16 bytes"),
        Check("order of terms", lambda p: _order(family, p), "sharers would add them in another order"),
    )


def _turns(family: Rows, program: Program) -> str:
    turns, stages = program.number("turns"), program.number("stages")
    if stages > turns:
        return f"{stages} stages of {turns} turns"
    blocks = family.layout(program).blocks if turns > 1 else turns
    return f"{turns} turns do not divide {blocks} blocks" if blocks % turns else ""


def _rows_of_block(family: Rows, program: Program) -> str:
    if not family.by_row:
        return ""
    lanes, rows = program.number("sharers"), program.number("rows")
    if lanes * rows > MAX_THREADS:
        return f"{lanes} threads for each of {rows} rows, a block may have {MAX_THREADS:,}"
    if lanes > WARP and rows > 1:
        return f"{lanes} threads share a row and {rows} rows a block"
    if lanes * rows % WARP:
        return f"{lanes} threads for each of {rows} rows are no whole warps"
    return f"{rows} rows of {family.kept}" if rows > max(family.kept, WARP // lanes) else ""


def _too_wide(family: Rows, program: Program) -> str:
    chunk = program.number("sharers") * (program.number("vector") if family.by_row else 1)
    if program.number("sharers") > 1 and chunk >= 2 * family.length:
        return f"{chunk} elements at once, a row has {family.length}"
    return ""


def _written_out(family: Rows, program: Program) -> str:
    layout, wide = family.layout(program), program.number("written_out")
    chunks = -(-family.length // layout.chunk)
    if wide >= 2 * chunks and wide > 1:
        return f"{wide} chunks, a thread has {chunks}"
    if family.holds(program) and wide < min(chunks, WRITTEN_OUT[-1]):
        return "registers have no addresses: all is written out"
    return ""


def _staging(family: Rows, program: Program) -> str:
    if family.again and program["staging"] == REGISTER and not family.holds(program):
        return "a thread has not the registers for its part of a row"
    if family.again and program["staging"] == AGAIN and family.layout(program).chunks == 1:
        return "a thread has one chunk, which no loop is needed for"
    return ""


def _copies(family: Rows, program: Program) -> str:
    size = family.copied(program.number("vector"))
    if program.number("stages") == 1 or size >= SMALLEST_COPY:
        return ""
    return f"{program.number('stages')} stages, and rows are copied {size} bytes at a time"


def _order(family: Rows, program: Program) -> str:
    ordered = next((s for s in family.program.statements if s.reduction and not s.reduction.associative), None)
    if ordered is None or program.number("sharers") == 1:
        return ""
    return f"the terms of {ordered.name} must come in order"
