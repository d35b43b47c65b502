"""The terms of a prediction, each with the figures that it comes from."""

from __future__ import annotations

from engine.cost.nodes import SHARED_LATENCY, Work
from engine.cost.time_model import ModelTimes, instructions, starves
from engine.documents.model import TermDoc
from engine.support.units import MICROSECONDS, bytes_text, count_text, several
from engine.target import Target


def prediction_terms(work: Work, machine: Target, numbers: ModelTimes) -> tuple[TermDoc, ...]:
    """Microseconds of each part of a launch, then what places it on the GPU."""
    dram, n = machine.dram_bandwidth, numbers
    again = f", {bytes_text(n.lost)} again that {bytes_text(machine.l2_bytes.value)} of L2 lost," if n.lost else ""
    passed = "128 of each pass of a load over its banks" if work.shared_passes else "no bank conflicts"
    busiest = "on the busiest SM at"
    terms = [
        TermDoc("launch", n.launch, "µs", machine.launch_overhead.source),
        TermDoc("ramp", n.ramp, "µs", machine.ramp.source),
        TermDoc("DRAM traffic", n.dram, "µs", f"{bytes_text(work.dram_bytes_read)} read{again} and "
             f"{bytes_text(work.dram_bytes_written)} written at {bytes_text(dram.value)}/s ({dram.source})"),
        TermDoc("L2 traffic", n.l2, "µs",
             f"{bytes_text(work.l2_traffic)} requested by {n.busy} SMs at {bytes_text(n.l2_rate)}/s together "
             f"({machine.l2_bandwidth.source})"),
        TermDoc("shared memory", n.shared, "µs", f"{bytes_text(work.shared_traffic * n.share)} through the "
             f"busiest SM at {bytes_text(n.shared_rate)}/s, {passed}"),
        TermDoc("FP32 arithmetic", n.fp32, "µs", f"{count_text(work.flops * n.share)} operations {busiest} "
             f"{count_text(n.fp32_rate)}/s, multiply and add counted as two"),
    ]  # fmt: skip
    if work.tensor_flops:
        figure = machine.tensor_core_rate(work.tensor_type)
        because = f"{count_text(work.tensor_flops * n.share)} operations {busiest} {count_text(n.tensor_rate)}/s"
        terms.append(TermDoc("tensor cores", n.tensor, "µs", f"{because} ({figure.source})"))
    because = f"{count_text(work.special * n.share)} results {busiest} {count_text(n.special_rate)}/s"
    terms.append(TermDoc("special functions", n.special, "µs", because))
    because = f"{count_text(instructions(work) * n.share)} instructions of warps {busiest} {count_text(n.issue_rate)}/s"
    terms.append(TermDoc("instruction issue", n.issue, "µs", f"{because}, those of addresses not counted"))
    p = f"{n.overlap:.4g}"
    together = f"the longest, and part of those that hinder it: |a, b| = (a^{p} + b^{p})^(1/{p})"
    if work.shared_passes:
        together += f", {n.port:.3g} µs of the busiest SM's port to L2 among them"
    terms.append(TermDoc("pipes together", n.pipes, "µs", together))
    if n.meeting:
        terms.append(TermDoc("meeting", n.meeting, "µs", _meeting_text(n)))
    terms.append(TermDoc("main loop", n.loop, "µs", _loop_text(work, n)))
    if work.tensor_flops:
        because = f"with the longer of pipes and main loop: p = {n.stream_overlap:.3g} of {n.waves:.3g} waves"
        terms.append(TermDoc("memory and work", n.streams, "µs", because))
    if work.team > 1:
        waited = f"{machine.dram_latency.value * MICROSECONDS:.2g} µs to know that it is, as long for the first sums"
        because = (
            f"{work.team} blocks leave sums in global memory; the last one waits {waited}, and reads "
            f"{bytes_text(work.team_bytes)} of them"
        )
        terms.append(TermDoc("team", n.team, "µs", because))
    return (*terms, *_placement_terms(work, n))


def _meeting_text(numbers: ModelTimes) -> str:
    waves = {blocks for blocks in (numbers.full_waves and numbers.resident.blocks, numbers.last_wave) if blocks}
    left = max(0.0, numbers.step + numbers.meeting - min(waves) * numbers.step)
    outcome = f"other blocks of the SM hide all but {left:.2g} µs of it" if left else "other blocks of the SM hide it"
    if min(waves) == 1:
        outcome = "a block that has its SM to itself waits for it"
    twice = f"2 x {SHARED_LATENCY.value} clocks of shared memory ({SHARED_LATENCY.source})"
    return f"in each step of the main loop, until a block's threads have met and have fragments: {twice}; {outcome}"


def _loop_text(work: Work, numbers: ModelTimes) -> str:
    blocks = numbers.resident.blocks if numbers.full_waves else numbers.last_wave
    parts = blocks * work.waiting_parts
    outcome = "hide every load but the first"
    if starves(work, parts, numbers.latency, numbers.step):
        outcome = "do not hide the load"
        if numbers.late:
            outcome += f"; of those they begin with, the last comes {numbers.late:.2g} µs after the first"
    waves, steps = numbers.full_waves + (numbers.last_wave > 0), several(work.serial_steps, "step")
    if work.block_steps:
        steps = f"{work.mean_steps:.3g} steps a block, {steps} of the longest"
    who = several(parts, "warp" if work.waiting_parts > 1 else "block")
    return (
        f"{several(waves, 'wave')} of {steps}; "
        f"a load takes {numbers.latency:.2g} µs, a step's work {numbers.step:.2g} µs: "
        f"{several(work.stages, 'stage')} and {who} an SM {outcome}"
    )


def _placement_terms(work: Work, numbers: ModelTimes) -> tuple[TermDoc, TermDoc]:
    room, places = numbers.resident, numbers.places
    limits = ", ".join(f"{name} {blocks}" for name, blocks in room.limits)
    unknown = "" if work.registers is not None else "; registers unknown before compiling"
    fits = f"{room.blocks} blocks of {work.threads} threads an SM"
    rounds = f"{work.blocks:,} blocks on {places:,} places: {several(-(-work.blocks // places), 'round')}"
    return (
        TermDoc("occupancy", room.share * 100, "%", f"{fits}, limited by {room.limiter} ({limits}){unknown}"),
        TermDoc("waves", numbers.waves, "waves", rounds),
    )
