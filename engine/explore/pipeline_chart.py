"""The pipeline of one kernel as a chart: its tile program's actions, on the clock of ALCOP's model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.cost.alcop import predict_bottleneck, predict_pipeline
from engine.cost.alcop_nodes import PipelinePrediction
from engine.cost.alcop_work import alcop_work_of_kernel, copied_buffers, estimated_registers, main_loop
from engine.cost.estimate import estimate
from engine.documents.model import Time
from engine.documents.pipeline import COMPUTE, COPY, STORE, WAIT, BarDoc, ChartDoc, FlightDoc
from engine.explore.pipeline_clock import ISSUE_CYCLES, STALL, Arrival, ClockSpan, PipelineClock, Rhythm
from engine.explore.pipeline_hazards import hazards
from engine.explore.pipeline_trace import Trace, tiles_of, trace
from engine.explore.shared_memory import shared_docs
from engine.explore.what_if import choices
from engine.kernels.gemm.problem import config_of_tile
from engine.kernels.gemm.promise import fused_gemm_of_tile
from engine.kernels.nodes import Kernel
from engine.scheduling.text import to_text
from engine.target.hardware import SCHEDULERS, WARP
from engine.tile.nodes import Commit, For, TileOp, TileProgram, Wait
from engine.tile.printer import operation_lines

HEAD, TAIL = 6, 2
"""Steps that are drawn at the beginning and at the end of a long loop."""
GAP = 1.0
"""Of a step: the room that stands for the steps left out."""
ALCOP_NOTE = "ALCOP model, uncalibrated"
ONCE = "No tile of the loop: it is copied once"
BOTTLENECK_NOTE = "bottleneck model, uncalibrated"


@dataclass(frozen=True, slots=True)
class _Fold:
    """Steps of the middle that are left out."""

    first: int = 0
    count: int = 0
    start: float = 0.0
    end: float = 0.0
    cut: float = 0.0

    def shift(self, time: float) -> float:
        """A time in the picture."""
        return time - self.cut if self.count and time >= self.end else min(time, self.start) if self.count else time

    def hides(self, step: int) -> bool:
        """Whether a step is left out."""
        return self.first <= step < self.first + self.count


def chart(kernel: Kernel, registers: int | None = None) -> ChartDoc:
    """The chart of a compiled kernel.  registers: of a thread, where NVRTC was asked.

    Raises Unsupported where a block does not fit the target.
    """
    gemm, knobs = fused_gemm_of_tile(kernel.program, kernel.tile), config_of_tile(kernel.tile)
    problem = gemm.problem if gemm else None
    held = registers or (estimated_registers(problem, knobs) if problem and knobs else None)
    work = alcop_work_of_kernel(kernel.tile, replace(kernel.facts, registers=held), problem)
    predicted, least = predict_pipeline(work, kernel.target), predict_bottleneck(work, kernel.target)
    played = trace(kernel.tile)
    empty = ChartDoc(
        group=kernel.group.name,
        recipe=to_text(kernel.advice),
        title=f"Block 0 of {kernel.tile.grid:,}",
        loop="",
        because="this kernel has no loop that copies tiles to shared memory: there is nothing to pipeline",
        steps=0,
        stages=kernel.tile.stages,
        register_stages=kernel.tile.register_stages,
        resident=predicted.pace.resident,
        registers=registers or 0,
        bars=(),
        flights=(),
        hazards=(),
        folded=(0, 0),
        folded_cycles=0.0,
        cycles=0.0,
        stalled=0.0,
        clock=kernel.target.clock.value / 1e6,
        time=estimate(kernel.facts, kernel.target).time(),
        alcop=Time(predicted.microseconds, predicted.origin, ALCOP_NOTE),
        baseline=Time(least.microseconds, least.origin, BOTTLENECK_NOTE),
        terms=predicted.terms,
        shared=shared_docs(kernel.tile),
        shared_bytes=kernel.source.shared_bytes,
        shared_limit=kernel.target.shared_limit,
        gemm=gemm,
        knobs=knobs,
        choices=choices(problem, knobs, kernel.target) if problem and knobs else (),
    )
    return empty if played is None else _draw_trace(kernel, played, predicted, empty)


def _draw_trace(kernel: Kernel, played: Trace, predicted: PipelinePrediction, empty: ChartDoc) -> ChartDoc:
    loop = main_loop(kernel.tile.body)
    assert loop is not None
    looped = {buffer.name for buffer in empty.shared if buffer.in_loop}
    clock = PipelineClock(played, _rhythm(kernel, predicted, empty.clock), tiles_of(played, looped))
    cycles = clock.play()
    fold = _fold(clock.spans, played)
    lines = code_lines(kernel.tile, loop)
    found = hazards(played)
    wrong = {(hazard.step, hazard.stage): hazard.text for hazard in found}
    stages = {action.step: action.stage for action in reversed(played.actions) if action.kind == "read"}
    ahead = 1 if kernel.tile.register_stages > 1 else 0  # the wait stands before the first read of the next tile
    bars = _Bars(fold, lines, stages, wrong, played.steps)
    return replace(
        empty,
        loop=loop.at.dimensions[-1] if loop.at.dimensions else loop.name,
        because="" if played.walked == played.steps else f"the first {played.walked:,} of {played.steps:,} steps",
        steps=played.steps,
        bars=tuple(bars.bar(span, _tile(span, ahead)) for span in clock.spans if not fold.hides(span.step)),
        flights=tuple(_flights(clock.arrivals, clock.spans, fold)),
        hazards=found,
        folded=(fold.first, fold.count),
        folded_cycles=fold.cut,
        cycles=cycles,
        stalled=sum(span.end - span.start for span in clock.spans if span.kind == STALL),
    )


def _rhythm(kernel: Kernel, predicted: PipelinePrediction, clock: float) -> Rhythm:
    pace, warps = predicted.pace, -(-kernel.tile.threads // WARP)
    waves = max(1.0, predicted.term("waves").value)
    return Rhythm(
        resident=pace.resident,
        latency=pace.latency * clock,
        transfer=pace.transfer * clock / pace.resident,
        use=pace.use * clock,
        epilogue=predicted.term("epilogue").value / waves * clock,
        issue=ISSUE_CYCLES * warps / SCHEDULERS,
    )


def _fold(spans: Sequence[ClockSpan], played: Trace) -> _Fold:
    """Leaves out the middle of a loop that is too long to be drawn."""
    steps = played.walked
    if steps <= HEAD + TAIL + 2:
        return _Fold()
    begins = {span.step: span.start for span in reversed(spans)}
    start, end = begins[HEAD], begins[steps - TAIL]
    gap = GAP * (end - start) / (steps - TAIL - HEAD)
    return _Fold(HEAD, steps - TAIL - HEAD, start, end, end - start - gap)


@dataclass(frozen=True, slots=True)
class _Bars:
    """What the bars of one chart have in common."""

    fold: _Fold
    lines: Mapping[tuple[str, str], tuple[int, ...]]
    """Of the CUDA text: (row, "fill", "loop" or "after") -> from 1."""
    stages: Mapping[int, int]
    """Step -> the stage that it reads."""
    wrong: Mapping[tuple[int, int], str]
    """(step, stage) -> its hazard."""
    steps: int

    def bar(self, span: ClockSpan, tile: int | None) -> BarDoc:
        """A span as it is drawn.  tile: that it is about, where it is one of the loop's."""
        is_tile = span.row != STORE and tile is not None and 0 <= tile < self.steps
        stage = None if tile is None or not is_tile else span.stage if span.row == COPY else self.stages.get(tile)
        where = "fill" if span.step < 0 else "loop" if span.step < self.steps else "after"
        text = self.wrong.get((span.step, stage), "") if span.row in (COPY, COMPUTE) and stage is not None else ""
        return BarDoc(
            row=span.row,
            step=span.step,
            tile=tile if is_tile else None,
            stage=stage,
            start=self.fold.shift(span.start),
            end=self.fold.shift(span.end),
            kind="hazard" if text else span.kind,
            because=text or (ONCE if span.row == COPY and not is_tile else ""),
            lines=self.lines.get((span.row, where), ()),
        )


def _tile(span: ClockSpan, ahead: int) -> int | None:
    """The tile that a span is about.  ahead: tiles between the one that is used in a step and the one waited for."""
    return span.tile if span.row == COPY else span.step + (ahead if span.row == WAIT else 0)


def _flights(arrivals: Sequence[Arrival], spans: Sequence[ClockSpan], fold: _Fold) -> list[FlightDoc]:
    """When each tile that is drawn is copied, there, used, and done with."""
    used: dict[int, tuple[float, float]] = {}
    for span in spans:
        if span.row == COMPUTE:
            first, _ = used.get(span.step, (span.start, 0.0))
            used[span.step] = (first, span.end)
    copies: dict[int, list[Arrival]] = {}
    for arrival in arrivals:
        if arrival.tile is not None:
            copies.setdefault(arrival.tile, []).append(arrival)
    found = []
    for tile, parts in copies.items():
        if tile in used and not fold.hides(tile):
            issued, arrived = min(part.issued for part in parts), max(part.arrived for part in parts)
            if fold.count and tile >= fold.first:
                issued, arrived = max(issued, fold.end - (fold.end - fold.start - fold.cut)), max(arrived, fold.end)
            times = [fold.shift(time) for time in (issued, arrived, *used[tile])]
            found.append(FlightDoc(parts[0].stage, tile, *times))
    return found


def code_lines(tile: TileProgram, loop: For) -> dict[tuple[str, str], tuple[int, ...]]:
    """(row, "fill", "loop" or "after") -> lines of the CUDA text, from 1.  loop: the main one."""
    copied = copied_buffers(tile)
    spans = operation_lines(tile)
    inside = next(lines for op, lines in spans if op is loop)
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for op, lines in spans:
        if not lines:  # a register whose first value declares it
            continue
        where = "fill" if lines[0] < inside[0] else "loop" if lines[0] in inside else "after"
        row = _row(op, copied)
        if row and (row == STORE) == (where == "after"):
            found[row, where] = (*found.get((row, where), ()), *lines)
    return found


def _row(op: TileOp, copied: Collection[str]) -> str:
    """The row of the chart that an operation belongs to, or ""."""
    if isinstance(op, Wait) or (op.meets == "block" and not op.bodies):
        return WAIT
    if isinstance(op, Commit) or any(region.buffer in copied for region in op.regions_written):
        return COPY
    if op.products is not None or any(region.buffer in copied for region in op.regions_read):
        return COMPUTE
    return STORE if op.regions_written else ""
