"""Memory of an execution: global buffers between gaps, shared memory of several blocks, and what of it is defined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.execution.ptx.nodes import PtxFault

ORIGIN = 0x7F_0000_0000
"""Address of the first byte of global memory: an address that lost its upper half is outside."""
PAGE = 4096
READABLE, STORED, STORED_BEFORE = 1, 2, 4
"""Bits kept for each byte: it has a value; this launch stored it; an earlier launch did."""

Addresses = np.ndarray
"""int64, one for each running lane."""


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """A buffer, workspace or variable in global memory."""

    name: str
    start: int
    """Bytes from ORIGIN."""
    bytes: int


class Memory:
    """Bytes with a state each."""

    def __init__(self, size: int, space: str) -> None:
        self.space = space
        # NaN in every type of floats: an output that nobody stored cannot pass for zeros.
        self.data = np.full(size, 0xFF, np.uint8)
        self.state = np.zeros(size, np.uint8)
        self._data, self._state = ({n: kept.view(f"u{n}") for n in (1, 2, 4, 8)} for kept in (self.data, self.state))

    def read(self, at: Addresses, unit: int, count: int) -> np.ndarray:
        """`count` units of bytes from each place on, as (lanes, count) unsigned numbers.  at: within this memory."""
        place = self._places(at, unit, count)
        undefined = (self._state[unit][place] & _every(unit, READABLE)) != _every(unit, READABLE)
        if undefined.any():
            lane = int(np.flatnonzero(undefined.any(axis=1))[0])
            raise PtxFault("uninitialised", f"reads {self.name(int(at[lane]))}, which nobody has written")
        values: np.ndarray = self._data[unit][place]
        return values

    def write(self, at: Addresses, values: np.ndarray) -> None:
        """Store (lanes, count) unsigned numbers from each place on; of lanes with one place the last one stays."""
        unit = values.dtype.itemsize
        place = self._places(at, unit, values.shape[1])
        self._data[unit][place] = values
        self._state[unit][place] |= _every(unit, READABLE | STORED)

    def stored_now(self, at: Addresses, unit: int, count: int) -> np.ndarray:
        """Of each lane: whether this launch stored any of what it would read."""
        stored: np.ndarray = (self._state[unit][self._places(at, unit, count)] & _every(unit, STORED)) != 0
        return np.asarray(stored.any(axis=1))

    def name(self, at: int) -> str:
        """A place, for messages."""
        return f"byte {at} of {self.space} memory"

    @staticmethod
    def _places(at: Addresses, unit: int, count: int) -> np.ndarray:
        first = at // unit
        return first[:, None] if count == 1 else first[:, None] + np.arange(count)


class GlobalMemory(Memory):
    """Regions with gaps between them.  Each begins where its alignment allows it and no larger power of two does."""

    def __init__(self, sizes: Mapping[str, tuple[int, int]]) -> None:
        """sizes: of each region, bytes and alignment."""
        regions: list[MemoryRegion] = []
        end = PAGE
        for name, (size, alignment) in sizes.items():
            start = -(-end // (2 * alignment)) * 2 * alignment + alignment
            regions.append(MemoryRegion(name, start, size))
            end = start + size + PAGE
        super().__init__(-(-end // PAGE) * PAGE, "global")
        self.regions = {region.name: region for region in regions}
        self._names = [region.name for region in regions]
        self._starts = np.array([region.start for region in regions], np.int64)
        self._ends = np.array([region.start + region.bytes for region in regions], np.int64)

    def fill(self, name: str, values: np.ndarray) -> None:
        """Give a region its values from its first byte on."""
        held = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        start = self.regions[name].start
        self.data[start : start + held.size] = held
        self.state[start : start + held.size] |= READABLE

    def address(self, name: str) -> int:
        """The pointer to a region."""
        return ORIGIN + self.regions[name].start

    def bytes_of(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A region's bytes, and which of them any launch stored."""
        region = self.regions[name]
        own = slice(region.start, region.start + region.bytes)
        return self.data[own], (self.state[own] & (STORED | STORED_BEFORE)) != 0

    def locate(self, addresses: Addresses, size: int, alignment: int = 0) -> Addresses:
        """Places of `size` bytes each from addresses on; PtxFault where one is misaligned or outside a region.

        alignment: that the addresses need; 0 for `size`.
        """
        at = addresses.astype(np.int64) - ORIGIN
        _check_alignment(at, alignment or size)
        low, high = int(at.min()), int(at.max())
        first = int(np.searchsorted(self._starts, low, "right")) - 1
        if first >= 0 and high + size <= self._ends[first]:
            return at
        region = np.searchsorted(self._starts, at, "right") - 1
        outside = (region < 0) | (at + size > self._ends[region])
        if outside.any():
            raise PtxFault("out of bounds", f"{size} bytes at {self.name(int(at[outside][0]))}")
        return at

    def name(self, at: int) -> str:
        """A place by the region before it."""
        number = int(np.searchsorted(self._starts, at, "right")) - 1
        if number < 0:
            return f"address {at + ORIGIN:#x}, before every buffer"
        return f"byte {at - int(self._starts[number])} of {self._names[number]}"

    def end_launch(self) -> None:
        """What the launch stored is from now on stored before."""
        self.state |= (self.state & STORED) << 1
        self.state &= 0xFF ^ STORED


class BlockMemory(Memory):
    """Shared memory of blocks that run side by side, or local memory of threads: equal parts of one size."""

    def __init__(self, size: int, parts: int, space: str) -> None:
        self.size = size
        self._step = -(-size // 16) * 16
        super().__init__(self._step * parts + 16, space)

    def locate(self, offsets: Addresses, part: np.ndarray, size: int) -> Addresses:
        """Places of `size` bytes each from offsets in parts on; PtxFault where one is misaligned or outside."""
        at = offsets.astype(np.int64)
        _check_alignment(at, size)
        if at.size and (int(at.min()) < 0 or int(at.max()) + size > self.size):
            wrong = int(at[(at < 0) | (at + size > self.size)][0])
            raise PtxFault("out of bounds", f"{size} bytes at byte {wrong} of {self.size} of {self.space} memory")
        placed: Addresses = at + part * self._step
        return placed

    def name(self, at: int) -> str:
        """A place in its own part."""
        return f"byte {at % self._step} of {self.space} memory"


def _every(unit: int, bits: int) -> np.ndarray:
    """A number of `unit` bytes, each of which holds some bits."""
    return np.frombuffer(bytes([bits]) * unit, f"u{unit}")


def _check_alignment(at: Addresses, size: int) -> None:
    wrong = at & (size - 1)
    if wrong.any():
        past = int(wrong[wrong != 0][0])
        raise PtxFault("misaligned", f"{size} bytes at an address {past} past a multiple of {size}")
