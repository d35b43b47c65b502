"""One operator of the pipeline benchmark: its configurations ranked, compiled, and their shared memory counted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import engine
from engine.cost.alcop import allowed_registers, predict_bottleneck, predict_pipeline
from engine.cost.alcop_nodes import AlcopWork, GemmProblem, PipelinePrediction
from engine.cost.alcop_work import alcop_work_of_config, alcop_work_of_kernel, estimated_registers
from engine.execution.emulate.emulate import emulate
from engine.fusion.nodes import FusionGroup
from engine.kernels.gemm.entries import entries_of, with_user_entries
from engine.kernels.gemm.problem import config_of_tile, gemm_axes
from engine.kernels.gemm.promise import fused_gemm_of_tile
from engine.suite import SuiteRow, read_suite
from engine.suite.nodes import Size
from engine.suite.operators import model_of
from engine.support.errors import EngineError, Unsupported
from engine.target import Target, target
from engine.target.copies import HELD_STAGES, MOST_HELD, SMALLEST_COPY
from engine.tensorize.bind import GemmAxes
from engine.tensorize.space import GemmConfig

SUITE, TARGET, ARCHITECTURE = "alcop", "a100", "sm_80"
TILES = (
    ((128, 128, 32), (64, 32)),
    ((128, 128, 32), (64, 64)),
    ((128, 256, 32), (64, 64)),
    ((256, 128, 32), (64, 64)),
    ((128, 64, 32), (32, 32)),
    ((64, 128, 64), (32, 64)),
    ((64, 64, 32), (32, 32)),
    ((64, 64, 64), (32, 32)),
    ((64, 32, 64), (32, 16)),
    ((32, 32, 64), (16, 16)),
)
"""Blocks and warps, the largest reuse first."""
CLASSIC = (GemmConfig((128, 256, 32), (64, 64), 3), GemmConfig((256, 128, 32), (64, 64), 3))
"""Tiles that the best kernels of this class use on an A100."""
STAGES, SETS = (2, 3, 4, 5, 6), (1, 2, 4)
TOP = 10
WHOLE = 8
"""Channels of a reduced convolution come in multiples of this: whole vectors."""
UNPIPELINED, SHARED, BOTH = "unpipelined", "shared", "both"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One compiled kernel of an operator.  Times are predicted by models that no GPU has calibrated."""

    operator: str
    knobs: str
    level: str
    """What is pipelined: "unpipelined", "shared" memory, or "both" levels."""
    rank: int
    """Place in the ALCOP model's order of all pipelined configurations, from 1; 0 for an unpipelined one."""
    registers: int
    estimated_registers: int
    spill_bytes: int
    shared_bytes: int
    blocks_per_sm: int
    occupancy: float
    """Resident warps over the SM's limit."""
    alcop_microseconds: float
    """With the compiler's registers."""
    bottleneck_microseconds: float
    loads: int = 0
    """Reads of whole warps from shared memory, counted in one block at a reduced size; 0 where not counted."""
    load_conflicts: int = 0
    """Extra passes that they need."""
    copy_conflicts: int = 0
    """Extra passes of what is copied to shared memory."""


class Operator:
    """One row of the suite as a fusion group with its contraction."""

    def __init__(self, row: SuiteRow) -> None:
        self.row, self.machine = row, target(TARGET)
        self.group = contraction_group(engine.fuse(engine.load(f"suite:{SUITE}/{row.name}"), target=TARGET).groups)
        self.recipe = engine.default_recipe(self.group, target=TARGET)
        kernel = engine.compile(self.group, self.recipe)
        gemm, axes = fused_gemm_of_tile(kernel.program, kernel.tile), gemm_axes(kernel.program)
        if gemm is None or axes is None or not gemm.problem.unit:
            raise Unsupported("benchmark", row.name, "is not computed by tensor cores")
        self.problem: GemmProblem = gemm.problem
        self.axes: GemmAxes = axes

    def kernel(self, knobs: GemmConfig) -> engine.Kernel | None:
        """The kernel at some knobs; None where it does not take them all."""
        recipe = with_user_entries(self.recipe, self.group.name, entries_of(self.axes, knobs))
        try:
            kernel = engine.compile(self.group, recipe)
        except Unsupported:
            return None
        return kernel if config_of_tile(kernel.tile) == knobs else None

    def ranked(self) -> list[GemmConfig]:
        """Every pipelined configuration that fits the GPU and its registers, the fastest by the model first."""
        sets = SETS if self.kernel(GemmConfig(*TILES[0], stages=3, register_stages=2)) else (1,)
        times = dict(self._predicted(sets))
        return sorted(times, key=times.__getitem__)

    def _predicted(self, sets: tuple[int, ...]) -> Iterator[tuple[GemmConfig, float]]:
        for block, part in TILES:
            for stages in STAGES:
                for register_stages in (s for s in sets if s <= max(1, block[2] // self.problem.instruction[2])):
                    knobs = GemmConfig(block, part, stages, register_stages)
                    work = alcop_work_of_config(self.problem, knobs)
                    spills = (work.registers or 0) > allowed_registers(work.threads, self.machine)
                    found = None if spills or not self._is_held(knobs) else _fitting(work, self.machine)
                    if found and stages <= -(-self.problem.k // block[2]):
                        yield knobs, found.microseconds

    def _is_held(self, knobs: GemmConfig) -> bool:
        """Whether a thread has registers for what no asynchronous copy brings; else nothing is pipelined."""
        size, threads = self.problem.element_bytes, knobs.parts * self.problem.lanes
        sides = zip(knobs.block[:2], self.problem.widths, strict=True)
        return all(
            w * size >= SMALLEST_COPY
            or (knobs.stages <= HELD_STAGES and side * knobs.block[2] <= MOST_HELD * w * threads)
            for side, w in sides
        )

    def compiled(self, knobs: GemmConfig, rank: int) -> Configuration | None:
        """Registers, spills, occupancy and both models' times; None for knobs that the kernel does not take."""
        kernel = self.kernel(knobs)
        if kernel is None:
            return None
        figures = engine.nvrtc(kernel, ARCHITECTURE)
        work = alcop_work_of_kernel(kernel.tile, replace(kernel.facts, registers=figures.registers), self.problem)
        work = replace(work, spill_bytes=figures.spill_bytes)
        alcop, bottleneck = predict_pipeline(work, self.machine), predict_bottleneck(work, self.machine)
        return Configuration(
            operator=self.row.name,
            knobs=str(knobs),
            level=BOTH if knobs.register_stages > 1 else SHARED if knobs.stages > 1 else UNPIPELINED,
            rank=rank,
            registers=figures.registers,
            estimated_registers=estimated_registers(self.problem, knobs),
            spill_bytes=figures.spill_bytes,
            shared_bytes=kernel.source.shared_bytes,
            blocks_per_sm=alcop.occupancy.blocks,
            occupancy=alcop.occupancy.share,
            alcop_microseconds=alcop.microseconds,
            bottleneck_microseconds=bottleneck.microseconds,
        )

    def with_conflicts(self, configuration: Configuration, knobs: GemmConfig) -> Configuration:
        """The same with the conflicts that one block of a small operator of this kind has."""
        loads, conflicts, copies = counted(self.row, knobs)
        return replace(configuration, loads=loads, load_conflicts=conflicts, copy_conflicts=copies)


def run_operator(name: str, top: int = TOP, every_tile: bool = True) -> list[Configuration]:
    """Compile the model's `top`, the classic tiles, and every tile with three stages and with one."""
    operator = Operator(next(row for row in read_suite(SUITE).rows if row.name == name))
    ranked = operator.ranked()
    ranks = {knobs: number for number, knobs in enumerate(ranked, 1)}
    best = ranked[:top]
    tiles = TILES if every_tile else TILES[:1]
    spread = [GemmConfig(block, part, 3) for block, part in tiles]
    plain = [GemmConfig(block, part) for block, part in tiles]
    chosen = dict.fromkeys((*best, *CLASSIC, *(k for k in spread if k in ranks), *plain))
    found = [(knobs, operator.compiled(knobs, ranks.get(knobs, 0))) for knobs in chosen]
    rows = [(knobs, row) for knobs, row in found if row is not None]
    first = {best[0], min((k for k, row in rows if row.level == UNPIPELINED), key=lambda k: _time(rows, k))}
    return [operator.with_conflicts(row, knobs) if knobs in first else row for knobs, row in rows]


def _time(rows: list[tuple[GemmConfig, Configuration]], knobs: GemmConfig) -> float:
    return next(row.alcop_microseconds for other, row in rows if other == knobs)


def contraction_group(groups: tuple[FusionGroup, ...]) -> FusionGroup:
    """The one group of an operator that multiplies; a convolution may have its borders in another."""
    return next(group for group in groups if group.kind == "contraction")


def _fitting(work: AlcopWork, machine: Target) -> PipelinePrediction | None:
    try:
        return predict_pipeline(work, machine)
    except Unsupported:
        return None


def counted(row: SuiteRow, knobs: GemmConfig) -> tuple[int, int, int]:
    """Reads of shared memory, their extra passes, and those of copies: a block of a small operator of the kind."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "small.onnx"
        path.write_bytes(model_of(replace(row, sizes=_reduced(row, knobs))).SerializeToString())
        group = contraction_group(engine.fuse(engine.load(path), target=TARGET).groups)
        axes = gemm_axes(group.program)
        assert axes is not None
        recipe = with_user_entries(engine.default_recipe(group, target=TARGET), group.name, entries_of(axes, knobs))
        kernel = engine.compile(group, recipe)
    zeros = {b.array: np.zeros(b.elements, b.dtype) for b in kernel.source.buffers if b.read}
    run, _, _ = emulate(kernel.source, zeros, blocks=(0,), timeout=60)
    if run.findings or config_of_tile(kernel.tile) != knobs:
        raise EngineError("benchmark", row.name, f"the small kernel of {knobs} is not the same: {run.findings[:1]}")
    loads = [site for site in run.counts if site.kind == "shared load"]
    copies = sum(site.conflicts for site in run.counts if site.kind in ("async copy", "shared store"))
    return sum(site.requests for site in loads), sum(site.conflicts for site in loads), copies


def _reduced(row: SuiteRow, knobs: GemmConfig) -> dict[str, Size]:
    """Two blocks along each side and enough depth to fill the pipeline."""
    m, n, k = knobs.block
    deep = (knobs.stages + 2) * k
    if row.operator != "conv":
        return {**row.sizes, "m": 2 * m, "n": 2 * n, "k": deep, **({"b": 2} if "b" in row.sizes else {})}
    space, kernel = row.sizes["space"], row.sizes["kernel"]
    assert isinstance(space, tuple) and isinstance(kernel, tuple)
    small = tuple(min(extent, 8) for extent in space)
    channels = -(-deep // math.prod(kernel) // WHOLE) * WHOLE
    return {**row.sizes, "batch": -(-2 * m // math.prod(small)), "space": small, "channels": channels, "filters": 2 * n}
