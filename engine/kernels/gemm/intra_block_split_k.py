"""Split-K inside a block: threads that own the same part of the tile take turns along its depth.

    slices 2    warps 0..3 multiply the first half of every tile's depths, warps 4..7 the second

A small product has few tiles, and a block with more warps hides more of what each waits for.  At the end every thread
writes its sums to shared memory; the slices share out the rows and add them, always in the same order.  Both powers of
two: rows of sums to a thread (on tensor cores rows of instructions to a warp), and slices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from engine.kernels.gemm.base import GemmLowering
from engine.tensor.index import Index
from engine.tensor.nodes import Access
from engine.tile.emit import LANE_OF_VECTOR
from engine.tile.nodes import Barrier, Buffer, Comment, Load, Slot, Store

_INNER = ("s", "h", "p")
"""Loops over what a thread has of one row."""


@dataclass(frozen=True, slots=True)
class Sliced:
    """The sums of all slices, as each thread holds them."""

    slices: int
    slice: Index
    """Of this thread."""
    group: Index
    """Number of this thread's warp in its slice; 0 where threads of a slice are counted alone."""
    groups: int
    """Of one slice."""
    lane: Index
    """Number of this thread in its group."""
    lanes: int
    sums: str
    """The register that holds them."""
    shape: tuple[int, ...]
    """Of that register: rows first, neighbouring columns last."""
    width: int
    """Neighbours that are written at once."""

    @property
    def shares(self) -> int:
        """Slices that finish sums: where there are more than rows, the others have none to finish."""
        return min(self.slices, self.shape[0])

    @property
    def rows(self) -> int:
        """Rows whose sums a slice finishes."""
        return self.shape[0] // self.shares

    @property
    def share(self) -> Index:
        """Which of the shares this thread adds up."""
        extents = {"thread": self.slices * self.groups * self.lanes, "slice": self.slices}
        return self.slice.mod(self.shares, extents)

    @property
    def has_share(self) -> tuple[Index, ...]:
        """Conditions (>= 0) under which this thread's share is its own to store."""
        return (Index((), self.shares - 1) - self.slice,) if self.shares < self.slices else ()


    @property
    def vectors(self) -> tuple[int, ...]:
        """Of a row, by the axes of the register."""
        return (*self.shape[1:-1], self.shape[-1] // self.width)

    def place(self, slice_: Index, r: Index, within: Sequence[Index]) -> Index:
        """Where a thread's vector of one slice lies: neighbouring threads are neighbours."""
        number = (slice_ * self.groups + self.group) * self.shape[0] + r
        for extent, index in zip(self.vectors, within, strict=True):
            number = number * extent + index
        return (number * self.lanes + self.lane) * self.width

    def indices(self, r: Index, within: Sequence[Index], v: Index) -> tuple[Index, ...]:
        """Of one sum in the register."""
        return (r, *within[:-1], within[-1] * self.width + v)


def add_slices(gemm: GemmLowering, parts: Sliced) -> str:
    """The register with the finished sums of this thread's share of the rows."""
    emitter, link = gemm.emitter, gemm.results_link
    total = emitter.register("total", gemm.held, (parts.rows, *parts.shape[1:]))
    buffer, width = "slice_sums", parts.width
    elements = parts.slices * parts.groups * parts.lanes * math.prod(parts.shape)
    emitter.buffers[buffer] = Buffer(buffer, gemm.held, (elements,), "shared")
    emitter.add(Comment(f"sums of {parts.slices} slices of the depth, added in order: each finishes some rows", link))
    vector = (width,) if width > 1 else ()

    def of_vector(v: Index) -> tuple[Index, ...]:
        return (v,) if vector else ()

    with ExitStack() as loops:
        r = loops.enter_context(emitter.loop("r", parts.shape[0], link))
        within = _loops_within(gemm, parts, loops)
        own = emitter.register("pair" if width == 2 else "own_sums", gemm.held, vector)
        emitter.declare(own)
        with emitter.loop(LANE_OF_VECTOR, width, link) as v:
            emitter.assign(Slot(own, of_vector(v)), Access(parts.sums, parts.indices(r, within, v)), link)
        emitter.add(Store(buffer, parts.place(parts.slice, r, within), Slot(own), width, None, link))
    emitter.add(Barrier(link))
    emitter.declare(total, gemm.nothing)
    with ExitStack() as loops:
        q = loops.enter_context(emitter.loop("q", parts.slices, link))
        r = loops.enter_context(emitter.loop("r", parts.rows, link))
        within = _loops_within(gemm, parts, loops)
        part = emitter.register("slice_part", gemm.held, vector)
        emitter.declare(part)
        place = parts.place(q, parts.share * parts.rows + r, within)
        emitter.add(Load(Slot(part), buffer, place, width, None, None, link))
        with emitter.loop(LANE_OF_VECTOR, width, link) as v:
            emitter.assign(Slot(total, parts.indices(r, within, v)), Access(part, of_vector(v)), link, "sum")
    return total


def _loops_within(gemm: GemmLowering, parts: Sliced, loops: ExitStack) -> tuple[Index, ...]:
    """The counters of loops over a thread's vectors of one row, which stay open as long as `loops`."""
    extents = zip(_INNER, parts.vectors, strict=False)
    return tuple(loops.enter_context(gemm.emitter.loop(name, n, gemm.results_link)) for name, n in extents)
