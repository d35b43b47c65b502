"""The model of time: a roofline per memory level, the latency of the main loop, and a launch floor.

    time   = launch + ramp + max(L2, |DRAM, max(loop, pipes)|) + team      of products on tensor cores
             launch + ramp + max(L2, DRAM, loop, pipes) + team             of all other kernels
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

The blocks of a wave on tensor cores start together and stay in step: all wait for their first loads, all store at the
end, and bytes of DRAM come in bursts of every SM at once.  Blocks of later waves are out of step with each other, so
that the more waves there are, the better DRAM and work overlap: p = 1.5 + waves / 2.  Fitted to the products on tensor
cores of even digest of OpenXLA's table for H100 (`tests.benchmarks.published --only mm/ --half odd` judges): over its
four classes, the sum of errors about the median ratio and of what ranks lack to 1 falls from 1.13 to 0.93, on odd rows
from 0.96 to 0.72; 0.93 to 0.95 with 1.25 to 2 and 0.25 to 0.75.  That p grows with waves was seen on rows of both
halves, so that odd rows judge its two figures, not its form.

L2 keeps what blocks read again up to its capacity and nothing beyond `LOST` times that, as cyclic reads on H200, H100
and A100 show (te42kyfo/gpu-benches, gpu-l2-cache).  Blocks read their own parts again, or rows and columns of tiles
that other blocks of a product had read before (`engine.cost.tile_order`).

P is the latency of a software-pipelined loop (after ALCOP, MLSys 2023): N steps, S buffers, m resident blocks that
hide each other's waiting, L the latency of DRAM and a block's copies of one step through its SM's port to L2, u the
arithmetic of a step with the SM to itself.  When L <= (S * m - 1) * u the arithmetic never starves and
P = L + N * max(m * u, u + s); else P = N * max((L + u) / S, u + s).  Warps that share no memory wait for their own
loads alone, so that each of them counts as a block.  All m * min(S, N) loads that an SM begins with are under way at
once and come through the port one after another: where nothing hides them, the last ends the loop as much later.

The threads of a block that share tiles meet in every step.  In the time s from the last one's coming to the first
products nothing of the block runs: that all have come is known one latency of shared memory later, and the first
fragments come another one after that.  Other blocks of the SM run meanwhile, where there are any.

    team   = 2 latencies + bytes that the last of a team reads / bandwidth of L2 to one SM

Blocks that share a depth meet at the end: what they stored is seen, then read by the last one alone (`team_seconds`).

Several launches of one kernel run one after the other: their times add up.

Rates are reached at once, blocks are balanced, every multiply meets an add: it ranks schedules and explains them, and
does not replace a measurement.  Figures are the user's calibrated ones where there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.cost.nodes import SHARED_LATENCY, Work
from engine.cost.tile_order import lost_bytes, lost_part
from engine.support.units import MICROSECONDS
from engine.target import Target
from engine.target.hardware import SCHEDULERS, VECTOR_BYTES, WARP
from engine.target.occupancy import Occupancy, occupancy
from engine.target.teams import team_seconds

MMA_OPERATIONS = 2 * 16 * 8 * 16
"""Of one instruction on tensor cores: mma.m16n8k16."""
OVERLAP = 2.25
"""The exponent p; of products on CUDA cores:"""
PRODUCT_OVERLAP, OVERLAP_OF_WARP = 1.55, 0.05
FIRST_WAVE_OVERLAP, OVERLAP_OF_WAVE = 1.5, 0.5
"""The exponent p of DRAM and the work of products on tensor cores: without waves, and what each adds."""


class ModelTimes(NamedTuple):
    """Every number of the model; `engine.cost.terms` only says them.  A tuple, as searches make 100,000 of them.

    Times are microseconds, rates are of one SM and per second.
    """

    resident: Occupancy
    places: int
    """Blocks that the whole GPU holds at once."""
    waves: float
    """Blocks over these places."""
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
    """Of the loads of one step of a part of a block that waits by itself (`Work.waiting_parts`)."""
    late: float
    """From the first to the last of the loads that a busy SM begins with, where nothing hides them."""
    step: float
    """Work of one step of such a part that has its SM to itself."""
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
    def stream_overlap(self) -> float:
        """The exponent p of DRAM and work."""
        return FIRST_WAVE_OVERLAP + OVERLAP_OF_WAVE * self.waves

    @property
    def streams(self) -> float:
        """DRAM and the work of the SMs, in each other's way on tensor cores."""
        work = max(self.loop, self.pipes)
        return _combined_time((self.dram, work), self.stream_overlap) if self.tensor else max(self.dram, work)

    @property
    def total(self) -> float:
        """Of the launch: what is slowest hides the rest."""
        return self.launch + self.ramp + max(self.l2, self.streams) + self.team


def model_times(work: Work, machine: Target) -> ModelTimes:
    """What the model says of one launch; Unsupported when a block does not fit an SM."""
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
    steps, parts = work.mean_steps, work.waiting_parts
    arrival = work.l2_traffic / (work.blocks * parts * steps) / port_rate * MICROSECONDS
    latency = machine.dram_latency.value * MICROSECONDS + arrival
    port = work.l2_traffic * share / port_rate * MICROSECONDS
    overlap = PRODUCT_OVERLAP + OVERLAP_OF_WARP * warps if work.shared_passes else OVERLAP
    if work.shared_passes:
        pipes = max(issue, _combined_time((fp32, shared, port), overlap))
    elif work.copies_tiles and not work.tensor_flops:
        pipes = max(issue, _combined_time((fp32, shared), overlap))
    else:
        pipes = max(issue, shared, _combined_time((fp32, tensor, special), overlap))
    step = pipes / (rounds * parts * steps)
    meeting = 2 * SHARED_LATENCY.value / machine.clock.value * MICROSECONDS if work.copies_tiles else 0.0
    lost = _lost_bytes(work, sms * room.blocks, machine)
    full, left = divmod(work.blocks, sms * room.blocks)
    last = -(-left // sms)
    of_step = _StepTimes(latency, step, meeting)
    waves = full * _wave(work, room.blocks, of_step) + (_wave(work, last, of_step) if last else 0.0)
    first = (room.blocks if full else last) * parts
    late = arrival * (first * min(work.stages, steps) - 1) if starves(work, first, latency, step) else 0.0
    return ModelTimes(
        room, sms * room.blocks, work.blocks / (sms * room.blocks), share, busy, l2_rate, shared_rate, fp32_rate,
        tensor_rate, special_rate, issue_rate, lost, latency, late, step, meeting, full, last, overlap,
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
        loop=max(waves + late, _longest_block(work, latency, step + meeting)),
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
    """Of the bytes read again, those that L2 no longer has: all blocks on the GPU read through their parts in turn, and
    through the tiles of products in their order."""
    at_once, capacity = min(work.blocks, places), machine.l2_bytes.value
    of_tiles = sum(lost_bytes(order, at_once, capacity) for order in work.orders)
    return work.again_bytes * lost_part(at_once * work.again_set, capacity) + of_tiles


class _StepTimes(NamedTuple):
    """Microseconds of one step of a part that waits by itself."""

    latency: float
    work: float
    meeting: float


def _wave(work: Work, blocks: int, step: _StepTimes) -> float:
    """Microseconds in which so many blocks of an SM go through their steps."""
    steps, parts = work.mean_steps, blocks * work.waiting_parts
    if starves(work, parts, step.latency, step.work):
        return steps * max((step.latency + step.work) / work.stages, step.work + step.meeting)
    return step.latency + steps * max(parts * step.work, step.work + step.meeting)


def _longest_block(work: Work, latency: float, step: float) -> float:
    """Microseconds of the block with most steps, where blocks differ: others come and go beside it."""
    return work.serial_steps * max((latency + step) / work.stages, step) if work.block_steps else 0.0


def starves(work: Work, parts: int, latency: float, step: float) -> bool:
    """Whether so many parts of an SM's blocks wait for loads that nothing hides."""
    return latency > (work.stages * parts - 1) * step
