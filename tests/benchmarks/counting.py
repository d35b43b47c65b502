"""Counting what a kernel requests of global memory: a sample of its blocks, run by the emulator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

import engine
from engine.execution.emulate.emulate import emulate
from engine.tensor.traffic import compulsory_bytes
from engine.verify.footprint import own_part

GLOBAL = ("global load", "async copy", "global store")
WIDEST, SECTOR = 16, 32
"""Bytes of the widest access of one thread, and of a sector."""
ORDER, SECONDS = "late", 60.0


@dataclass(frozen=True, slots=True)
class Counted:
    """A kernel's launch, and what a sample of its blocks requested of global memory."""

    blocks: int
    threads: int
    """Of one block."""
    blocks_run: int
    loads: int
    """Warp-wide requests, asynchronous copies among them."""
    stores: int
    widest: int
    """Requests in which each thread moves 16 bytes."""
    sectors: int
    useful: Fraction
    """Bytes."""
    relaxed: tuple[str, ...]
    """Entries that the kernel does not follow to the letter."""
    faults: tuple[str, ...]
    """What the emulator's checks found."""

    @property
    def parallelism(self) -> int:
        """Threads of the whole launch."""
        return self.blocks * self.threads

    @property
    def requests(self) -> int:
        return self.loads + self.stores

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests

    @property
    def requests_per_byte(self) -> Fraction:
        """Requests for a useful byte: what wider accesses lower where the sectors stay."""
        return self.requests / self.useful

    @property
    def widest_share(self) -> float:
        """Requests of 16 bytes a thread, of all."""
        return self.widest / self.requests

    @property
    def sectors_per_byte(self) -> Fraction:
        """Sectors for a useful byte; 1/32 where all are full and none is moved twice."""
        return self.sectors / self.useful

    @property
    def efficiency(self) -> float:
        """Useful bytes of the bytes in all sectors."""
        return float(self.useful / (self.sectors * SECTOR))


def shortfalls(ours: Counted, rival: Counted) -> tuple[str, ...]:
    """In what `ours` is behind: sectors for a useful byte, threads of the launch, faults."""
    found = []
    if ours.sectors_per_byte > rival.sectors_per_byte:
        found.append(f"{float(ours.sectors_per_byte / rival.sectors_per_byte):.3f} x the sectors")
    if ours.parallelism < rival.parallelism:
        found.append(f"{ours.parallelism / rival.parallelism:.2f} x the threads")
    return (*found, *ours.faults)


def gains(ours: Counted, rival: Counted) -> tuple[str, ...]:
    """In what `ours` is strictly ahead: sectors and requests for a useful byte, 16-byte requests of all."""
    found = []
    if ours.sectors_per_byte < rival.sectors_per_byte:
        found.append(f"{float(ours.sectors_per_byte / rival.sectors_per_byte):.2f} x the sectors")
    if ours.requests_per_byte < rival.requests_per_byte:
        found.append(f"{float(ours.requests_per_byte / rival.requests_per_byte):.2f} x the requests")
    if ours.widest_share > rival.widest_share:
        found.append(f"{ours.widest_share:.0%} of 16 bytes, not {rival.widest_share:.0%}")
    return tuple(found)


def count(kernel: engine.Kernel) -> Counted:
    """Emulate a sample of a kernel's blocks.

    Raises Unsupported where the addresses depend on values and where the sample stores nothing.
    """
    source, program = kernel.source, kernel.group.program
    for statement in program.statements:
        if any(index.elements() for access in (*statement.reads(), statement.write) for index in access.indices):
            raise engine.Unsupported("count", kernel.group.name, f"the addresses of {statement.name} depend on values")
    total = math.prod(source.grid)
    zeros = {b.array: np.zeros(b.elements, b.dtype) for b in source.buffers if b.read}
    emulation, _, written = emulate(source, zeros, blocks=sample(total), order=ORDER, timeout=SECONDS)
    sites = [site for site in emulation.counts if site.kind in GLOBAL]
    stores = sum(site.requests for site in sites if site.kind == "global store")
    results = sum(int(own_part(program, array).sum()) for array in written)
    stored = sum(int(mask.sum()) for mask in written.values())
    if not stored:
        raise engine.Unsupported("count", kernel.group.name, "the sampled blocks store nothing")
    return Counted(
        blocks=total,
        threads=math.prod(source.block),
        blocks_run=emulation.blocks_run,
        loads=sum(site.requests for site in sites) - stores,
        stores=stores,
        widest=sum(site.requests for site in sites if site.width == WIDEST),
        sectors=sum(site.sectors for site in sites),
        useful=Fraction(sum(compulsory_bytes(program)) * stored, results),
        relaxed=tuple(f"{v.placed.entry}: {v.because}" for v in kernel.verdicts if v.outcome != "honoured"),
        faults=tuple(f"line {finding.line}: {finding.kind}" for finding in emulation.findings),
    )


def sample(total: int) -> list[int]:
    """The first, the middle and the last two of `total` blocks."""
    starts = (0, total // 2 - 1, total - 2)
    return sorted({block for start in starts for block in (start, start + 1) if 0 <= block < total})
