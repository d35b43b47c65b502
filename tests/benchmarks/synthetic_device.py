"""A GPU that is none: it gives a compiled kernel a time, so that a search has a truth to find without a machine.

No searcher sees it, and it shares no equation with `engine.predict`: an SM is simulated tile by tile, with registers
and spills as NVRTC has them, bank conflicts as the emulator counts them, instructions as the kernel's tile program
issues them, and noise from a seed.  Its times are of origin "synthetic" and say nothing about any GPU.  Its figures
were written down with their reasons before any search ran on it, and are not fitted to anything.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from statistics import NormalDist

from engine.execution.nodes import SYNTHETIC, Failure, Timing
from engine.support.errors import Unsupported
from engine.target import target
from engine.target.hardware import WARP
from engine.target.occupancy import occupancy

MACHINE = target("a100")
"""Whose limits on blocks, registers and shared memory hold: those are the instruction set's, not a model's."""
SMS = 108
CLOCK = 1290.0
"""Clocks in a microsecond: under a full load GPUs of this class run some 8 % below their boost clock."""
PRODUCT = 8.4
"""Clocks of one 16 x 8 x 16 product on its tensor core: 8 by the data sheet, of which 95 % were ever seen."""
PRODUCT_LATENCY = 33.0
"""Clocks from a product to its sums, the order of published microbenchmarks."""
READ_LATENCY = 29.0
"""Clocks from a read of shared memory to its registers, the same."""
READ_PASSES = 4
"""Passes over the banks of one read of four 8 x 8 matrices by a warp."""
L2_LATENCY, DRAM_LATENCY = 270.0, 640.0
"""Clocks, the order of published microbenchmarks of this class."""
L2_RATE, DRAM_RATE, PORT_RATE = 3300.0, 1200.0, 50.0
"""Bytes a clock: of L2 65 % of the data sheet, as microbenchmarks reach; of DRAM 85 % of 1.8 TB/s; of one SM's port to
L2 78 % of its 64."""
L2_BYTES = 20 << 20
"""Half of the data sheet's: each half of the chip keeps its own copy of what it reads."""
BARRIER, BARRIER_OF_WARP = 24.0, 3.0
"""Clocks of a barrier, and for each warp that comes to it."""
ISSUED_PRODUCT, ISSUED_READ, ISSUED_COPY, ISSUED_INDEX = 1.0, 1.5, 2.0, 1.2
"""Instructions that a scheduler issues for an operation of the tile program, its address included."""
GATHERED = 8
"""Loads that a thread has under way at once where it gathers single elements."""
CODE_BYTES, CODE_PENALTY = 64 << 10, 0.25
"""Instructions beyond this size miss the cache near the SM; what is issued costs so much more for each time it is."""
MEETING = 3
"""Trips to L2 of blocks that meet: sums to be seen, the counter, the first sums of another."""
START = 900.0
"""Clocks from the end of a block to the first load of the next in its place."""
LAUNCH = 3900.0
"""Clocks of an empty kernel: 3 us."""
OVERLAP = 4.0
"""Exponent of the norm by which demands on several units add up: infinite would be perfect overlap, 1 none.  At a ridge
where two demands are equal kernels are seen at some 80 to 85 % of either."""
SHAPE_NOISE, TEXT_NOISE = 0.04, 0.01
"""Standard deviation of the logarithm: what no model knows of a tile's shape (the compiler's order of instructions,
partitions of memory), and the spread that repeated medians of one kernel have."""
SIMULATED = 32
"""Tiles of the depth that are simulated; the rhythm is steady long before, and goes on."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A compiled kernel as the device sees it; counts are of one thread and one tile of the depth unless said."""

    text: str
    """Digest of the kernel's text: what its noise is drawn by."""
    shape: str
    """The operator and its tile: what the noise of a shape is drawn by."""
    grid: tuple[int, int, int]
    """Blocks along rows, columns (numbered fastest) and batches."""
    threads: int
    shared_bytes: int
    registers: int
    spill_bytes: int
    code_bytes: int
    steps: int
    """Tiles of the depth that a block walks."""
    stages: int
    inner_steps: int
    register_stages: int
    copies: float
    loads: float
    """From global memory, each of which the thread waits for."""
    reads: float
    """Of fragments from shared memory."""
    products: float
    indices: float
    conflicts: float
    """Extra passes for each read of shared memory."""
    fetched: tuple[float, float]
    """Bytes of a block from its row panel and from its column panel, of which as many are new as `distinct` says."""
    distinct: tuple[float, float]
    operands: float
    """Bytes of both operands in memory."""
    written: float
    """Bytes of a block at the end."""
    exchanged: float = 0.0
    """Bytes of a block's partial sums that pass shared memory at the end."""
    team: int = 1
    """Blocks that share the depth, of which the last one adds up all sums and finishes."""
    handed: float = 0.0
    """Bytes of sums that each of them leaves in memory."""


def run(launch: Launch, seed: int = 0) -> Timing | Failure:
    """The time of a kernel on this device, in microseconds; a failure where not one block starts."""
    try:
        blocks = occupancy(launch.threads, launch.shared_bytes, launch.registers, MACHINE).blocks
    except Unsupported as error:
        return Failure("crash", error.reason)
    total = math.prod(launch.grid)
    busiest = -(-total // SMS)
    full, left = divmod(busiest, blocks)
    clocks = LAUNCH
    clocks += full * _Sm(launch, blocks).wave() if full else 0.0
    clocks += _Sm(launch, left).wave() if left else 0.0
    noise = SHAPE_NOISE * _drawn(seed, launch.shape) + TEXT_NOISE * _drawn(seed, launch.text)
    return Timing(SYNTHETIC, clocks / CLOCK * math.exp(noise), environment={"device": f"synthetic, seed {seed}"})


def _drawn(seed: int, word: str) -> float:
    """A number of the standard normal distribution: always the same one for a word."""
    data = hashlib.sha256(f"{seed} {word}".encode()).digest()
    return NormalDist().inv_cdf((int.from_bytes(data[:6], "little") + 0.5) / 2**48)


def _together(*demands: float) -> float:
    """Time in which several units meet their demands, each a time of its own."""
    most = max(demands)
    return most * math.fsum((d / most) ** OVERLAP for d in demands) ** (1 / OVERLAP) if most else 0.0


class _Sm:
    """One SM with some blocks that begin together; times in clocks."""

    def __init__(self, launch: Launch, blocks: int) -> None:
        self.launch, self.blocks = launch, blocks
        self.warps = -(-launch.threads // WARP)
        total = math.prod(launch.grid)
        self.active = min(SMS, total)
        self.running = min(total, self.active * blocks)

    def wave(self) -> float:
        """From the start of the blocks to their last stored byte."""
        return START + self._loop() + self._end()

    def _loop(self) -> float:
        launch = self.launch
        if launch.steps <= SIMULATED:
            return self._simulated(launch.steps)
        half, whole = self._simulated(SIMULATED // 2), self._simulated(SIMULATED)
        return whole + (whole - half) / (SIMULATED - SIMULATED // 2) * (launch.steps - SIMULATED)

    def _simulated(self, steps: int) -> float:
        """Blocks ask for tiles as soon as a buffer is free; a channel and the SM's units serve one after another."""
        ahead = max(1, self.launch.stages - 1)
        transfer, latency = self._transfer(), self._latency()
        alone, service = self._alone(), self._service()
        done = [0.0] * self.blocks
        arrived = [[0.0] * steps for _ in range(self.blocks)]
        channel = units = 0.0

        def ask(block: int, step: int, now: float) -> None:
            nonlocal channel
            channel = max(channel, now) + transfer
            arrived[block][step] = channel + latency

        for step in range(min(ahead, steps) if self.launch.stages > 1 else 0):
            for block in range(self.blocks):
                ask(block, step, 0.0)
        for step in range(steps):
            for block in range(self.blocks):
                if self.launch.stages == 1:
                    ask(block, step, done[block])
                elif step + ahead < steps:
                    ask(block, step + ahead, max(done[block], arrived[block][step]))
                begun = max(done[block], arrived[block][step])
                units = max(units, begun) + service
                done[block] = max(begun + alone, units)
        return max(done)

    def _latency(self) -> float:
        """From asking to having, without the channel: the farther memory for what is new there."""
        share = self._new_bytes() / sum(self.launch.fetched)
        once = L2_LATENCY + (DRAM_LATENCY - L2_LATENCY) * max(0.3, share)
        rounds = -(-self.launch.loads // GATHERED)
        return once * max(1.0, rounds / 2)  # the next round is asked for when half of the last one is there

    def _transfer(self) -> float:
        """Of one block's tile through the SM's port, L2 and DRAM."""
        fetched = sum(self.launch.fetched)
        share = self.active
        return _together(
            fetched / PORT_RATE, fetched * share / L2_RATE, self._new_bytes() * share / DRAM_RATE
        )  # fmt: skip

    def _new_bytes(self) -> float:
        """Bytes of one block's tile that no block beside it has brought to L2, nor one before it where all fits."""
        rows, columns, _ = self.launch.grid
        layers, left = divmod(self.running, rows * columns)
        panels = (layers * rows + -(-left // columns), layers * columns + min(left, columns))
        new = sum(
            count * size * part
            for count, size, part in zip(panels, self.launch.fetched, self.launch.distinct, strict=True)
        )
        waves = math.prod(self.launch.grid) / self.running
        if self.launch.operands <= L2_BYTES:
            new = min(new, self.launch.operands / self.launch.steps / waves)
        return new / self.running

    def _alone(self) -> float:
        """One block's tile with the SM to itself."""
        launch = self.launch
        inner, own = launch.inner_steps, -(-self.warps // 4)
        products = launch.products / inner * PRODUCT
        read = READ_LATENCY + launch.reads / inner * READ_PASSES * (1 + launch.conflicts)
        if launch.register_stages == 1:
            body = inner * max(read + products, own * products)
        else:
            body = read + inner * max(read / launch.register_stages, own * products)
        return body + PRODUCT_LATENCY + BARRIER + BARRIER_OF_WARP * self.warps

    def _service(self) -> float:
        """Time in which the SM's units do one block's tile while others keep them busy."""
        launch = self.launch
        tensor = launch.products * self.warps * PRODUCT / 4
        banks = launch.reads * self.warps * READ_PASSES * (1 + launch.conflicts) + sum(launch.fetched) / 128
        issued = (
            ISSUED_PRODUCT * launch.products + ISSUED_READ * launch.reads
            + ISSUED_COPY * (launch.copies + 2 * launch.loads) + ISSUED_INDEX * launch.indices
        )  # fmt: skip
        issued *= 1 + CODE_PENALTY * max(0.0, launch.code_bytes / CODE_BYTES - 1)
        local = launch.spill_bytes * launch.threads / PORT_RATE
        return _together(tensor, banks, issued * self.warps / 4) + local

    def _end(self) -> float:
        """Partial sums through shared memory, written and read, then results of all blocks to memory."""
        stored, banks = self.blocks * self.launch.written, 2 * self.blocks * self.launch.exchanged / 128
        return self._met() + DRAM_LATENCY + banks + _together(stored / PORT_RATE, stored * self.active / DRAM_RATE)

    def _met(self) -> float:
        """Sums of all blocks to L2, then those of whole teams back by the blocks that come last."""
        launch = self.launch
        if launch.team == 1:
            return 0.0
        last = -(-self.blocks // launch.team)
        return MEETING * L2_LATENCY + (self.blocks + last * launch.team) * launch.handed / PORT_RATE
