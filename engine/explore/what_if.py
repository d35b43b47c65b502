"""What other knobs would give a contraction, by the estimate alone: quick enough to follow a slider."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.cost.alcop import allowed_registers, predict_pipeline
from engine.cost.alcop_nodes import GemmProblem
from engine.cost.alcop_work import alcop_work_of_config, estimated_registers
from engine.cost.estimate import estimate, estimate_microseconds
from engine.documents.pipeline import ChartDoc, ChoiceDoc, QuantityDoc, RefusalDoc, WhatIfDoc
from engine.documents.units import kib
from engine.kernels.gemm.block_order import with_order_of
from engine.kernels.gemm.limits import LIMITS, first_broken
from engine.kernels.gemm.nodes import FusedGemm
from engine.kernels.gemm.tiles import SLICES, SPLITS
from engine.kernels.gemm.work import work
from engine.pipeline.detect import MAX_STAGES
from engine.support.divisors import divisors
from engine.support.errors import BadInput, Unsupported
from engine.target import Target
from engine.target import target as find_target
from engine.target.occupancy import Occupancy, occupancy
from engine.tensorize.space import GemmConfig

MOST_SETS = (1, 2, 4)
LEAST = 8
"""Rows, columns and depths of a tile that is still offered."""
TITLES = {
    "rows": "Tile rows", "columns": "Tile columns", "depth": "Tile depth", "warps": "Warps", "threads": "Threads",
    "stages": "Stages", "register_stages": "Register stages", "slices": "Depth slices", "split_k": "Split-K blocks",
}  # fmt: skip


def choices(problem: GemmProblem, knobs: GemmConfig, target: Target) -> tuple[ChoiceDoc, ...]:
    """The knobs with the values that a slider offers; what does not fit is refused with figures, not left out."""
    on_tensor_cores = bool(problem.unit)
    sides = (16, 32, 64, 128, 256) if on_tensor_cores else (8, 16, 32, 64, 128)
    depths = (16, 32, 64, 128) if on_tensor_cores else (8, 16, 32, 64)
    parts = (1, 2, 4, 8, 16) if on_tensor_cores else (32, 64, 128, 256, 512, 1024)
    stages = tuple(range(1, MAX_STAGES + 1))
    offered = [
        ("rows", knobs.block[0], sides), ("columns", knobs.block[1], sides), ("depth", knobs.block[2], depths),
        ("warps" if on_tensor_cores else "threads", knobs.parts, parts), ("stages", knobs.stages, stages),
    ]  # fmt: skip
    if on_tensor_cores:
        offered.append(("register_stages", knobs.register_stages, MOST_SETS))
    offered += [("slices", knobs.slices, SLICES), ("split_k", knobs.split_k, SPLITS)]
    return tuple(
        ChoiceDoc(name, TITLES[name], value, tuple(sorted({*values, value}))) for name, value, values in offered
    )


def turn_knob(problem: GemmProblem, knobs: GemmConfig, name: str, value: int) -> GemmConfig:
    """The knobs with one turned; parts are cut anew where the tile or their number changes."""
    match name:
        case "rows":
            return _with_parts(problem, replace(knobs, block=(value, *knobs.block[1:])), _cut(knobs))
        case "columns":
            return _with_parts(problem, replace(knobs, block=(knobs.block[0], value, knobs.block[2])), _cut(knobs))
        case "depth":
            return replace(knobs, block=(*knobs.block[:2], value))
        case "warps" | "threads":
            return _with_parts(problem, knobs, max(1, value // knobs.slices))
        case "stages":
            return replace(knobs, stages=value)
        case "register_stages":
            return replace(knobs, register_stages=value)
        case "split_k":
            return replace(knobs, split_k=value)
        case _:
            return replace(knobs, slices=value)


def _cut(knobs: GemmConfig) -> int:
    """Parts that a tile's rows and columns are cut into."""
    return knobs.parts // knobs.slices


def _with_parts(problem: GemmProblem, knobs: GemmConfig, count: int) -> GemmConfig:
    """The block cut into `count` parts, or as many as there is room for, the squarest that read the least."""
    rows, columns, _ = knobs.block
    least = 16 if problem.unit else 1
    possible = [
        (rows // down, columns // (count // down))
        for down in divisors(count, count)
        if rows % down == 0 and columns % (count // down) == 0
    ]
    fitting = [part for part in possible if min(part) >= least]
    if not fitting:
        return _with_parts(problem, knobs, count // 2) if count > 1 else replace(knobs, part=(rows, columns))
    return replace(knobs, part=min(fitting, key=lambda part: (sum(part), -part[0])))


def what_if_of_chart(chart: ChartDoc, knobs: GemmConfig, target: str) -> WhatIfDoc:
    """What other knobs would give a chart's contraction.  BadInput where there are no knobs, or no such target."""
    if chart.gemm is None or chart.knobs is None:
        raise BadInput("explore", chart.group, "is no contraction with tiles: it has no such knobs")
    return what_if(chart.gemm, chart.knobs, knobs, target, chart.registers)


def what_if(gemm: FusedGemm, now: GemmConfig, then: GemmConfig, target_name: str, registers: int = 0) -> WhatIfDoc:
    """Registers, occupancy and time under `then` beside those under `now`.

    registers: of a thread now, as NVRTC says; the estimate for `then` is off by as much as that for `now`.  Times are
    those of every other view, which know no such correction.  Raises BadInput for an unknown target.
    """
    machine = find_target(target_name)
    then = with_order_of(now, then, gemm.problem, machine)
    off = registers - estimated_registers(gemm.problem, now) if registers else 0
    refusal = why_refused(gemm, then, machine)
    launches = _launch(gemm, now, machine, off), _launch(gemm, then, machine, off, refusal is None)
    return WhatIfDoc(
        knobs=then,
        choices=choices(gemm.problem, then, machine),
        quantities=_quantities(*launches, machine, bool(registers)),
        now=estimate(work(gemm, now, machine), machine).time(),
        then=None if refusal else estimate(work(gemm, then, machine), machine).time(),
        alcop=(launches[0].alcop, launches[1].alcop),
        sweep=tuple(_sweep(gemm, then, machine)),
        refusal=refusal,
    )


def why_refused(gemm: FusedGemm, knobs: GemmConfig, machine: Target) -> RefusalDoc | None:
    """Why a kernel cannot have these knobs, with figures, and the nearest that it can; None where it can."""
    text = _how_broken(gemm, knobs, machine)
    if not text:
        return None
    nearest = _nearest(gemm, knobs, machine)
    return RefusalDoc(text, nearest, _difference(knobs, nearest) if nearest else "")


def _how_broken(gemm: FusedGemm, knobs: GemmConfig, machine: Target) -> str:
    """The limit that knobs break, with figures; "" where they keep all."""
    broken = first_broken(gemm.problem, knobs, machine, LIMITS)
    if broken is not None:
        return broken[1]
    try:
        estimate_microseconds(work(gemm, knobs, machine), machine)
    except Unsupported as error:  # limits count tiles alone: pads and a staged epilogue can still be too much
        return error.reason
    return ""


def _nearest(gemm: FusedGemm, knobs: GemmConfig, machine: Target) -> GemmConfig | None:
    """The fewest steps back: split-K first, then slices, register stages, stages, whole parts, half a tile."""
    problem = gemm.problem
    steps = max(1, problem.steps(knobs.block[2]))
    fewer = itertools.product(
        range(min(knobs.stages, steps), 0, -1), _up_to(knobs.register_stages, MOST_SETS), _up_to(knobs.slices, SLICES),
        _up_to(knobs.split_k, SPLITS),
    )  # fmt: skip
    rows, columns, depth = knobs.block
    halves = ((rows, columns, depth // 2), (rows // 2, columns, depth), (rows, columns // 2, depth))
    tried = itertools.chain(
        (replace(knobs, stages=n, register_stages=sets, slices=s, split_k=k) for n, sets, s, k in fewer),
        [_with_parts(problem, knobs, _cut(knobs))],
        (_with_parts(problem, replace(knobs, block=h), _cut(knobs)) for h in halves if min(h) >= LEAST),
    )
    return next((near for near in tried if not _how_broken(gemm, near, machine)), None)


def _up_to(most: int, values: Sequence[int]) -> list[int]:
    """Those of a knob's values that are no more than it has now, the largest first."""
    return [value for value in reversed(values) if value <= most]


def _difference(asked: GemmConfig, near: GemmConfig) -> str:
    """What changes, in words: "3 stages", "a tile of 128 x 64 x 32"."""
    if asked.block != near.block:
        return "a tile of {} x {} x {}".format(*near.block)
    if asked.stages != near.stages:
        return f"{near.stages} stage{'s' if near.stages > 1 else ''}"
    if asked.slices != near.slices:
        return f"{near.slices} slice{'s' if near.slices > 1 else ''}"
    if asked.split_k != near.split_k:
        return f"split-K {near.split_k}"
    if asked.part != near.part:
        return "parts of {} x {}".format(*near.part)
    return f"{near.register_stages} register stage{'s' if near.register_stages > 1 else ''}"


def _sweep(gemm: FusedGemm, knobs: GemmConfig, machine: Target) -> Iterator[tuple[int, float]]:
    """Predicted time over the number of stages."""
    for stages in range(1, MAX_STAGES + 1):
        tried = replace(knobs, stages=stages)
        if not _how_broken(gemm, tried, machine):
            yield stages, estimate_microseconds(work(gemm, tried, machine), machine)


@dataclass(frozen=True, slots=True)
class _Limits:
    """What decides how many blocks an SM holds."""

    threads: int
    shared_bytes: int
    registers: int
    """Of a thread; more than it may have are spilled."""
    occupancy: Occupancy | None
    """None for knobs that are refused."""
    waves: float
    alcop: float | None
    """Microseconds by ALCOP's model."""


def _launch(gemm: FusedGemm, knobs: GemmConfig, machine: Target, off: int, is_possible: bool = True) -> _Limits:
    """A kernel at some knobs, its registers estimated and put right by `off`."""
    problem = gemm.problem
    threads, registers = knobs.parts * problem.lanes, max(1, estimated_registers(problem, knobs) + off)
    if not is_possible:
        return _Limits(threads, problem.shared_bytes(knobs), registers, None, 0.0, None)
    found = work(gemm, knobs, machine)
    room = occupancy(threads, found.shared_bytes, min(registers, allowed_registers(threads, machine)), machine)
    waves = found.blocks / (machine.sm_count * room.blocks)
    alcop = predict_pipeline(alcop_work_of_config(problem, knobs, registers), machine).microseconds
    return _Limits(threads, found.shared_bytes, registers, room, waves, alcop)


def _quantities(now: _Limits, then: _Limits, machine: Target, known: bool) -> tuple[QuantityDoc, ...]:
    """The figures that decide how many blocks an SM holds.  known: whether the present registers are NVRTC's."""
    limiter = then.occupancy.limiter if then.occupancy else ""
    placed = [_placement(launch, machine) for launch in (now, then)]
    rows = (
        ("Shared per block", kib(now.shared_bytes), kib(then.shared_bytes), kib(machine.shared_limit), "shared memory"),
        (
            "Registers per thread", _registers(now, machine, known), _registers(then, machine, False),
            f"{allowed_registers(then.threads, machine)}", "registers",
        ),
        ("Threads per block", f"{now.threads}", f"{then.threads}", f"{machine.threads_per_block.value:,.0f}", "warps"),
    )  # fmt: skip
    limits = [QuantityDoc(name, a, b, limit, limiter == resource) for name, a, b, limit, resource in rows]
    names = ("Blocks an SM holds", "Warps an SM holds", "Waves")
    rest = [QuantityDoc(n, a, b, "", False) for n, a, b in zip(names, placed[0], placed[1], strict=True)]
    return (*limits, *rest)


def _registers(launch: _Limits, machine: Target, known: bool) -> str:
    spills = ", spills" if launch.registers > allowed_registers(launch.threads, machine) else ""
    return f"{'' if known else '≈ '}{launch.registers}{spills}"


def _placement(launch: _Limits, machine: Target) -> tuple[str, str, str]:
    """Blocks and warps of an SM, and waves of the launch."""
    room = launch.occupancy
    if room is None:
        return ("–",) * 3
    return f"{room.blocks}", f"{room.warps} of {machine.warps_per_sm.value:.0f}", f"{launch.waves:.3g}"
