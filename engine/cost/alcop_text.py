"""The terms of the pipeline model as readable values: name, figure, unit, and why."""

from __future__ import annotations

from collections.abc import Sequence

from engine.cost.alcop_nodes import AlcopWork, Pace
from engine.cost.nodes import Occupancy
from engine.documents.model import TermDoc
from engine.target import Target

Wave = tuple[int, int]
"""(how many alike, blocks on an SM)."""
Spent = tuple[int, float, float]
"""(how many alike, microseconds of the main loop, of the epilogue)."""


def pace_terms(work: AlcopWork, target: Target, pace: Pace, resident: Occupancy) -> tuple[TermDoc, ...]:
    """What one step costs at each level, and how the levels hide each other."""
    limits = ", ".join(f"{name} {blocks}" for name, blocks in resident.limits)
    block = f"{resident.blocks} of {work.threads} threads an SM, limited by {resident.limiter} ({limits})"
    banks = f"latency of shared memory and a warp's part of {work.fragments / 1e3:.3g} kB"
    narrow = f"{work.fetched / 1e3:.3g} kB a block, {pace.resident} blocks an SM, through L2 or DRAM"
    turn = pace.load + pace.use if work.stages == 1 else pace.load / (work.stages - 1)
    hides = "hide it" if turn <= pace.resident * pace.use else "do not hide it"
    blocks = f"{pace.resident} block{'s' if pace.resident > 1 else ''}"
    buffers = f"{work.stages} stage{'s' if work.stages > 1 else ''} of {blocks} an SM {hides}"
    unit = f"{work.unit} on tensor cores" if work.unit else "CUDA cores"
    sets = f"{work.register_stages} fragment {'set' if work.register_stages == 1 else 'sets'}"
    return (
        TermDoc("occupancy", resident.share * 100, "%", block),
        TermDoc("latency", pace.latency, "µs", f"of a load: {target.dram_latency.source}"),
        TermDoc("transfer", pace.transfer, "µs", f"copies of a step: {narrow}"),
        TermDoc("load", pace.load, "µs", f"latency, and the block's part of the transfer; {buffers}"),
        TermDoc("read fragments", pace.read, "µs", banks),
        TermDoc("multiply", pace.multiply, "µs", f"a warp's part of {work.operations / 1e6:.3g} M operations, {unit}"),
        TermDoc("use", pace.use, "µs", f"{work.inner_steps} inner steps of a tile with {sets}, the share of one block"),
    )


def wave_terms(
    work: AlcopWork, launch: float, waves: Sequence[Wave], times: Sequence[Spent], target: Target
) -> tuple[TermDoc, ...]:
    """How the launch adds up."""
    loop = sum(count * spent for count, spent, _ in times)
    epilogue = sum(count * spent for count, _, spent in times)
    rounds = " and ".join(f"{count} with {resident} blocks an SM" for count, resident in waves)
    total = sum(count for count, _ in waves)
    team = f", {work.team} blocks hand over {work.team_bytes / 1e3:.3g} kB of sums" if work.team > 1 else ""
    return (
        TermDoc("waves", total, "waves", f"{work.blocks:,} blocks on {target.sms.value:,.0f} SMs: {rounds}"),
        TermDoc("main loop", loop, "µs", f"{work.steps} steps a block"),
        TermDoc("epilogue", epilogue, "µs", f"{work.results / 1e3:.3g} kB of results a block{team}"),
        TermDoc("launch", launch, "µs", target.launch_overhead.source),
    )
