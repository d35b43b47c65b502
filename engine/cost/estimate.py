"""The model of time: a roofline per memory level, the latency of the main loop, and a launch floor.

    time   = launch + ramp + max(DRAM, L2, loop, pipes) + team
    pipes  = max(issue, |FP32, shared, port|)              of products on CUDA cores
             max(issue, |FP32, shared|)                    of other kernels that copy tiles and use CUDA cores
             max(issue, shared, |FP32, tensor, special|)   of all other kernels
    |a, b| = (a^p + b^p)^(1/p)

    DRAM   = bytes that must leave or reach the chip, and those read again that L2 has lost / bandwidth
    L2     = bytes of the sectors that all blocks request / bandwidth (`Work.l2_traffic`)
    shared, FP32, tensor, special, issue, port
           = work of the busiest SM / rate of one SM; the busiest SM runs ceil(blocks / SMs) blocks
    loop   = full waves * P(L, u, N, S, m) + P(L, u, N, S, m') with the m' blocks an SM that are left

Pipes of one SM overlap, but not perfectly: warps that do the same get in each other's way.  The exponent p lies between
none (1) and all of it (infinite).  Fragments of CUDA cores come by instructions of the same threads, those of tensor
cores ahead of them; what the SM's port to L2 brings is stored in the memory that the fragments come from.

Products on CUDA cores count shared memory by passes over its banks (`Work.shared_passes`), and the more warps a
scheduler has, the more of them have something else to do: p = 1.55 + 0.05 * warps.  Fitted to the FP32 products of even
digest of NeuSight's table, which rows of odd digest judge (`tests.benchmarks.published --only fp32 --half odd`).  Over
the six classes of A100 of 40 and 80 GB and H100, the sum of mean errors and of what ranks lack to 1 is 0.786, on odd
rows 0.839; 0.784 to 0.814 with 1.5 to 1.65 and 0.03 to 0.06, 0.804 at best without warps, 0.901 without the port.  All
other kernels have p = 2.25, fitted when products counted the bytes of all lanes.

L2 keeps what blocks read again up to its capacity and nothing beyond `LOST`
times that, as cyclic reads on H200, H100 and A100 show (te42kyfo/gpu-benches, gpu-l2-cache).

P is the latency of a software-pipelined loop (after ALCOP, MLSys 2023): N steps, S buffers, m resident blocks that
hide each other's waiting, L the latency of DRAM and a block's copies of one step through its SM's port to L2, u the
arithmetic of a step with the SM to itself.  When L <= (S * m - 1) * u the arithmetic never starves and
P = L + N * max(m * u, u + s); else P = N * max((L + u) / S, u + s).

The threads of a block that share tiles meet in every step.  In the time s from the last one's coming to the first
products nothing of the block runs: that all have come is known one latency of shared memory later, and the first
fragments come another one after that.  Other blocks of the SM run meanwhile, where there are any.

    team   = 2 latencies + bytes that a team of blocks leaves / bandwidth of L2 to one SM

Blocks that share a depth meet at the end: what they stored is seen, then read by the last one alone (`team_seconds`).

Several launches of one kernel run one after the other: their times add up.

Rates are reached at once, blocks are balanced, every multiply meets an add: it ranks schedules and explains them, and
does not replace a measurement.  Figures are the user's calibrated ones where there are any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from engine.cost.calibration import calibrated_target, calibration_of
from engine.cost.nodes import COMPUTE, LATENCY, MEMORY, SHARED_LATENCY, UNCALIBRATED, Prediction, Work
from engine.documents.model import TermDoc
from engine.support.units import MICROSECONDS, bytes_text, count_text, several
from engine.target import Target
from engine.target.hardware import SCHEDULERS, VECTOR_BYTES, WARP
from engine.target.occupancy import Occupancy, occupancy
from engine.target.teams import team_seconds

MMA_OPERATIONS = 2 * 16 * 8 * 16
"""Of one instruction on tensor cores: mma.m16n8k16."""
OVERLAP = 2.25
"""The exponent p; of products on CUDA cores:"""
PRODUCT_OVERLAP, OVERLAP_OF_WARP = 1.55, 0.05
LOST = 1.7
"""Capacities of L2 from which on cyclic reads find nothing in it: 1.8 on A100, 1.7 on H100 (gpu-l2-cache)."""


def estimate(work: Work, machine: Target) -> Prediction:
    """The predicted time of one launch, with every term explained; Unsupported when a block does not fit an SM.

    With the user's calibration of the machine where there is one.  Raises BadInput where its file is broken.
    """
    found = calibration_of(machine.name)
    return model_prediction(work, calibrated_target(machine), UNCALIBRATED if found is None else found.note)


def estimate_microseconds(work: Work, machine: Target) -> float:
    """`estimate(work, machine).microseconds`, without its texts: searches ask it for every program."""
    return model_microseconds(work, calibrated_target(machine))


def model_prediction(work: Work, machine: Target, note: str = UNCALIBRATED) -> Prediction:
    """`estimate` with exactly the figures of `machine`.  note: where they come from."""
    if work.launches:
        return _one_after_the_other([model_prediction(one, machine, note) for one in _launches(work)])
    numbers = _compute(work, machine)
    return Prediction(
        microseconds=numbers.total,
        bound=_limiting_kind(numbers),
        terms=_terms(work, machine, numbers),
        occupancy=numbers.resident,
        waves=-(-work.blocks // numbers.places),
        note=note,
    )


def model_microseconds(work: Work, machine: Target) -> float:
    """`estimate_microseconds` with exactly the figures of `machine`."""
    if work.launches:
        return sum(_compute(one, machine).total for one in _launches(work))
    return _compute(work, machine).total


def least_microseconds(moved: int, flops: int, special: int, machine: Target) -> float:
    """What the model says at least of any launch on CUDA cores that moves so many bytes and does so many operations.

    Every SM is busy, every byte is requested once, and the loads of the main loop are waited for once.
    """
    busiest = max(
        moved / machine.dram_bandwidth.value,
        flops / machine.fp32_rate.value,
        special / machine.special_rate.value,
        machine.dram_latency.value,
    )
    return (machine.empty_kernel + busiest) * MICROSECONDS


def _launches(work: Work) -> Iterator[Work]:
    """Several launches; the registers of the kernel are those of the one that needs most."""
    return (replace(one, registers=work.registers) for one in work.launches)


def _one_after_the_other(launches: Sequence[Prediction]) -> Prediction:
    """The prediction of launches in order: times add up, whatever else it says is of the longest one."""
    longest = max(launches, key=lambda one: one.microseconds)
    terms = []
    for term in dict.fromkeys(term.name for one in launches for term in one.terms):
        found = {n: t for n, one in enumerate(launches, 1) for t in one.terms if t.name == term}
        if next(iter(found.values())).unit != "µs":
            terms += [t for t in longest.terms if t.name == term]
            continue
        because = "; ".join(f"launch {n}: {t.because}" for n, t in found.items())
        terms.append(TermDoc(term, sum(t.value for t in found.values()), "µs", because))
    return replace(longest, microseconds=sum(one.microseconds for one in launches), terms=tuple(terms))


class _Numbers(NamedTuple):
    """Every number of the model; `_terms` only says them.  A tuple, as searches make 100,000 of them.

    Times are microseconds, rates are of one SM and per second.
    """

    resident: Occupancy
    places: int
    """Blocks that the whole GPU holds at once."""
    share: float
    """Part of all work that the busiest SM does."""
    busy: int
    """SMs that have a block."""
    l2_rate: float
    """Of these SMs together."""
    shared_rate: float
    fp32_rate: float
    tensor_rate: float
    special_rate: float
    issue_rate: float
    """Instructions of a warp."""
    lost: float
    """Bytes that are read from DRAM again."""
    latency: float
    step: float
    """Work of one step of one block that has its SM to itself."""
    meeting: float
    """Of the threads of a block that share tiles, in each step."""
    full_waves: int
    last_wave: int
    """Blocks an SM of the wave that does not fill them; 0 without one."""
    overlap: float
    """The exponent p."""
    launch: float
    ramp: float
    dram: float
    l2: float
    shared: float
    fp32: float
    tensor: float
    special: float
    issue: float
    port: float
    loop: float
    pipes: float
    """All of an SM, in each other's way."""
    team: float

    @property
    def total(self) -> float:
        """Of the launch: what is slowest hides the rest."""
        slowest = max(self.dram, self.l2, self.loop, self.pipes)
        return self.launch + self.ramp + slowest + self.team


def _compute(work: Work, machine: Target) -> _Numbers:
    room, sms = occupancy(work.threads, work.shared_bytes, work.registers, machine), int(machine.sms.value)
    rounds = -(-work.blocks // sms)
    share, busy = rounds / work.blocks, min(work.blocks, sms)
    # A small grid leaves places of an SM empty; below a warp of a scheduler, part of its lanes have nothing to run.
    warps = min(room.blocks, rounds) * -(-work.threads // WARP) / SCHEDULERS
    scheduled = min(1.0, warps)
    tensor_figure = machine.tensor_core_rate(work.tensor_type)
    # Each SM has its own port to L2, so idle ones leave their part of the bandwidth unused.
    l2_rate = machine.l2_bandwidth.value * busy / machine.sms.value
    shared_rate = machine.shared_bandwidth.value * machine.clock.value
    fp32_rate = machine.fp32_rate.value / machine.sms.value * scheduled
    tensor_rate = tensor_figure.value / machine.sms.value * scheduled
    special_rate = machine.special_rate.value / machine.sms.value * scheduled
    shared = work.shared_traffic * share / shared_rate * MICROSECONDS
    fp32 = work.flops * share / fp32_rate * MICROSECONDS
    tensor = work.tensor_flops * share / tensor_rate * MICROSECONDS
    special = work.special * share / special_rate * MICROSECONDS
    issue_rate = SCHEDULERS * machine.clock.value * scheduled
    issue = instructions(work) * share / issue_rate * MICROSECONDS
    # A load has come when the last byte of the block's step has: its SM's port to L2 brings one after another.
    port_rate = machine.l2_bandwidth.value / machine.sms.value
    steps = work.mean_steps
    step_bytes = work.l2_traffic / (work.blocks * steps)
    latency = (machine.dram_latency.value + step_bytes / port_rate) * MICROSECONDS
    port = work.l2_traffic * share / port_rate * MICROSECONDS
    overlap = PRODUCT_OVERLAP + OVERLAP_OF_WARP * warps if work.shared_passes else OVERLAP
    if work.shared_passes:
        pipes = max(issue, _combined_time((fp32, shared, port), overlap))
    elif work.copies_tiles and not work.tensor_flops:
        pipes = max(issue, _combined_time((fp32, shared), overlap))
    else:
        pipes = max(issue, shared, _combined_time((fp32, tensor, special), overlap))
    step = pipes / (rounds * steps)
    meeting = 2 * SHARED_LATENCY.value / machine.clock.value * MICROSECONDS if work.copies_tiles else 0.0
    lost = _lost_bytes(work, sms * room.blocks, machine)
    full, left = divmod(work.blocks, sms * room.blocks)
    last = -(-left // sms)
    return _Numbers(
        room, sms * room.blocks, share, busy, l2_rate, shared_rate, fp32_rate, tensor_rate, special_rate,
        issue_rate, lost, latency, step, meeting, full, last, overlap,
        launch=machine.launch_overhead.value * MICROSECONDS,
        ramp=machine.ramp.value * MICROSECONDS,
        dram=(work.dram_bytes_read + work.dram_bytes_written + lost) / machine.dram_bandwidth.value * MICROSECONDS,
        l2=work.l2_traffic / l2_rate * MICROSECONDS,
        shared=shared,
        fp32=fp32,
        tensor=tensor,
        special=special,
        issue=issue,
        port=port,
        loop=max(
            full * _wave(work, room.blocks, latency, (step, meeting))
            + (_wave(work, last, latency, (step, meeting)) if last else 0.0),
            _longest_block(work, latency, step + meeting),
        ),
        pipes=pipes,
        team=team_seconds(work.team_bytes, machine) * MICROSECONDS if work.team > 1 else 0.0,
    )  # fmt: skip


def _combined_time(times: Sequence[float], exponent: float) -> float:
    """The time of pipes that hinder each other: no less than the longest, no more than their sum."""
    longest = max(times)
    return longest * sum((time / longest) ** exponent for time in times) ** (1 / exponent) if longest else 0.0


def instructions(work: Work) -> float:
    """Instructions of all warps, from what every kernel's work knows before it is compiled.

    One for each operation of a lane or fused multiply-add of a product, each special result, 16 bytes of memory and
    product of tensor cores; addresses and loops are left out.
    """
    operations = work.flops / 2 if work.copies_tiles and not work.tensor_flops else work.flops
    moved = (work.l2_bytes + work.shared_bytes_moved) / VECTOR_BYTES
    return (operations + work.special + moved) / WARP + work.tensor_flops / MMA_OPERATIONS


def _lost_bytes(work: Work, places: int, machine: Target) -> float:
    """Of the bytes read again, those that L2 no longer has: all blocks on the GPU read through their parts in turn."""
    held = min(work.blocks, places) * work.again_set / machine.l2_bytes.value
    return work.again_bytes * min(1.0, max(0.0, (held - 1) / (LOST - 1)))


def _wave(work: Work, blocks: int, latency: float, of_step: tuple[float, float]) -> float:
    """Microseconds in which so many blocks of an SM go through their steps.  of_step: its work, and the meeting."""
    step, meeting = of_step
    steps = work.mean_steps
    if _starves(work, blocks, latency, step):
        return steps * max((latency + step) / work.stages, step + meeting)
    return latency + steps * max(blocks * step, step + meeting)


def _longest_block(work: Work, latency: float, step: float) -> float:
    """Microseconds of the block with most steps, where blocks differ: others come and go beside it."""
    return work.serial_steps * max((latency + step) / work.stages, step) if work.block_steps else 0.0


def _starves(work: Work, blocks: int, latency: float, step: float) -> bool:
    """Whether so many blocks of an SM wait for loads that nothing hides."""
    return latency > (work.stages * blocks - 1) * step


def _limiting_kind(numbers: _Numbers) -> str:
    """What to improve first: latency where the launch or waiting for loads outweighs all moving and computing."""
    moving = max(numbers.dram, numbers.l2, numbers.shared)
    computing = max(numbers.fp32, numbers.tensor, numbers.special, numbers.issue)
    slowest = max(moving, numbers.pipes)
    if numbers.launch + numbers.ramp > slowest or numbers.loop > 2 * slowest:
        return LATENCY
    return MEMORY if moving >= computing else COMPUTE


def _terms(work: Work, machine: Target, numbers: _Numbers) -> tuple[TermDoc, ...]:
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
    if work.team > 1:
        waited = f"{machine.dram_latency.value * MICROSECONDS:.2g} µs to know that it is, as long for the first sums"
        because = (
            f"{work.team} blocks leave {bytes_text(work.team_bytes)} in global memory; the last one waits {waited}, "
            "and reads them all"
        )
        terms.append(TermDoc("team", n.team, "µs", because))
    return (*terms, *_placement_terms(work, n))


def _meeting_text(numbers: _Numbers) -> str:
    waves = {blocks for blocks in (numbers.full_waves and numbers.resident.blocks, numbers.last_wave) if blocks}
    left = max(0.0, numbers.step + numbers.meeting - min(waves) * numbers.step)
    outcome = f"other blocks of the SM hide all but {left:.2g} µs of it" if left else "other blocks of the SM hide it"
    if min(waves) == 1:
        outcome = "a block that has its SM to itself waits for it"
    twice = f"2 x {SHARED_LATENCY.value} clocks of shared memory ({SHARED_LATENCY.source})"
    return f"in each step of the main loop, until a block's threads have met and have fragments: {twice}; {outcome}"


def _loop_text(work: Work, numbers: _Numbers) -> str:
    blocks = numbers.resident.blocks if numbers.full_waves else numbers.last_wave
    starves = _starves(work, blocks, numbers.latency, numbers.step)
    outcome = "do not hide the load" if starves else "hide every load but the first"
    waves, steps = numbers.full_waves + (numbers.last_wave > 0), several(work.serial_steps, "step")
    if work.block_steps:
        steps = f"{work.mean_steps:.3g} steps a block, {steps} of the longest"
    return (
        f"{several(waves, 'wave')} of {steps}; "
        f"a load takes {numbers.latency:.2g} µs, a step's work {numbers.step:.2g} µs: "
        f"{several(work.stages, 'stage')} and {several(blocks, 'block')} an SM {outcome}"
    )


def _placement_terms(work: Work, numbers: _Numbers) -> tuple[TermDoc, TermDoc]:
    room, places = numbers.resident, numbers.places
    limits = ", ".join(f"{name} {blocks}" for name, blocks in room.limits)
    unknown = "" if work.registers is not None else "; registers unknown before compiling"
    fits = f"{room.blocks} blocks of {work.threads} threads an SM"
    rounds = f"{work.blocks:,} blocks on {places:,} places: {several(-(-work.blocks // places), 'round')}"
    return (
        TermDoc("occupancy", room.share * 100, "%", f"{fits}, limited by {room.limiter} ({limits}){unknown}"),
        TermDoc("waves", work.blocks / places, "waves", rounds),
    )
