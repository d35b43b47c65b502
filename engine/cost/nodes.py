"""What a prediction needs to know about a kernel, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.documents.model import TermDoc, Time
from engine.execution.nodes import PREDICTED
from engine.support.values import value
from engine.target import Figure
from engine.target.hardware import PASS_BYTES, SECTOR, WARP
from engine.target.occupancy import Occupancy as Occupancy

MEMORY, COMPUTE, LATENCY = "memory", "compute", "latency"
"""What may limit a kernel: `Prediction.bound`."""
SHARED_LATENCY = Figure(30, "clocks", "assumed: the order of published microbenchmarks of shared memory since Volta")
"""From asking shared memory for something to having it."""
UNCALIBRATED = "uncalibrated"
"""Of a prediction whose figures are data sheets' and publications'."""


@dataclass(frozen=True, slots=True)
class TileOrder:
    """In which order the blocks of a product take its tiles, and how much of the operands these read."""

    counts: tuple[int, int]
    """Rows and columns of tiles of one batch."""
    raster: int
    """Rows of tiles that blocks walk down before they go one tile to the right."""
    operands: tuple[int, int]
    """Bytes of the first and of the second operand of one batch."""
    batches: int = 1
    """Products of that size, one after the other; of blocks that share a depth each part is one."""


@value(frozen=True, slots=True)
class Work:
    """One kernel in numbers.  All byte, operation and traffic counts are totals over the whole grid."""

    blocks: int
    threads: int
    """Per block."""
    flops: int
    """Floating-point operations on CUDA cores, those on the zeros of ragged tiles included; a fused multiply-add is
    two."""
    special: int
    """Results asked of the special-function units."""
    dram_bytes_read: int
    dram_bytes_written: int
    l2_bytes: int
    """Bytes that threads read and write in global memory: every block's own reads counted, shared or not."""
    shared_bytes: int = 0
    """Shared memory of one block, static and dynamic."""
    shared_bytes_moved: int = 0
    """Bytes read from and written to shared memory."""
    shared_bytes_loaded: int = 0
    """Of these, those that loads bring into registers; counted where `shared_passes` is."""
    shared_passes: int = 0
    """Passes over the banks of shared memory that these loads need, by the places of a warp's lanes; counted of
    products on CUDA cores, whose lanes share what they load, else 0."""
    registers: int | None = None
    """Per thread, estimated or as the compiler says; None where they are not known and do not limit the occupancy."""
    tensor_flops: int = 0
    """Floating-point operations on tensor cores, those on the zeros of ragged tiles included."""
    tensor_type: str = ""
    """Element type that the tensor cores multiply: "float16", "bfloat16" or "float32" (as tf32); "" without any."""
    stages: int = 1
    """Buffers in flight in the main loop: 1 loads, waits and computes in turn; n keeps n - 1 loads ahead."""
    serial_steps: int = 1
    """Steps of one block that each wait for their own load from global memory (k-steps, passes over a row); of the one
    that has most, where blocks differ."""
    block_steps: int = 0
    """Those of all blocks together, where they differ; 0 where each has `serial_steps`."""
    team: int = 1
    """Blocks that hand sums to the last of them, which alone does what follows."""
    team_bytes: int = 0
    """Bytes of what the blocks of one team leave in global memory that the last one reads."""
    global_requests: int = 0
    """Instructions of a warp that load from, store to or copy from global memory."""
    global_sectors: int = 0
    """Sectors of 32 bytes that these touch, each counted once a request."""
    shared_requests: int = 0
    """Instructions of a warp that load from or store to shared memory."""
    bank_conflicts: int = 0
    """Passes over the banks of shared memory beyond the fewest that these and the copies to it need."""
    copies_tiles: bool = False
    """Whether blocks copy tiles that all their threads use: sectors that one request begins others end, in L1."""
    again_bytes: int = 0
    """Of `l2_bytes`, those of arrays that the blocks read more than once over: a second pass over a row."""
    again_set: int = 0
    """Bytes of these arrays that one block has read when it begins again: its part of what L2 must hold."""
    orders: tuple[TileOrder, ...] = ()
    """Of each product's tiles, as far as its operands are known: what L2 has lost of them is read again."""
    launches: tuple[Work, ...] = ()
    """Each launch of a kernel that has several (`total_work`); none for a kernel of one."""
    meetings: int = 0
    """Times that all blocks meet: `launches` then are phases of one launch, with such a meeting between two of them."""

    @property
    def mean_steps(self) -> float:
        """Steps of a block."""
        return self.block_steps / self.blocks if self.block_steps else self.serial_steps

    @property
    def waiting_parts(self) -> int:
        """Parts of a block that each wait for their own loads: its warps, where no memory is shared in which they meet;
        else all of it."""
        return 1 if self.shared_bytes else -(-self.threads // WARP)

    @property
    def shared_traffic(self) -> int:
        """Bytes that the banks of shared memory could move meanwhile: a whole pass for each pass of a load."""
        return self.shared_bytes_moved - self.shared_bytes_loaded + self.shared_passes * PASS_BYTES

    @property
    def l2_traffic(self) -> int:
        """Bytes between L2 and the SMs: whole sectors, once for all lanes of a request that share one."""
        if self.copies_tiles or not self.global_sectors:
            return self.l2_bytes
        return self.global_sectors * SECTOR


_SUMS = (
    "blocks", "flops", "special", "dram_bytes_read", "dram_bytes_written", "l2_bytes", "shared_bytes_moved",
    "shared_bytes_loaded", "shared_passes", "tensor_flops", "serial_steps", "global_requests", "global_sectors",
    "shared_requests", "bank_conflicts", "again_bytes", "block_steps",
)  # fmt: skip


def total_work(launches: Sequence[Work]) -> Work:
    """A kernel of several launches in order: counts are sums, sizes those of the launch that has most."""
    sums = {name: sum(getattr(one, name) for one in launches) for name in _SUMS}
    largest = ("threads", "shared_bytes", "stages", "again_set")
    most = {name: max(getattr(one, name) for one in launches) for name in largest}
    return Work(**sums, **most, registers=launches[0].registers, launches=tuple(launches))


def phased_work(phases: Sequence[Work]) -> Work:
    """A launch of several phases, between which all its blocks meet: counts are sums, the blocks those of each."""
    return replace(total_work(phases), blocks=phases[0].blocks, meetings=len(phases) - 1)


def side_by_side(parts: Sequence[Work], moved: tuple[int, int]) -> Work:
    """Parts of one launch, each with blocks of its own: counts are sums, sizes those of the part that has most.

    moved: bytes that they read from and write to DRAM together, where several may read the same.
    """
    sums = {name: sum(getattr(one, name) for one in parts) for name in _SUMS if name != "serial_steps"}
    largest = ("threads", "shared_bytes", "stages", "again_set", "serial_steps")
    most = {name: max(getattr(one, name) for one in parts) for name in largest}
    known = [one.registers for one in parts if one.registers is not None]
    registers = max(known) if len(known) == len(parts) else None
    orders = tuple(order for one in parts for order in one.orders)
    together = replace(parts[0], **sums, **most, registers=registers, orders=orders)
    return replace(together, dram_bytes_read=moved[0], dram_bytes_written=moved[1])


@dataclass(frozen=True, slots=True)
class Prediction:
    """A modelled time and the terms it is made of."""

    microseconds: float
    bound: str
    """"memory", "compute" or "latency"."""
    terms: tuple[TermDoc, ...]
    occupancy: Occupancy
    waves: int
    """How often every SM is filled with blocks; the last wave may be partial."""
    origin: str = PREDICTED
    note: str = UNCALIBRATED
    """What its figures were fitted to: "calibrated on a.json, error 12 %"."""

    def time(self) -> Time:
        """As a document for the window and the command line."""
        return Time(self.microseconds, self.origin, self.note)

    def __str__(self) -> str:
        lines = [f"{self.microseconds:.3g} µs {self.origin} ({self.note}), {self.bound} bound"]
        return "\n".join(lines + [f"  {t.name:20} {t.value:>10.3g} {t.unit:6} {t.because}" for t in self.terms]) + "\n"
