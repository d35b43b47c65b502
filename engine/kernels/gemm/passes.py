"""Passes over the banks of shared memory that loads of a product on CUDA cores need, by the places of lanes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from engine.kernels.gemm.thread_grid import ThreadGrid, ThreadPlace
from engine.target.hardware import WARP
from engine.tensor.index import Index
from engine.tile.addresses import evaluate, passes_of
from engine.tile.nodes import THREAD


class Loads(NamedTuple):
    """Loads from shared memory of one or more blocks."""

    passes: int
    """Over the banks, of one warp of each block."""
    bytes: int
    """Of one thread of each block."""


@lru_cache(maxsize=4096)
def fragment_passes(grid: ThreadGrid, side: int, steps: tuple[int, int], width: int) -> int:
    """Of one load of an operand's fragment.

    steps: bytes from a thread's part of the side to the next thread's, and from a slice's depths to the next slice's;
    width: bytes of a lane.
    """
    return _passes(grid, lambda one: one.slots[side] * steps[0] + one.slice * steps[1], width)


@lru_cache(maxsize=4096)
def exchange_passes(grid: ThreadGrid, shares: int, share_bytes: int, width: int) -> int:
    """Of one load of sums that slices hand to each other.

    share_bytes: from the sums of one share of the rows to those of the next; width: bytes of a lane.
    """
    extents = {THREAD: grid.threads}
    return _passes(grid, lambda one: one.slice.mod(shares, extents) * share_bytes + one.number * width, width)


def row_parts_passes(threads: int, width: int) -> int:
    """Of one load of parts of a row, which a whole warp has: all lanes read the same place."""
    lanes = np.zeros(min(WARP, threads), np.int64)
    return int(passes_of(lanes, np.ones(lanes.shape, bool), width))


def _passes(grid: ThreadGrid, address: Callable[[ThreadPlace], Index], width: int) -> int:
    lanes = np.arange(min(WARP, grid.threads))
    index = address(grid.place(lambda _, index: index, {THREAD: grid.threads}))
    addresses = np.broadcast_to(evaluate(index, {THREAD: lanes}), lanes.shape)
    return int(passes_of(addresses, np.ones(lanes.shape, bool), width))
