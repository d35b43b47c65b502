"""Where the lanes of a warp touch memory, and what that costs: sectors of global memory, passes over shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from engine.graph.nodes import DTYPES
from engine.target.hardware import BANK_BYTES, BANKS, PASS_BYTES, SECTOR, VECTOR_BYTES, WARP
from engine.tensor.index import Element, Index
from engine.tile.nodes import Buffer, Region

Lanes = np.ndarray[Any, np.dtype[np.int64]]
"""Numbers whose last axis is the lanes of a warp, or that are alike in all lanes."""
Values = Mapping[str, Lanes]
"""Variable -> its value in each lane."""

NOWHERE = np.iinfo(np.int64).min
"""Stands for the sector of a lane that takes no part."""


class DependsOnData(Exception):
    """An address follows from a value that was read from memory."""


def evaluate(index: Index, values: Values) -> Lanes:
    """An index in each lane.  Raises DependsOnData where it uses what is in no `values`."""

    def leaf(atom: str | Element) -> Lanes:
        if isinstance(atom, str) and atom in values:
            return values[atom]
        raise DependsOnData(str(index))

    return np.asarray(index.evaluate(leaf))


def byte_addresses(region: Region, buffer: Buffer, start: int, values: Values) -> Lanes:
    """The first byte of a region in each lane.  start: of the buffer in its memory.  Raises as `evaluate` does."""
    element = DTYPES[buffer.dtype]
    position = evaluate(region.position, values)
    return start + element * (_permute(position, buffer.row_bytes, element) if buffer.row_bytes else position)


def _permute(position: Lanes, row_bytes: int, element: int) -> Lanes:
    """Where `swizzle.cuh` puts an element of a tile."""
    line, chunks, chunk = max(row_bytes, PASS_BYTES), min(row_bytes, PASS_BYTES) // 16, 16 // element
    row = position // (line // element) % chunks
    phase = row * 2 % chunks + row * 2 // chunks if element == BANK_BYTES else row
    return position ^ (phase * chunk)


def sectors_of(addresses: Lanes, active: np.ndarray) -> Lanes:
    """Sectors of global memory that one request of each warp touches; accesses lie at multiples of their width."""
    # Where a mask is taken to hold, an address may lie before the array.
    sectors = np.sort(np.where(active, addresses // SECTOR, NOWHERE), axis=-1)
    counts: Lanes = _distinct(sectors, NOWHERE).sum(axis=-1)
    return counts


def conflicts_of(addresses: Lanes, active: np.ndarray, width: int) -> Lanes:
    """Passes over the banks of shared memory that one request of each warp needs beyond the fewest for its bytes.

    Lanes that together move PASS_BYTES are served at once; those that read one word share it.
    """
    passes, groups = _passes_of_groups(addresses, active, width, _together(width))
    return passes - groups


def passes_of(addresses: Lanes, active: np.ndarray, width: int) -> Lanes:
    """Passes over the banks of shared memory that one load of each warp needs.

    Where all lanes n and n ^ 1, or all n and n ^ 2, read the same place, a wide load serves twice as many lanes at once
    (an engineer of NVIDIA of compute capability 7: forums.developer.nvidia.com/t/77228), but no more: that 16 bytes a
    lane need two passes at least was measured since Maxwell (NervanaSystems/maxas, issue 8).
    """
    alone, _ = _passes_of_groups(addresses, active, width, _together(width))
    if not BANK_BYTES < width <= VECTOR_BYTES:
        return alone
    joined, _ = _passes_of_groups(addresses, active, width, 2 * _together(width))
    passes: Lanes = np.where(_in_pairs(addresses, active), joined, alone)
    return passes


def _together(width: int) -> int:
    """Lanes that are served at once."""
    return min(WARP, PASS_BYTES // max(width, BANK_BYTES))


def _in_pairs(addresses: Lanes, active: np.ndarray) -> np.ndarray:
    """Whether lanes share places in pairs, of all of a warp in the same way; lanes that take no part do not count."""
    numbers, found = np.arange(addresses.shape[-1]), np.zeros(addresses.shape[:-1], bool)
    for apart in (1, 2):
        other = np.minimum(numbers ^ apart, numbers[-1])
        both = active & active[..., other]
        found = found | ((addresses == addresses[..., other]) | ~both).all(axis=-1)
    return found


def _passes_of_groups(addresses: Lanes, active: np.ndarray, width: int, group: int) -> tuple[Lanes, Lanes]:
    """(passes, groups of lanes) of one request of each warp.  group: lanes that are served at once."""
    if addresses.ndim == 1:  # kernels touch memory in few ways
        return _passes_of_warp(addresses.astype(np.int64).tobytes(), active.tobytes(), width, group)
    lanes = addresses.shape[-1]
    order = np.argsort(~active, axis=-1, kind="stable")  # lanes that take no part leave no gap
    first = np.take_along_axis(np.where(active, addresses // BANK_BYTES, -1), order, axis=-1)
    parts = max(1, width // BANK_BYTES)
    words = np.where(first[..., None] >= 0, first[..., None] + np.arange(parts), -1)
    words = words.reshape(-1, lanes, parts)
    total, groups = np.zeros(len(words), np.int64), np.zeros(len(words), np.int64)
    for begin in range(0, lanes, group):
        taken = np.sort(words[:, begin : begin + group].reshape(len(words), -1), axis=-1)
        bins = np.arange(len(words))[:, None] * BANKS + taken % BANKS
        loads = np.bincount(bins[_distinct(taken, -1)], minlength=len(words) * BANKS)
        most = loads.reshape(-1, BANKS).max(axis=-1)
        total += most
        groups += most > 0
    return total.reshape(addresses.shape[:-1]), groups.reshape(addresses.shape[:-1])


@lru_cache(maxsize=4096)
def _passes_of_warp(addresses: bytes, active: bytes, width: int, group: int) -> tuple[Lanes, Lanes]:
    """As `_passes_of_groups`, of the lanes of one warp."""
    lanes = np.frombuffer(addresses, np.int64)[None, :]
    passes, groups = _passes_of_groups(lanes, np.frombuffer(active, bool)[None, :], width, group)
    return passes[0], groups[0]


def _distinct(ordered: Lanes, none: int) -> np.ndarray:
    """Which elements of sorted rows are the first of their value.  none: what stands for no element."""
    first = np.ones_like(ordered, dtype=bool)
    first[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    first &= ordered != none
    return first
