"""Who touched which memory last, and what has ordered it since: races that no order of execution needs to show.

Within a warp bar.warp.sync orders, within a block a barrier; between blocks a fence of the thread that stored, then one
of the thread that reads.  Times are counts of executed instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from engine.execution.ptx.memory import MemoryRegion
from engine.execution.ptx.nodes import PtxFault

UNIT = 2
"""Bytes of shared memory that are watched together until somebody stores a single one: most kernels never do."""
WARP_THREADS = 32
NOBODY, SEVERAL = -1, -2
WORD = 4
"""Bytes of global memory that are watched together, likewise."""


@dataclass(frozen=True, slots=True)
class Threads:
    """The threads that access memory: one entry for each."""

    number: np.ndarray
    """In their block."""
    barrier: np.ndarray
    """When their block met last."""
    sync: np.ndarray
    """When their warp met last."""

    def come_after(self, number: np.ndarray, warp: np.ndarray, when: np.ndarray) -> bool:
        """Whether all come after accesses by these threads at these times: their own, or with a barrier between."""
        own = self.number[:, None]
        ordered = (number == NOBODY) | (number == own) | (when <= self.barrier[:, None])
        in_warp = warp == own // WARP_THREADS
        return bool((ordered | in_warp & (when <= self.sync[:, None])).all())


class BlockOrder:
    """Shared memory: of each unit who stored it last and who read it last, and when."""

    def __init__(self, size: int) -> None:
        self._unit, units = UNIT, -(-size // UNIT)
        self._writer, self._reader, self._reading_warp = (np.full(units, NOBODY, np.int32) for _ in range(3))
        self._stored, self._read = np.zeros(units, np.int64), np.zeros(units, np.int64)

    def read(self, at: np.ndarray, size: int, threads: Threads, clock: int) -> None:
        """at: place of each thread's read.  PtxFault where another thread stored and nothing has ordered it since."""
        place, own = _parts(at, size, self._unit), threads.number[:, None]
        self._check_stored(place, threads, "reads shared memory that another thread wrote")
        recent = self._read[place] > threads.barrier[:, None]
        others = recent & (self._reader[place] != own)
        warps = recent & (self._reading_warp[place] != own // WARP_THREADS)
        self._reader[place] = np.where(others, SEVERAL, own)
        self._reading_warp[place] = np.where(warps, SEVERAL, own // WARP_THREADS)
        self._read[place] = clock

    def write(self, at: np.ndarray, size: int, threads: Threads, clock: int) -> None:
        """As `read`; PtxFault where another thread stored or reads."""
        if size < self._unit:
            self._watch_bytes()
        place, own = _parts(at, size, self._unit), threads.number[:, None]
        self._check_stored(place, threads, "overwrites shared memory that another thread wrote")
        if not threads.come_after(self._reader[place], self._reading_warp[place], self._read[place]):
            raise _race("overwrites shared memory that another thread reads")
        self._writer[place], self._stored[place] = own, clock

    def _watch_bytes(self) -> None:
        """Watch single bytes from now on, each with what is known of those that were watched with it."""
        who = self._writer, self._reader, self._reading_warp
        self._writer, self._reader, self._reading_warp = (each.repeat(self._unit) for each in who)
        self._stored, self._read = self._stored.repeat(self._unit), self._read.repeat(self._unit)
        self._unit = 1

    def _check_stored(self, place: np.ndarray, threads: Threads, what: str) -> None:
        writer = self._writer[place]
        if not threads.come_after(writer, writer // WARP_THREADS, self._stored[place]):
            raise _race(what)


def _race(what: str) -> PtxFault:
    return PtxFault("race", f"{what}, without a barrier between")


class _HandedMemory:
    """Of each unit of a region who stored it last, and when.

    Whole words until somebody stores less: neighbours in one word may come from different blocks.
    """

    def __init__(self, region: MemoryRegion) -> None:
        self._start, self._end, self._unit = region.start, region.start + region.bytes, WORD
        units = -(-region.bytes // WORD)
        self._owner, self._stored = np.full(units, NOBODY, np.int64), np.zeros(units, np.int64)

    def holds(self, at: np.ndarray) -> np.ndarray:
        """Which addresses lie in it."""
        return (at >= self._start) & (at < self._end)

    def write(self, at: np.ndarray, size: int, threads: np.ndarray, clock: int) -> None:
        """Note who stores."""
        if size < self._unit:
            self._owner, self._stored = (each.repeat(self._unit // size) for each in (self._owner, self._stored))
            self._unit = size
        place = _parts(at - self._start, size, self._unit)
        self._owner[place], self._stored[place] = threads[:, None], clock

    def last_stored(self, at: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(thread, time) of what is read."""
        place = _parts(at - self._start, size, self._unit)
        return self._owner[place], self._stored[place]


class GridOrder:
    """Global memory that blocks hand to each other: who stored what, and when every thread fenced last."""

    def __init__(self, regions: Iterable[MemoryRegion], threads: int) -> None:
        """threads: of all blocks that run."""
        self._regions = tuple(map(_HandedMemory, regions))
        self._fenced = np.full(threads, -1, np.int64)

    def fence(self, threads: np.ndarray, clock: int) -> None:
        """Threads fence."""
        self._fenced[threads] = clock

    def write(self, at: np.ndarray, size: int, threads: np.ndarray, clock: int) -> None:
        """Note who stores."""
        for region in self._regions:
            own = region.holds(at)
            if own.any():
                region.write(at[own], size, threads[own], clock)

    def read(self, at: np.ndarray, size: int, threads: np.ndarray, block_threads: int) -> None:
        """PtxFault where another block stored and a fence is missing on either side."""
        for region in self._regions:
            own = region.holds(at)
            if not own.any():
                continue
            (writer, stored), reader = region.last_stored(at[own], size), threads[own][:, None]
            foreign = (writer >= 0) & (writer // block_threads != reader // block_threads)
            fenced = np.where(foreign, self._fenced[writer], 0)
            if (foreign & (fenced <= stored)).any():
                raise PtxFault("race", "reads what another block stored, which did not fence afterwards")
            if (foreign & (self._fenced[np.broadcast_to(reader, writer.shape)] <= fenced)).any():
                raise PtxFault("race", "reads what another block stored, without a fence of its own before")


def _parts(at: np.ndarray, size: int, unit: int) -> np.ndarray:
    """Numbers of the units that `size` bytes from each place on lie in, as (places, units)."""
    first = at // unit
    return np.asarray(first[:, None] + np.arange(-(-size // unit)))
