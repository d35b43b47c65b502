"""Recurrences in one launch: every block takes its part of each step, then all blocks meet.

    step 1: h1 = f(h0 @ r)   ->   h1 to global memory   ->   all blocks meet   ->   step 2: h2 = f(h1 @ r)   ->   ...

All blocks must be on the GPU at once, for each waits for all others: no more than its SMs have room for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.fusion.nodes import GLOBAL, FusionGroup
from engine.fusion.recurrence import step_group
from engine.kernels.family import Setting
from engine.kernels.general.launches import with_workspaces
from engine.kernels.loop_nest import block_nest
from engine.kernels.marks import Marks
from engine.kernels.stitched.lower import lower_stitched
from engine.scheduling.nodes import ScheduleTree, statements_of
from engine.scheduling.nodes import Sequence as Steps
from engine.support.errors import Unsupported
from engine.target import Target
from engine.target.hardware import BLOCK_REGISTERS
from engine.target.occupancy import occupancy
from engine.tensor.index import Index
from engine.tensor.nodes import TensorProgram
from engine.tile.nodes import BLOCK, Buffer, GridPhases, KernelConfig, TileOp, TileProgram, UniformIf
from engine.tile.source import Footprint
from engine.tile.storage import shared_map

ARRIVALS = "arrivals"
REGISTERS = 96
"""Of a thread, for which all blocks must have room.  With 64, NVRTC 13 spilled 16 to 48 bytes of the LSTM steps of one
shared model (lstm_lm); with 96 nothing of that and of three others."""
WAITED_FOR = "another step makes or reads it: all blocks meet in between"


@dataclass(frozen=True, slots=True)
class RecurrenceConfig(KernelConfig):
    """What each step does."""

    threads: int
    """Of a block, in every step."""
    steps: tuple[KernelConfig | None, ...]


def lower_recurrence(group: FusionGroup, tree: ScheduleTree, setting: Setting) -> TileProgram:
    """One kernel for steps that the schedule runs one after the other."""
    taken: dict[str, Buffer] = {}
    programs: list[TileProgram] = []
    for step, its in steps_of_schedule(group, tree):
        nest = block_nest(step.program, its)
        programs.append(lower_stitched(step, nest, Marks(nest), setting.machine, taken))
        taken = {n: b for n, b in programs[-1].buffers.items() if b.scope != "global"} | taken
    return _one_after_the_other(group, programs, setting.machine)


def steps_of_schedule(group: FusionGroup, tree: ScheduleTree) -> Iterator[tuple[FusionGroup, ScheduleTree]]:
    """What the schedule runs one after the other, each as a group of its own."""
    if not isinstance(tree.root, Steps):
        reason = "its steps share a loop, and each of them needs all of what the one before makes"
        raise Unsupported("codegen", f"schedule of {group.name}", reason, "cut the steps at the outermost dimension")
    for child in tree.root.children:
        yield step_group(group, statements_of(child)), ScheduleTree(child)


def _one_after_the_other(group: FusionGroup, programs: Sequence[TileProgram], machine: Target) -> TileProgram:
    """The steps' programs as phases of one launch."""
    program, first, grid = group.program, programs[0], max(p.grid for p in programs)
    threads = {p.threads for p in programs}
    if len(threads) > 1:
        reason = f"its steps ask for blocks of {' and '.join(map(str, sorted(threads)))} threads"
        raise Unsupported("codegen", group.name, reason, "mark the same number of threads on all of them")
    buffers = _with_workspaces(program, programs)
    outside = {n for n, b in buffers.items() if b.scope == "global"}
    read = {n for p in programs for n in p.read} & {*program.inputs}
    works = [(_of_first_blocks(p, grid), tuple(p.placements)) for p in programs]
    tile = replace(
        first,
        title=(f"{group.name}: {group.title}", *(str(s) for s in program.statements)),
        grid=grid,
        constants={"STEPS": len(programs)},
        assertions=(),
        buffers=buffers,
        written=frozenset(n for p in programs for n in p.written if n in outside),
        read=frozenset(read),
        body=(GridPhases.with_meetings(works, ARRIVALS),),
        footprints=tuple(_in_grid(f, p.grid, grid) for p in programs for f in p.footprints if f.array in outside),
        placements={n: text for p in programs for n, text in p.placements.items()} | _handed_over(program, programs),
        config=RecurrenceConfig(first.threads, tuple(p.config for p in programs)),
        requests=(),
        notes={path: note for p in programs for path, note in p.notes.items()},
        schemes={n: scheme for p in programs for n, scheme in p.schemes.items()},
    )
    return replace(tile, together=_blocks_of_an_sm(tile, machine))


def _of_first_blocks(step: TileProgram, grid: int) -> tuple[TileOp, ...]:
    """What a step does, by as many blocks as it has of those of the launch."""
    return step.body if step.grid == grid else (UniformIf(_is_among(step.grid), step.body),)


def _is_among(blocks: int) -> Index:
    """>= 0 in the first blocks."""
    return Index((), blocks - 1) - Index.of(BLOCK)


def _in_grid(footprint: Footprint, blocks: int, grid: int) -> Footprint:
    """What the first blocks store, over all of them."""
    counters = {**footprint.counters, BLOCK: grid}
    return replace(footprint, counters=counters, guards=(*footprint.guards, _is_among(blocks)))


def _with_workspaces(program: TensorProgram, programs: Sequence[TileProgram]) -> dict[str, Buffer]:
    """The buffers of all steps: what one hands to another and nobody else needs is memory of the launch alone."""
    # Later steps know the buffers of earlier ones, but not where those lie.
    buffers = {n: b for p in reversed(programs) for n, b in p.buffers.items()}
    return {**with_workspaces(program, buffers), ARRIVALS: Buffer(ARRIVALS, "int32", (1,), "workspace")}


def _handed_over(program: TensorProgram, programs: Sequence[TileProgram]) -> dict[str, str]:
    """Where results live that one step hands to another."""
    read = {array for p in programs for array in p.read}
    return {s.name: f"{GLOBAL}: {WAITED_FOR}" for s in program.statements if s.write.array in read}


def _blocks_of_an_sm(tile: TileProgram, machine: Target) -> int:
    """Blocks that the SM with most of them runs at once; Unsupported where the GPU has no room for all."""
    most = most_blocks(tile.threads, shared_map(tile.buffers)[1], machine)
    if tile.grid > most:
        reason = f"its {tile.grid:,} blocks wait for each other; {machine.name} runs {most:,} of {tile.threads} threads"
        raise Unsupported("codegen", tile.name, reason, "mark more points for each block")
    return -(-tile.grid // machine.sm_count)


def most_blocks(threads: int, shared_bytes: int, machine: Target) -> int:
    """Blocks that the GPU runs at once.  threads, shared_bytes: of a block."""
    by_registers = BLOCK_REGISTERS // (REGISTERS * threads)
    return machine.sm_count * min(occupancy(threads, shared_bytes, None, machine).blocks, by_registers)
