"""From counts to microseconds: a roofline per memory level, the latency of the main loop, and a launch floor.

    time   = launch + max(DRAM, L2, shared, FP32, tensor, special, loop) + team

    DRAM   = bytes that must leave or reach the chip / bandwidth
    L2     = bytes requested by all blocks / bandwidth
    shared, FP32, tensor, special
           = work of the busiest SM / rate of one SM; the busiest SM runs ceil(blocks / SMs) blocks
    loop   = full waves * P(L, u, N, S, m) + P(L, u, N, S, m') with the m' blocks an SM that are left

P is the latency of a software-pipelined loop (after ALCOP, MLSys 2023): N steps, S buffers, m resident blocks that
hide each other's waiting, L the latency of a load, u the arithmetic of a step with the SM to itself.  When
L <= (S * m - 1) * u the arithmetic never starves and P = L + N * m * u; else P = N * (L + u) / S.

    team   = 2 L + bytes that a team of blocks leaves / bandwidth of L2 to one SM

Blocks that share a depth meet at the end: what they stored is seen, then read by the last one alone (`team_seconds`).

Rates are reached at once, blocks are balanced, every multiply meets an add: it ranks schedules and explains them, and
does not replace a measurement.  Uncalibrated by itself; `engine.cost.calibration` gives it fitted figures.
"""

from __future__ import annotations

from engine.cost.nodes import COMPUTE, LATENCY, MEMORY, UNCALIBRATED, Occupancy, Prediction, Work
from engine.cost.occupancy import occupancy
from engine.documents.model import TermDoc
from engine.support.units import MICROSECONDS
from engine.target import Target
from engine.target.hardware import SCHEDULERS, WARP
from engine.target.teams import team_seconds


def predict(facts: Work, target: Target, note: str = UNCALIBRATED) -> Prediction:
    """The modelled time of one launch with the figures of `target`; Unsupported when a block does not fit an SM.

    note: where those figures come from.  `engine.cost.calibration.predict` asks for the user's first.
    """
    resident = occupancy(facts, target)
    per_sm = _blocks_at_once(facts, target, resident)
    waves = -(-facts.blocks // int(target.sms.value * resident.blocks))
    memory = (_dram(facts, target), _l2(facts, target), _shared(facts, target))
    tensor = (_tensor(facts, target, per_sm),) if facts.tensor_flops else ()
    compute = (_fp32(facts, target, per_sm), *tensor, _special(facts, target, per_sm))
    loop = _loop(facts, target, resident.blocks, max(t.value for t in (*compute, memory[-1])))
    launch = TermDoc("launch", target.launch_overhead.value * MICROSECONDS, "µs", target.launch_overhead.source)
    slowest = max((*memory, *compute, loop), key=lambda term: term.value)
    team = (_team(facts, target),) if facts.team > 1 else ()
    return Prediction(
        microseconds=launch.value + slowest.value + sum(term.value for term in team),
        bound=_bound(launch, loop, memory, compute),
        terms=(launch, *memory, *compute, loop, *team, *_placement_terms(facts, target, resident, waves)),
        occupancy=resident,
        waves=waves,
        note=note,
    )


def _bound(launch: TermDoc, loop: TermDoc, memory: tuple[TermDoc, ...], compute: tuple[TermDoc, ...]) -> str:
    """What to improve first: latency where the launch or waiting for loads outweighs all moving and computing."""
    moving, computing = (max(term.value for term in terms) for terms in (memory, compute))
    work = max(moving, computing)
    if launch.value > work or loop.value > 2 * work:
        return LATENCY
    return MEMORY if moving >= computing else COMPUTE


def _blocks_at_once(facts: Work, target: Target, resident: Occupancy) -> int:
    """Blocks that really share the busiest SM: a small grid leaves places empty."""
    return min(resident.blocks, _rounds(facts, target))


def _rounds(facts: Work, target: Target) -> int:
    """Blocks that the busiest SM runs in all."""
    return -(-facts.blocks // int(target.sms.value))


def _dram(facts: Work, target: Target) -> TermDoc:
    moved = facts.dram_bytes_read + facts.dram_bytes_written
    rate = target.dram_bandwidth
    return TermDoc(
        "DRAM traffic",
        moved / rate.value * MICROSECONDS,
        "µs",
        f"{_bytes(facts.dram_bytes_read)} read and {_bytes(facts.dram_bytes_written)} written "
        f"at {_bytes(rate.value)}/s ({rate.source})",
    )


def _l2(facts: Work, target: Target) -> TermDoc:
    busy = min(facts.blocks, int(target.sms.value))
    rate = target.l2_bandwidth.value * busy / target.sms.value
    because = f"{_bytes(facts.l2_bytes)} requested by {busy} SMs at {_bytes(rate)}/s together"
    return TermDoc("L2 traffic", facts.l2_bytes / rate * MICROSECONDS, "µs", because)


def _shared(facts: Work, target: Target) -> TermDoc:
    rate = target.shared_bandwidth.value * target.clock.value
    share = _busiest_share(facts, target)
    moved = facts.shared_bytes_moved * share
    because = f"{_bytes(moved)} through the busiest SM at {_bytes(rate)}/s, no bank conflicts"
    return TermDoc("shared memory", moved / rate * MICROSECONDS, "µs", because)


def _fp32(facts: Work, target: Target, per_sm: int) -> TermDoc:
    rate = target.fp32_rate.value / target.sms.value * _scheduled(facts, per_sm)
    work = facts.flops * _busiest_share(facts, target)
    because = f"{_count(work)} operations on the busiest SM at {_count(rate)}/s, multiply and add counted as two"
    return TermDoc("FP32 arithmetic", work / rate * MICROSECONDS, "µs", because)


def _tensor(facts: Work, target: Target, per_sm: int) -> TermDoc:
    figure = target.tf32_rate if facts.tensor_type == "float32" else target.tensor_rate
    rate = figure.value / target.sms.value * _scheduled(facts, per_sm)
    work = facts.tensor_flops * _busiest_share(facts, target)
    because = f"{_count(work)} operations on the busiest SM at {_count(rate)}/s ({figure.source})"
    return TermDoc("tensor cores", work / rate * MICROSECONDS, "µs", because)


def _special(facts: Work, target: Target, per_sm: int) -> TermDoc:
    rate = target.special_rate.value / target.sms.value * _scheduled(facts, per_sm)
    work = facts.special * _busiest_share(facts, target)
    because = f"{_count(work)} results on the busiest SM at {_count(rate)}/s"
    return TermDoc("special functions", work / rate * MICROSECONDS, "µs", because)


def _busiest_share(facts: Work, target: Target) -> float:
    """Part of all work that the busiest SM does."""
    return _rounds(facts, target) / facts.blocks


def _scheduled(facts: Work, per_sm: int) -> float:
    """Part of an SM's lanes that have a warp to run."""
    return min(1.0, per_sm * -(-facts.threads // WARP) / SCHEDULERS)


def _loop(facts: Work, target: Target, most: int, busiest: float) -> TermDoc:
    """most: blocks that an SM holds.  `busiest` is the time in microseconds of the busiest SM's own work, from which
    one step's share follows."""
    latency = target.dram_latency.value * MICROSECONDS
    steps, stages, sms = facts.serial_steps, facts.stages, int(target.sms.value)
    use = busiest / (_rounds(facts, target) * steps)

    def starves(blocks: int) -> bool:
        """Whether so many blocks of an SM wait for loads that nothing hides."""
        return latency > (stages * blocks - 1) * use

    def spent(blocks: int) -> float:
        """Microseconds in which so many blocks of an SM go through their steps."""
        return steps * (latency + use) / stages if starves(blocks) else latency + steps * blocks * use

    full, left = divmod(facts.blocks, sms * most)
    last = -(-left // sms)
    value = full * spent(most) + (spent(last) if left else 0.0)
    each = most if full else last
    outcome = "do not hide the load" if starves(each) else "hide every load but the first"
    because = (
        f"{_several(full + (left > 0), 'wave')} of {_several(steps, 'step')}; "
        f"a load takes {latency:.2g} µs, a step's work {use:.2g} µs: "
        f"{_several(stages, 'stage')} and {_several(each, 'block')} an SM {outcome}"
    )
    return TermDoc("main loop", value, "µs", because)


def _team(facts: Work, target: Target) -> TermDoc:
    latency = target.dram_latency.value * MICROSECONDS
    because = (
        f"{facts.team} blocks leave {_bytes(facts.team_bytes)} in global memory; the last one waits "
        f"{latency:.2g} µs to know that it is, as long for the first sums, and reads them all"
    )
    return TermDoc("team", team_seconds(facts.team_bytes, target) * MICROSECONDS, "µs", because)


def _placement_terms(facts: Work, target: Target, resident: Occupancy, waves: int) -> tuple[TermDoc, TermDoc]:
    limits = ", ".join(f"{name} {blocks}" for name, blocks in resident.limits)
    unknown = "" if facts.registers is not None else "; registers unknown before compiling"
    fits = f"{resident.blocks} blocks of {facts.threads} threads an SM"
    places = int(target.sms.value) * resident.blocks
    rounds = f"{facts.blocks:,} blocks on {places:,} places: {_several(waves, 'round')}"
    return (
        TermDoc("occupancy", resident.share * 100, "%", f"{fits}, limited by {resident.limiter} ({limits}){unknown}"),
        TermDoc("waves", facts.blocks / places, "waves", rounds),
    )


def _bytes(count: float) -> str:
    """Three significant digits with a decimal unit."""
    return f"{_scaled(count)}B"


def _count(value: float) -> str:
    return _scaled(value).strip()


def _scaled(value: float) -> str:
    for scale, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:.3g} {prefix}"
    return f"{value:.3g} "


def _several(number: int, noun: str) -> str:
    """A number with its noun: "1 wave", "3 waves"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
