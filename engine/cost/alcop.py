"""The latency of software-pipelined contractions, after ALCOP (Huang et al., MLSys 2023), and the bottleneck baseline.

The paper names what its model couples (tiles, stages and parallel blocks) but prints no equations: these are our
reconstruction, uncalibrated.  Two pipelines stand in each other: tiles through shared memory, fragments through
registers.  Both obey

    P(load, use, steps, stages, workers) = load + steps * workers * use     if turn <= workers * use
                                           steps * turn [+ use]             else
    turn = load + use               with one stage: nothing runs ahead
           load / (stages - 1)      with more: a copy is issued once the tile before is there, stages - 1 are under way

workers share the unit and hide each other's waiting: resident blocks outside, warps of a scheduler inside.  A channel
is never passed faster than its bandwidth: P is no less than steps * transfer, the bytes of all workers.

    inner    load: latency of shared memory and a warp's fragments through its banks; use: tensor cores
    outer    load: latency of DRAM and a block's copies through L2 or DRAM; use: the inner pipeline's time of a tile
             (blocks of a wave that stand in one row of tiles share its panel in DRAM, not in L2)
    wave     P(outer) + epilogue: results to DRAM, or the arithmetic after the sums; where blocks share a depth, the
             last of a team first reads what the others left, two latencies after they stored it
    launch   overhead + full waves + the last wave with as many blocks an SM as are left

The bottleneck model has no latencies: every P is steps * max(transfer, workers * use).
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.cost.alcop_nodes import AlcopWork, Pace, PipelinePrediction
from engine.cost.nodes import SHARED_LATENCY
from engine.documents.model import TermDoc
from engine.support.units import MICROSECONDS
from engine.target import Target
from engine.target.hardware import REGISTER_BYTES, SCHEDULERS, WARP
from engine.target.occupancy import REGISTER_UNIT, Occupancy, occupancy
from engine.target.teams import team_seconds

ALCOP, BOTTLENECK = "ALCOP", "bottleneck"
REGISTER_STEP = REGISTER_UNIT // WARP
"""Compilers hand a thread registers in multiples of this."""


def pipelined_time(load: float, use: float, steps: int, stages: int, workers: int) -> float:
    """P: time in which each of `workers` makes `steps` steps, each a load and its use, with `stages` buffers."""
    turn = load + use if stages == 1 else load / (stages - 1)
    if turn <= workers * use:
        return load + steps * workers * use
    return steps * turn + (0 if stages == 1 else use)


def predict_pipeline(work: AlcopWork, target: Target) -> PipelinePrediction:
    """The modelled time with latencies; Unsupported when a block does not fit an SM."""
    return _Model(work, target, ALCOP).prediction()


def predict_bottleneck(work: AlcopWork, target: Target) -> PipelinePrediction:
    """The baseline: the busiest of memory levels and units, as if everything overlapped."""
    return _Model(work, target, BOTTLENECK).prediction()


class _Model:
    """One kernel on one target under one of the two models; all times in microseconds."""

    def __init__(self, work: AlcopWork, target: Target, name: str) -> None:
        self.work, self.target, self.name = work, target, name
        self.has_latency = name == ALCOP
        self.sms = int(target.sms.value)
        self.occupancy = _occupancy(work, target)

    def total(self) -> float:
        """The whole launch."""
        return self._launch + sum(count * (loop + epilogue) for count, loop, epilogue in self._times(self._waves()))

    def prediction(self) -> PipelinePrediction:
        """The whole launch, and what it is made of."""
        work, places = self.work, self.sms * self.occupancy.blocks
        waves = self._waves()
        pace = self.pace(waves[0][1])
        terms: list[TermDoc] = [*pace_terms(work, self.target, pace, self.occupancy)]
        terms += wave_terms(work, self._launch, waves, self._times(waves), self.target)
        return PipelinePrediction(self.name, self.total(), pace, self.occupancy, work.blocks / places, tuple(terms))

    @property
    def _launch(self) -> float:
        return self.target.launch_overhead.value * MICROSECONDS

    def _waves(self) -> list[tuple[int, int]]:
        """(how many, blocks on an SM) of the full waves, then of what is left."""
        full, left = divmod(self.work.blocks, self.sms * self.occupancy.blocks)
        waves = [(full, self.occupancy.blocks)] if full else []
        return waves + ([(1, -(-left // self.sms))] if left else [])

    def _times(self, waves: list[tuple[int, int]]) -> list[tuple[int, float, float]]:
        """(how many, main loop, epilogue) of waves."""
        return [(count, self._main_loop(resident), self._epilogue(resident)) for count, resident in waves]

    def pace(self, resident: int) -> Pace:
        """The rhythm with `resident` blocks on the SM."""
        latency = self.target.dram_latency.value * MICROSECONDS
        return Pace(
            resident=resident,
            latency=latency if self.has_latency else 0.0,
            transfer=self._copies(resident),
            use=self._tile(resident) / resident,
            read=self._read(resident),
            multiply=self._multiply,
        )

    def _main_loop(self, resident: int) -> float:
        pace, work = self.pace(resident), self.work
        if not self.has_latency:
            return work.steps * max(pace.transfer, resident * pace.use)
        return max(pipelined_time(pace.load, pace.use, work.steps, work.stages, resident), work.steps * pace.transfer)

    def _tile(self, resident: int) -> float:
        """All resident blocks use one tile each: the inner pipeline.

        With several fragment sets it runs on across tiles and fills once a block, else once a tile.
        """
        work = self.work
        workers = -(-resident * work.warps // SCHEDULERS)
        transfer, use = self._fragments(resident), self._multiply
        steps = work.inner_steps * (work.steps if work.register_stages > 1 else 1)
        if not self.has_latency:
            spent = steps * max(transfer, workers * use)
        else:
            hidden = pipelined_time(self._read(resident), use, steps, work.register_stages, workers)
            spent = max(hidden, steps * transfer)
        return spent / steps * work.inner_steps

    def _read(self, resident: int) -> float:
        """From asking for one warp's fragments to having them."""
        latency = SHARED_LATENCY.value / self.target.clock.value * MICROSECONDS if self.has_latency else 0.0
        return latency + self._fragments(resident) / (resident * self.work.warps)

    @property
    def _multiply(self) -> float:
        """One inner step of one warp, with its scheduler to itself."""
        unit, target = self.work.unit, self.target
        figure = target.tensor_core_rate(unit) if unit else target.fp32_rate
        rate = figure.value / self.sms / SCHEDULERS
        return self.work.operations / self.work.warps / rate * MICROSECONDS

    def _fragments(self, resident: int) -> float:
        """Fragments of one inner step of all resident blocks through the banks of shared memory."""
        rate = self.target.shared_bandwidth.value * self.target.clock.value
        return resident * self.work.fragments / rate * MICROSECONDS

    def _copies(self, resident: int) -> float:
        """One step's copies of a wave through L2, where every block counts, or DRAM, where shared panels count once.

        What was spilled is taken to be written and read once in every step.
        """
        work, busy = self.work, min(self.work.blocks, self.sms * resident)
        spilled = 2 * work.threads * self._spilled
        through_l2 = resident * (work.fetched + spilled) / (self.target.l2_bandwidth.value / self.sms)
        return max(through_l2, distinct_bytes(work, busy) / self.target.dram_bandwidth.value) * MICROSECONDS

    @property
    def _spilled(self) -> float:
        """Bytes that a thread keeps in local memory: what NVRTC says, or what an estimate has beyond the limit."""
        registers = self.work.registers or 0
        over = registers - allowed_registers(self.work.threads, self.target)
        return max(self.work.spill_bytes, over * REGISTER_BYTES, 0)

    def _epilogue(self, resident: int) -> float:
        """Results of a wave to DRAM after partial sums through shared memory, or the arithmetic after the sums."""
        work, target = self.work, self.target
        busy = min(work.blocks, self.sms * resident)
        last = -(-resident // work.team)
        """Blocks of the SM that finish."""
        written = busy / work.team * work.results / target.dram_bandwidth.value
        banks = target.shared_bandwidth.value * target.clock.value
        shared_sums = 2 * resident * work.partial / banks  # written once, read once
        operations, special = work.finish
        plain = last * operations / (target.fp32_rate.value / self.sms)
        functions = last * special / (target.special_rate.value / self.sms)
        met = team_seconds(work.team_bytes, target, last) if work.team > 1 and self.has_latency else 0.0
        return (met + max(written + shared_sums, plain, functions)) * MICROSECONDS


def distinct_bytes(work: AlcopWork, blocks: int) -> float:
    """Bytes of one step that differ among `blocks` of a wave, in the order of their numbers: columns fastest."""
    if not work.distinct_from_grid:
        return blocks * work.fetched
    rows, columns, _ = work.grid
    layers, left = divmod(blocks, rows * columns)
    row_panels = layers * rows + -(-left // columns)
    column_panels = layers * columns + min(left, columns)
    return row_panels * work.panels[0] + column_panels * work.panels[1]


def allowed_registers(threads: int, target: Target) -> int:
    """Registers that the compiler may give a thread of such a block: `__launch_bounds__` says that one must fit."""
    by_block = int(target.registers_per_sm.value) // (-(-threads // WARP) * WARP) // REGISTER_STEP * REGISTER_STEP
    return min(int(target.registers_per_thread.value), by_block)


def _occupancy(work: AlcopWork, target: Target) -> Occupancy:
    """Resident blocks; an estimate of more registers than a thread may have means spills, not a refusal."""
    registers = None if work.registers is None else min(work.registers, allowed_registers(work.threads, target))
    return occupancy(work.threads, work.shared_bytes, registers, target)


# Its terms as readable values


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
