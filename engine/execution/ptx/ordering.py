"""Who touched which memory last, and what has ordered it since: races that no order of execution needs to show.

Within a warp bar.warp.sync orders, within a block a barrier; between blocks a counter that both come to, with fences of
the storing thread before and of the reading thread after.  Times are counts of executed instructions.
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
NEVER = 1 << 60
"""When something happens that has not happened yet."""


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
    """Of each unit of a region who stored it last, after how many fences.

    Whole words until somebody stores less: neighbours in one word may come from different blocks.
    """

    def __init__(self, region: MemoryRegion) -> None:
        self._start, self._end, self._unit = region.start, region.start + region.bytes, WORD
        units = -(-region.bytes // WORD)
        self._owner, self._fences = np.full(units, NOBODY, np.int64), np.zeros(units, np.int64)

    def holds(self, at: np.ndarray) -> np.ndarray:
        """Which addresses lie in it."""
        return (at >= self._start) & (at < self._end)

    def write(self, at: np.ndarray, size: int, threads: np.ndarray, fences: np.ndarray) -> None:
        """Note who stores.  fences: how many of its own each thread has passed."""
        if size < self._unit:
            self._owner, self._fences = (each.repeat(self._unit // size) for each in (self._owner, self._fences))
            self._unit = size
        place = _parts(at - self._start, size, self._unit)
        self._owner[place], self._fences[place] = threads[:, None], fences[:, None]

    def last_stored(self, at: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(thread, its fences before) of what is read."""
        place = _parts(at - self._start, size, self._unit)
        return self._owner[place], self._fences[place]


class GridOrder:
    """Global memory that blocks hand to each other: who stored what, and how far that has gone.

    On the way out: the thread fences, its block meets (or it goes on alone), one of the block adds to a counter.
    On the way in: one of the block looks at a counter, the block meets (or it goes on alone), the thread fences.
    """

    def __init__(self, regions: Iterable[MemoryRegion], blocks: int, block_threads: int) -> None:
        """blocks: how many run."""
        self._regions = tuple(map(_HandedMemory, regions))
        self._block_threads, threads = block_threads, blocks * block_threads
        self._fences, self._met, self._sent = (np.zeros(threads, np.int64) for _ in range(3))
        """Of each thread: its fences; how many of them its block has met after, and added to a counter after."""
        self._sending = np.full((1, threads), NEVER, np.int64)
        """Row n: when what each thread stored after n fences was sent; the last row is of fences to come."""
        self._looked, self._received = np.full(threads, -1, np.int64), np.full(threads, -1, np.int64)
        """When a counter was looked at, of which the thread knows; and the same at its last fence."""

    def fence(self, threads: np.ndarray) -> None:
        """Threads fence."""
        if not self._regions:
            return
        self._fences[threads] += 1
        self._received[threads] = self._looked[threads]
        if int(self._fences[threads].max()) == len(self._sending):
            self._sending = np.concatenate((self._sending, np.full_like(self._sending, NEVER)))

    def meet(self, blocks: np.ndarray) -> None:
        """All threads of some blocks, given by their numbers, have met."""
        if not self._regions:
            return
        looked = self._looked.reshape(-1, self._block_threads)
        looked[blocks] = looked[blocks].max(axis=1, keepdims=True)
        threads = self._threads_of(blocks)
        self._met[threads] = self._fences[threads]

    def add(self, threads: np.ndarray, clock: int) -> None:
        """Threads add to counters, and see what these held."""
        if not self._regions:
            return
        self._met[threads] = self._fences[threads]
        waiting = self._threads_of(np.unique(threads // self._block_threads))
        while (waiting := waiting[self._sent[waiting] < self._met[waiting]]).size:
            self._sending[self._sent[waiting], waiting] = clock
            self._sent[waiting] += 1
        self.look(threads, clock)

    def look(self, threads: np.ndarray, clock: int) -> None:
        """Threads see what counters hold."""
        self._looked[threads] = clock

    def _threads_of(self, blocks: np.ndarray) -> np.ndarray:
        return np.asarray(blocks[:, None] * self._block_threads + np.arange(self._block_threads)).reshape(-1)

    def write(self, at: np.ndarray, size: int, threads: np.ndarray) -> None:
        """Note who stores."""
        for region in self._regions:
            own = region.holds(at)
            if own.any():
                region.write(at[own], size, threads[own], self._fences[threads[own]])

    def read(self, at: np.ndarray, size: int, threads: np.ndarray) -> None:
        """PtxFault where another block stored and has not handed it over."""
        for region in self._regions:
            own = region.holds(at)
            if not own.any():
                continue
            (writer, fences), reader = region.last_stored(at[own], size), threads[own][:, None]
            foreign = (writer >= 0) & (writer // self._block_threads != reader // self._block_threads)
            if not foreign.any():
                continue
            if (foreign & (self._fences[writer] <= fences)).any():
                raise PtxFault("race", "reads what another block stored, which did not fence afterwards")
            received = self._received[np.broadcast_to(reader, writer.shape)]
            if (foreign & (self._sending[fences, writer] > received)).any():
                message = "reads what another block stored, without a counter and a fence of its own before"
                raise PtxFault("race", message)


def _parts(at: np.ndarray, size: int, unit: int) -> np.ndarray:
    """Numbers of the units that `size` bytes from each place on lie in, as (places, units)."""
    first = at // unit
    return np.asarray(first[:, None] + np.arange(-(-size // unit)))
