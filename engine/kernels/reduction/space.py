"""Row and column reductions: who shares a row, what a thread loads at once, what it keeps, and how far it reads ahead.

    lanes of a row       neighbouring threads walk a row together, a block takes some rows
    warps of a column    neighbouring threads own neighbouring results, the warps of a block share the terms
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from engine.cost.nodes import Work
from engine.fusion.nodes import AGAIN, REGISTER, FusionGroup
from engine.graph.nodes import DTYPES
from engine.kernels.advice import mark
from engine.kernels.loop_nest import Nest, loop_nest
from engine.kernels.nodes import Kernel
from engine.kernels.prune import PruningRule, make_task
from engine.kernels.reduction.block_reduce import parts_bytes
from engine.kernels.reduction.config import (
    MOST_JOINS,
    Layout,
    ReductionConfig,
    fits_registers,
    slow_loops,
    used_again,
    why_not_shared,
    widest_vector,
)
from engine.kernels.reduction.lower import emit_reduction
from engine.kernels.sketch_rules import (
    CACHE_READ,
    CROSS_THREAD,
    INLINE,
    PLACE_MAIN,
    TILING,
    Choices,
    Situation,
)
from engine.kernels.space import KernelTemplate, Program, Task, Value
from engine.kernels.thread_traffic import MEETING, Moved, ThreadTraffic, count_thread_traffic
from engine.pipeline.persistent_rows import TURN, in_turns
from engine.recipe import Entry
from engine.support.divisors import divisors
from engine.target.hardware import MAX_THREADS, SECTOR, WARP
from engine.target.registers import REDUCTION_BASE, VALUE_REGISTERS
from engine.target.teams import whole_parts
from engine.tensor.live_values import most_alive
from engine.tensor.nodes import TensorProgram
from engine.tensor.shifted_exponentials import SHIFTED_SUM

BY_ROW, BY_COLUMN = "lanes of a row", "warps of a column"
DECIDED = frozenset(("lane", "warp", "block", "vector", "split", "split_k", "unroll", "scope", "turns", "stages"))
SHARERS, WARPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), (1, 2, 4, 8, 16, 32)
"""Threads, and warps, that share a row."""
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
CHUNKS_WRITTEN_OUT = (1, 2, 4, 8, 16, 32)
"""Chunks of a row that a thread's loop has side by side."""
PARTS = (1, 4, 16, 64, 256, 1024)
"""Blocks that share a row."""
MOST_WAVES = 16
"""Blocks for each SM up to which more blocks may share rows: more would be busy with each other's parts."""
TURNS, STAGES = (1, 2, 4, 8), (1, 2, 3, 4)
NOTHING_MOVED = Moved(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class RowPrograms(KernelTemplate):
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
    alive: int
    """Values of one element alive at once."""
    slow: tuple[bool, ...]
    """As `ReductionConfig`."""
    counted: dict[tuple[int | bool, ...], ThreadTraffic] = field(default_factory=dict, compare=False, repr=False)
    """What the threads of kernels move, by what changes more than the lengths of their loops."""

    @property
    def name(self) -> str:
        """Of the mapping."""
        return BY_ROW if self.by_row else BY_COLUMN

    decided: ClassVar[frozenset[str]] = DECIDED

    @property
    def program(self) -> TensorProgram:
        """What is scheduled."""
        return self.kernel.program

    @property
    def parts(self) -> tuple[int, ...]:
        """Blocks that may share a row, where each then has a chunk of it; else those that do are fewer."""
        stands = self.program_of(self.kernel)
        return tuple(sorted({*PARTS, stands.number("parts")})) if stands else PARTS

    def config(self, program: Program) -> ReductionConfig:
        """What a program asks for."""
        sharers, vector, rows, wide = (value for _, value in program.values[:4] if isinstance(value, int))
        chunks, parts = self.chunks(program), self._parts(program)
        strip, is_unrolled = min(wide, chunks) if wide > 1 else chunks, wide > 1 or chunks == 1
        layout = Layout(self.by_row, self.kept, self.length, rows, sharers, vector, strip, is_unrolled, parts)
        is_held = program["staging"] == REGISTER and fits_registers(layout, len(self.again))
        turns = program.number("turns")
        stages = program.number("stages") if turns > 1 else 1
        return ReductionConfig(layout, self.again if is_held else frozenset(), turns, stages, self.slow)

    def chunks(self, program: Program) -> int:
        """Of a row, that a thread has."""
        return -(-self._chunks_of_row(program) // self._parts(program))

    def _parts(self, program: Program) -> int:
        """Blocks that share a row: of those asked for as many as each has a chunk."""
        return whole_parts(self._chunks_of_row(program), program.number("parts"))

    def _chunks_of_row(self, program: Program) -> int:
        return -(-self.length // (program.number("sharers") * (program.number("vector") if self.by_row else 1)))

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program that a kernel stands at."""
        config = kernel.tile.config
        if not isinstance(config, ReductionConfig) or config.layout.by_row != self.by_row:
            return None
        layout = config.layout
        wide = layout.chunks if config.kept else layout.strip if layout.is_unrolled else 1
        is_held = bool(config.kept) or not self.again or layout.chunks == 1
        values: dict[str, Value] = {
            "sharers": layout.lanes, "vector": layout.vector, "rows": layout.rows_per_block,
            "written_out": min(CHUNKS_WRITTEN_OUT[-1], 1 << (wide - 1).bit_length()),
            "staging": REGISTER if is_held else AGAIN, "turns": config.turns, "stages": config.stages,
            "parts": layout.parts,
        }  # fmt: skip
        return Program(self.name, tuple((name, values[name]) for name in FIXED))

    def entries(self, program: Program) -> Sequence[Entry]:
        """The marks that ask for a program; those that say what is so anyway are left out."""
        here, config = self.program.statements, self.config(program)
        layout = config.layout
        everyone = tuple(s.name for s in here)
        reducing = tuple(s.name for s in here if s.reduction is not None)
        inner, outer = (reducing, "innermost"), (everyone, "outermost")
        found = [mark(*inner, "lane" if self.by_row else "warp", layout.lanes, "")]
        if self.by_row:
            found.append(mark(reducing[:1], "innermost", "vector", layout.vector, ""))
        elif self.nest.outer:
            found.append(mark(*outer, "vector", layout.vector, ""))
        if self.by_row and self.nest.outer:
            found.append(mark(*outer, "block", layout.rows_per_block, ""))
        if layout.parts > 1:
            found.append(mark(*inner, "split_k", layout.parts, ""))
        if layout.strips > 1:
            found.append(Entry(reducing, "innermost", "split", layout.chunk * layout.strip))
        if layout.chunks > 1 and not config.kept:
            found.append(mark(*inner, "unroll", layout.strip if layout.is_unrolled else 1, ""))
        if self.again:
            found.append(Entry(everyone, "innermost", "mark", ("scope", str(program["staging"]))))
        if config.turns > 1:
            found += [mark(*outer, "turns", config.turns, ""), mark(*outer, "stages", config.stages, "")]
        return found

    def work(self, program: Program) -> Work:
        """From the layout, and from what a thread moves in each iteration of its loops."""
        config = self.config(program)
        return self._work_of(config, self.thread_bytes(config), self.thread_bytes(config, MEETING))

    def least_work(self, program: Program) -> Work:
        """As far as the layout tells, without a kernel: each byte is requested once, and nothing is exchanged."""
        facts = self.kernel.facts
        least = facts.dram_bytes_read + facts.dram_bytes_written
        work = self._work_of(self.config(program), NOTHING_MOVED, NOTHING_MOVED)
        return replace(work, l2_bytes=least, global_sectors=max(1, least // SECTOR))

    def _work_of(self, config: ReductionConfig, moved: Moved, meeting: Moved) -> Work:
        """The work of a configuration whose threads move so much, and of a team's last block so much more."""
        layout, turns = config.layout, config.turns
        blocks, teams = layout.blocks * layout.parts // turns, layout.blocks if layout.parts > 1 else 0
        at_once = config.side_by_side if config.kept else -(-config.side_by_side // config.load_turns)
        steps = 1 if config.kept else layout.strips * (1 if layout.is_unrolled else layout.strip)
        warps = -(-layout.threads // WARP)
        requested = layout.threads * (blocks * moved.outside + teams * meeting.outside)
        return replace(
            self.kernel.facts,
            blocks=blocks,
            threads=layout.threads,
            serial_steps=steps * config.load_turns * turns,
            stages=config.stages,
            shared_bytes=layout.threads * moved.copied // turns * config.stages + self._scratch(layout),
            shared_bytes_moved=layout.threads * (blocks * moved.shared + teams * meeting.shared),
            registers=REDUCTION_BASE + layout.vector * at_once * max(1, len(config.kept)),
            l2_bytes=requested,
            global_requests=requested // (self.element * layout.vector * WARP),
            global_sectors=warps * (blocks * moved.sectors + teams * meeting.sectors),
            team=layout.parts,
            team_bytes=self._left_bytes(layout) if layout.parts > 1 else 0,
        )

    def _left_bytes(self, layout: Layout) -> int:
        """What the blocks of a team leave for the last of them."""
        each = layout.rows_per_block if self.by_row else WARP * layout.vector
        sums = [s.reduction for s in self.program.statements if s.reduction is not None]
        return layout.parts * each * sum(DTYPES[one.accumulate] for one in sums)

    def thread_bytes(self, config: ReductionConfig, when: str = "") -> Moved:
        """What one thread moves in all its turns, up to a meeting of its team.  when: `MEETING` for what follows it."""
        layout = config.layout
        key = (
            layout.vector, bool(config.kept), layout.strips > 1, layout.strip > 1,
            layout.lanes > WARP, min(layout.lanes, WARP), config.turns > 1, layout.parts > 1, layout.joins > 1,
        )  # fmt: skip
        if key not in self.counted:
            tile = emit_reduction(replace(self.group, program=self.program), self.nest, config)
            tile = in_turns(tile) if config.turns > 1 else tile
            self.counted[key] = count_thread_traffic(tile, LOOPS)
        trips = (layout.strips, layout.strip, layout.strip, layout.lanes, config.turns, layout.joins, 0)
        lengths = dict(zip(LOOPS, trips, strict=True))
        until = self.counted[key].total(lengths)
        return self.counted[key].total({**lengths, MEETING: 1}) - until if when else until

    def _scratch(self, layout: Layout) -> int:
        """Bytes in which the warps of a block meet: each sum (and each largest exponent) in a buffer of its own."""
        if layout.lanes <= (WARP if self.by_row else 1):
            return 0
        parts = layout.threads // WARP if self.by_row else layout.threads * layout.vector
        sums = [s.reduction for s in self.program.statements if s.reduction is not None]
        # In each block of a team, and once more in the last of them.
        times = 2 if layout.parts > 1 else 1
        buffers = (parts_bytes(parts, sum) * (2 if sum.operation == SHIFTED_SUM else times) for sum in sums)
        return sum(buffers)


FIXED: dict[str, Value] = {
    "sharers": 1, "vector": 1, "rows": 1, "written_out": 1, "staging": REGISTER, "turns": 1, "stages": 1, "parts": 1,
}  # fmt: skip
"""Every dimension: threads (warps) that share a row, elements of one access, rows of a block, chunks written out, where
what several loops use waits, groups of rows that a block takes in turn, how many of them are under way, and blocks that
share a row."""


LOOPS = ("strip", "chunk", "chunk_of_strip", "part", TURN, "block_of_team", MEETING)
"""Counters of the loops of a reduction whose lengths follow from its configuration."""


def row_tasks(group: FusionGroup, kernel: Kernel) -> list[Task]:
    """Both ways to share out a reduction, that of `kernel` first."""
    return [make_task(way, situation(way), checks(way), kernel, way.machine) for way in ways(group, kernel)]


def ways(group: FusionGroup, kernel: Kernel) -> list[RowPrograms]:
    """Both ways to share out a reduction, that of `kernel` first."""
    program, nest = kernel.program, loop_nest(kernel.program, kernel.schedule)
    loop = next(p for p in nest.phases if p.members)
    element = max(DTYPES[program.arrays[name].dtype] for name in program.inputs or program.outputs)
    again, alive, slow = used_again(program, nest), most_alive(program.statements).values, slow_loops(program, nest)
    rows, length = (math.prod(m.extent for m in members) for members in (nest.outer, loop.members))
    facts = (rows, length, element, again, alive, slow)
    ways = [RowPrograms(group, kernel, nest, by_row, *facts) for by_row in (True, False)]
    ways.sort(key=lambda way: way.program_of(kernel) is None)
    for way in ways:
        # Kernels that differ in the rows of a block alone may meet sectors otherwise: the first one's count stays.
        stands = way.program_of(kernel)
        if stands is not None:
            way.thread_bytes(way.config(stands))
    return [way for way in ways if way.by_row or way.nest.outer]


def situation(family: RowPrograms) -> Situation:
    """What the rules may open of a reduction."""
    most = widest_vector(family.program, family.nest, family.by_row)
    vectors = tuple(1 << n for n in range(most.bit_length()))
    stands = family.program_of(family.kernel)
    rows = tuple(sorted({*ROWS, *divisors(family.kept, ROWS[-1]), *((stands.number("rows"),) if stands else ())}))
    offers: dict[str, Choices] = {
        CROSS_THREAD: {"sharers": SHARERS if family.by_row else WARPS},
        TILING: {"vector": vectors, "rows": rows if family.by_row and family.nest.outer else (1,)},
        PLACE_MAIN: {"written_out": CHUNKS_WRITTEN_OUT},
    }
    if not why_not_shared(family.program, family.nest):
        offers[CROSS_THREAD] = {**offers[CROSS_THREAD], "parts": family.parts}
    ahead: Choices = {"turns": TURNS, "stages": STAGES} if family.nest.outer else {}
    offers[CACHE_READ] = {**ahead, "staging": (REGISTER, AGAIN)} if family.again else ahead
    if len(family.program.statements) > 1:
        offers[INLINE] = {}
    fixed = FIXED if family.again else {**FIXED, "staging": REGISTER}
    return Situation(family.name, fixed, offers)


def checks(family: RowPrograms) -> tuple[PruningRule, ...]:
    """What kernels of reductions take, cheapest first."""
    return (
        PruningRule("parts", lambda p: _too_many_parts(family, p), "blocks share rows where there are too few of them"),
        PruningRule("turns", lambda p: _turns(family, p), "copies run ahead from turn to turn"),
        PruningRule("rows per block", lambda p: _rows_of_block(family, p), "whole warps, or the one row of several"),
        PruningRule("length of a row", lambda p: _too_wide(family, p), "threads past a row's end have nothing to do"),
        PruningRule("written-out loops", lambda p: _written_out(family, p), "other numbers would be the same kernel"),
        PruningRule("values alive", lambda p: _registers(family, p), "loops written out share what they read"),
        PruningRule("staging", lambda p: _staging(family, p), "both names would be the same kernel"),
        PruningRule("asynchronous copies", lambda p: _copies(family, p), "cp.async moves 4, 8 or 16 bytes"),
        PruningRule("order of terms", lambda p: _order(family, p), "sharers would add them in another order"),
    )


def _too_many_parts(family: RowPrograms, program: Program) -> str:
    layout, asked, sms = family.config(program).layout, program.number("parts"), family.machine.sm_count
    if asked == 1:
        return ""
    if program.number("turns") > 1:
        return "blocks that share rows take one group of them"
    if layout.blocks * layout.parts > MOST_WAVES * sms:
        return f"{layout.blocks * layout.parts} blocks for {sms} SMs"
    if layout.joins > MOST_JOINS:
        return f"each thread of the last block would wait for {layout.joins} parts"
    is_same = layout.parts <= max(fewer for fewer in family.parts if fewer < asked)
    return f"{asked} blocks, no more than {layout.parts} of which have a part of a row" if is_same else ""


def _turns(family: RowPrograms, program: Program) -> str:
    turns, stages = program.number("turns"), program.number("stages")
    if stages > turns:
        return f"{stages} stages of {turns} turns"
    blocks = family.config(program).layout.blocks if turns > 1 else turns
    return f"{turns} turns do not divide {blocks} blocks" if blocks % turns else ""


def _rows_of_block(family: RowPrograms, program: Program) -> str:
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


def _too_wide(family: RowPrograms, program: Program) -> str:
    chunk = program.number("sharers") * (program.number("vector") if family.by_row else 1)
    is_past = program.number("sharers") > 1 and chunk >= 2 * family.length
    return f"{chunk} elements at once, a row has {family.length}" if is_past else ""


def _written_out(family: RowPrograms, program: Program) -> str:
    chunks, wide = family.chunks(program), program.number("written_out")
    if wide >= 2 * chunks and wide > 1:
        return f"{wide} chunks, a thread has {chunks}"
    is_part = family.config(program).kept and wide < min(chunks, CHUNKS_WRITTEN_OUT[-1])
    return "registers have no addresses: all is written out" if is_part else ""


def _registers(family: RowPrograms, program: Program) -> str:
    config = family.config(program)
    layout = config.layout
    if config.kept or not layout.is_unrolled or layout.chunks == 1:
        return ""
    side_by_side = layout.strip * layout.vector * family.alive
    return f"{side_by_side} values alive at once" if side_by_side > VALUE_REGISTERS else ""


def _staging(family: RowPrograms, program: Program) -> str:
    if family.again and program["staging"] == REGISTER and not family.config(program).kept:
        return "a thread has not the registers for its part of a row"
    if family.again and program["staging"] == AGAIN and family.config(program).layout.chunks == 1:
        return "a thread has one chunk, which no loop is needed for"
    return ""


def _copies(family: RowPrograms, program: Program) -> str:
    config = family.config(program)
    copies = config.stages == 1 or family.thread_bytes(config).copied
    return "" if copies else f"{config.stages} stages, and no access to a row moves 4 bytes or more"


def _order(family: RowPrograms, program: Program) -> str:
    ordered = next((s for s in family.program.statements if s.reduction and not s.reduction.associative), None)
    if ordered is None or program.number("sharers") == 1:
        return ""
    return f"the terms of {ordered.name} must come in order"
