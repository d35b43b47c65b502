"""What a warp would request of global memory under a loop order, before there is a kernel: its addresses, evaluated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.kernels.access_patterns import Pattern
from engine.target.hardware import SECTOR, WARP
from engine.tensor.index import Element, Index

Points = Mapping[str, npt.NDArray[np.int64]]
"""Iterator -> its value in each thread."""


@dataclass(frozen=True, slots=True)
class ThreadWalk:
    """How a kernel goes through a box of iterators."""

    order: tuple[tuple[str, int], ...]
    """(iterator, extent), outermost first: threads are neighbours along the last one."""
    run: tuple[str, ...]
    """Iterators that the lanes of a vector run along, outermost first."""
    width: int

    @property
    def in_strips(self) -> bool:
        """Whether vectors run along another iterator than threads do."""
        return bool(self.run) and self.run[-1] != self.order[-1][0]


@dataclass(frozen=True, slots=True)
class WarpRequests:
    """Sectors and requests for each element of the box; a sector that two requests touch counts twice."""

    sectors: float
    requests: float


def count_requests(walk: ThreadWalk, patterns: Sequence[Pattern]) -> WarpRequests:
    """What the first and the middle warp request, for each element that they handle."""
    total = math.prod(extent for _, extent in walk.order) // walk.width
    sectors = requests = elements = 0
    for start in sorted({0, total // 2 // WARP * WARP}):
        threads = np.arange(start, min(start + WARP, total), dtype=np.int64)
        elements += len(threads) * walk.width
        lanes = [_points(walk, threads, lane) for lane in range(walk.width)]
        for pattern in patterns:
            more = _of(pattern, walk, lanes)
            sectors, requests = sectors + more[0], requests + more[1]
    return WarpRequests(sectors / elements, requests / elements)


def _points(walk: ThreadWalk, threads: npt.NDArray[np.int64], lane: int) -> Points:
    """Where each thread stands with one lane of its vector."""
    flat = threads if walk.in_strips else threads * walk.width + lane
    found: dict[str, npt.NDArray[np.int64]] = {}
    for name, extent in reversed(walk.order):
        strip = walk.width if walk.in_strips and name == walk.run[-1] else 1
        value, flat = flat % (extent // strip), flat // (extent // strip)
        found[name] = value * strip + (lane if strip > 1 else 0)
    return found


def _of(pattern: Pattern, walk: ThreadWalk, lanes: Sequence[Points]) -> tuple[int, int]:
    """Sectors and requests of one access."""
    wide = pattern.can_be(walk.run, walk.width)
    varies = not pattern.moves.isdisjoint(walk.run)
    sectors = requests = 0
    for points in lanes[: 1 if wide or not varies else None]:
        held = np.ones(len(next(iter(points.values()))), dtype=bool)
        for guard in pattern.guards:
            held &= value(guard.index, points) >= 0
        bytes_ = (value(pattern.where, points) * pattern.element)[held]
        if bytes_.size:
            sectors += len(np.unique(bytes_ // SECTOR))
            requests += 1
    return sectors, requests


def value(index: Index, points: Points) -> npt.NDArray[np.int64]:
    """An index in every thread.  What an index looks up is taken to be in the order of where it stands."""
    zero = np.zeros(len(next(iter(points.values()))), dtype=np.int64)

    def leaf(atom: str | Element) -> npt.NDArray[np.int64]:
        return points[atom] if isinstance(atom, str) else sum((value(i, points) for i in atom.indices), zero)

    return np.asarray(zero + index.evaluate(leaf))
