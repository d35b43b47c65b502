"""What other knobs would give a contraction, by the model alone: quick enough to follow a slider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.cost.alcop import allowed_registers, predict_pipeline
from engine.cost.alcop_nodes import AlcopWork, GemmProblem, PipelinePrediction
from engine.cost.alcop_work import alcop_work_of_config, estimated_registers
from engine.documents.model import Time
from engine.documents.pipeline import ChartDoc, ChoiceDoc, QuantityDoc, RefusalDoc, WhatIfDoc
from engine.kernels.gemm.limits import LIMITS, first_broken
from engine.kernels.gemm.tiles import SLICES, SPLITS
from engine.pipeline.detect import MAX_STAGES
from engine.support.errors import BadInput
from engine.support.units import kib
from engine.target import Target
from engine.target import target as find_target
from engine.tensorize.space import GemmConfig

NOTE = "pipeline model, uncalibrated"
MOST_SETS = (1, 2, 4)
LEAST = 8
"""Rows, columns and depths of a tile that is still offered."""
TITLES = {
    "rows": "Tile rows", "columns": "Tile columns", "depth": "Tile depth", "warps": "Warps", "threads": "Threads",
    "stages": "Stages", "register_stages": "Register stages", "slices": "Depth slices", "split_k": "Split-K blocks",
}  # fmt: skip


def choices(contraction: GemmProblem, knobs: GemmConfig, target: Target) -> tuple[ChoiceDoc, ...]:
    """The knobs with the values that a slider offers; what does not fit is refused with figures, not left out."""
    on_tensor_cores = bool(contraction.unit)
    sides = (16, 32, 64, 128, 256) if on_tensor_cores else (8, 16, 32, 64, 128)
    depths = (16, 32, 64, 128) if on_tensor_cores else (8, 16, 32, 64)
    parts = (1, 2, 4, 8, 16) if on_tensor_cores else (32, 64, 128, 256, 512, 1024)
    stages = tuple(range(1, MAX_STAGES + 1))
    offered = [
        ("rows", knobs.block[0], sides), ("columns", knobs.block[1], sides), ("depth", knobs.block[2], depths),
        ("warps" if on_tensor_cores else "threads", knobs.parts, parts), ("stages", knobs.stages, stages),
    ]  # fmt: skip
    if on_tensor_cores:
        offered += [("register_stages", knobs.register_stages, MOST_SETS), ("slices", knobs.slices, SLICES)]
    offered.append(("split_k", knobs.split_k, SPLITS))
    return tuple(
        ChoiceDoc(name, TITLES[name], value, tuple(sorted({*values, value}))) for name, value, values in offered
    )


def turn_knob(contraction: GemmProblem, knobs: GemmConfig, name: str, value: int) -> GemmConfig:
    """The knobs with one turned; parts are cut anew where the tile or their number changes."""
    match name:
        case "rows":
            return _with_parts(contraction, replace(knobs, block=(value, *knobs.block[1:])), _cut(knobs))
        case "columns":
            return _with_parts(contraction, replace(knobs, block=(knobs.block[0], value, knobs.block[2])), _cut(knobs))
        case "depth":
            return replace(knobs, block=(*knobs.block[:2], value))
        case "warps" | "threads":
            return _with_parts(contraction, knobs, max(1, value // knobs.slices))
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


def _with_parts(contraction: GemmProblem, knobs: GemmConfig, count: int) -> GemmConfig:
    """The block cut into `count` parts, or as many as there is room for, the squarest that read the least."""
    rows, columns, _ = knobs.block
    least = 16 if contraction.unit else 1
    possible = [
        (rows // down, columns // (count // down))
        for down in _divisors(count)
        if rows % down == 0 and columns % (count // down) == 0
    ]
    fitting = [part for part in possible if min(part) >= least]
    if not fitting:
        return _with_parts(contraction, knobs, count // 2) if count > 1 else replace(knobs, part=(rows, columns))
    return replace(knobs, part=min(fitting, key=lambda part: (sum(part), -part[0])))


def _divisors(number: int) -> tuple[int, ...]:
    return tuple(n for n in range(1, number + 1) if number % n == 0)


def what_if_of_chart(chart: ChartDoc, knobs: GemmConfig, target: str) -> WhatIfDoc:
    """What other knobs would give a chart's contraction.  BadInput where there are no knobs, or no such target."""
    if chart.contraction is None or chart.knobs is None:
        raise BadInput("explore", chart.group, "is no contraction with tiles: it has no such knobs")
    return what_if(chart.contraction, chart.knobs, knobs, target, chart.registers)


def what_if(
    contraction: GemmProblem, now: GemmConfig, then: GemmConfig, target_name: str, registers: int = 0
) -> WhatIfDoc:
    """Registers, occupancy and time under `then` beside those under `now`.

    registers: of a thread now, as NVRTC says; the estimate for `then` is off by as much as that for `now`.
    Raises BadInput for an unknown target.
    """
    machine = find_target(target_name)
    off = registers - estimated_registers(contraction, now) if registers else 0
    works = [_work(contraction, knobs, off) for knobs in (now, then)]
    refusal = why_refused(contraction, then, machine)
    before, after = predict_pipeline(works[0], machine), None if refusal else predict_pipeline(works[1], machine)
    return WhatIfDoc(
        knobs=then,
        choices=choices(contraction, then, machine),
        quantities=_quantities(works, (before, after), machine, bool(registers)),
        now=_time(before),
        then=_time(after) if after else None,
        sweep=tuple(_sweep(contraction, then, machine, off)),
        refusal=refusal,
    )


def _work(contraction: GemmProblem, knobs: GemmConfig, off: int) -> AlcopWork:
    """A kernel at some knobs, its registers estimated and put right by `off`."""
    return alcop_work_of_config(contraction, knobs, max(1, estimated_registers(contraction, knobs) + off))


def why_refused(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> RefusalDoc | None:
    """Why a kernel cannot have these knobs, with figures, and the nearest that it can; None where it can."""
    broken = first_broken(contraction, knobs, machine, LIMITS)
    if broken is None:
        return None
    _, text = broken
    nearest = _nearest(contraction, knobs, machine)
    return RefusalDoc(text, nearest, _difference(knobs, nearest) if nearest else "")


def _nearest(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> GemmConfig | None:
    """The fewest steps back: split-K first, then slices, register stages, stages, whole parts, half a tile."""
    steps = max(1, -(-contraction.k // knobs.block[2]))
    for stages in range(min(knobs.stages, steps), 0, -1):
        for sets in (s for s in reversed(MOST_SETS) if s <= knobs.register_stages):
            for slices in (s for s in reversed(SLICES) if s <= knobs.slices):
                for split in (s for s in reversed(SPLITS) if s <= knobs.split_k):
                    tried = replace(knobs, stages=stages, register_stages=sets, slices=slices, split_k=split)
                    if first_broken(contraction, tried, machine, LIMITS) is None:
                        return tried
    whole = _with_parts(contraction, knobs, _cut(knobs))
    if whole != knobs and first_broken(contraction, whole, machine, LIMITS) is None:
        return whole
    rows, columns, depth = knobs.block
    for block in ((rows, columns, depth // 2), (rows // 2, columns, depth), (rows, columns // 2, depth)):
        if min(block) >= LEAST:
            tried = _with_parts(contraction, replace(knobs, block=block), _cut(knobs))
            if first_broken(contraction, tried, machine, LIMITS) is None:
                return tried
    return None


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


def _sweep(contraction: GemmProblem, knobs: GemmConfig, machine: Target, off: int) -> list[tuple[int, float]]:
    """Predicted time over the number of stages."""
    found = []
    for stages in range(1, MAX_STAGES + 1):
        tried = replace(knobs, stages=stages)
        if first_broken(contraction, tried, machine, LIMITS) is None:
            found.append((stages, predict_pipeline(_work(contraction, tried, off), machine).microseconds))
    return found


def _quantities(
    works: Sequence[AlcopWork], found: tuple[PipelinePrediction, PipelinePrediction | None], machine: Target,
    known: bool,
) -> tuple[QuantityDoc, ...]:
    """The figures that decide how many blocks an SM holds.  known: whether the present registers are NVRTC's."""
    now, then = works
    limiter = found[1].occupancy.limiter if found[1] else ""
    placed = [_placement(prediction, machine) for prediction in found]
    rows = (
        ("Shared per block", kib(now.shared_bytes), kib(then.shared_bytes), kib(machine.shared_limit), "shared memory"),
        (
            "Registers per thread", _registers(now, machine, known), _registers(then, machine, False),
            f"{allowed_registers(then.threads, machine)}", "registers",
        ),
        ("Threads per block", f"{now.threads}", f"{then.threads}", f"{machine.threads_per_block.value:,.0f}", "warps"),
    )  # fmt: skip
    limits = [QuantityDoc(name, a, b, limit, limiter == resource) for name, a, b, limit, resource in rows]
    names = ("Blocks per SM", "Warps per SM", "Waves")
    rest = [QuantityDoc(n, a, b, "", False) for n, a, b in zip(names, placed[0], placed[1], strict=True)]
    return (*limits, *rest)


def _registers(work: AlcopWork, machine: Target, known: bool) -> str:
    held = work.registers or 0
    spills = ", spills" if held > allowed_registers(work.threads, machine) else ""
    return f"{'' if known else '≈ '}{held}{spills}"


def _placement(prediction: PipelinePrediction | None, machine: Target) -> tuple[str, str, str]:
    """Blocks and warps of an SM, and waves of the launch."""
    if prediction is None:
        return ("–",) * 3
    room = prediction.occupancy
    return f"{room.blocks}", f"{room.warps} of {machine.warps_per_sm.value:.0f}", f"{prediction.waves:.3g}"


def _time(prediction: PipelinePrediction) -> Time:
    return Time(prediction.microseconds, prediction.origin, NOTE)
