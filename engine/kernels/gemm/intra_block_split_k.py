"""Split-K inside a block: warps that own the same part of the tile take turns along its depth.

    slices 2    warps 0..3 multiply the first half of every tile's depths, warps 4..7 the second

A small product has few tiles, and a block with more warps hides more of what each waits for.  At the end every warp
writes its sums to shared memory; the slices share out the rows and add them, always in the same order.  Both powers of
two: rows of instructions to a warp, and slices.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.kernels.gemm.base import GemmLowering
from engine.target.hardware import WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal
from engine.tile.emit import LANE_OF_VECTOR
from engine.tile.nodes import Barrier, Buffer, Comment, Load, Slot, Store

PAIR = 2
"""Neighbouring sums of a lane: what it writes at once."""


@dataclass(frozen=True, slots=True)
class Sliced:
    """The sums of all slices: (rows of instructions, columns of instructions) to a warp, four to a lane of each."""

    slices: int
    slice: Index
    """Of this warp."""
    warp: Index
    """Number of this warp in its slice."""
    warps: int
    """Of one slice."""
    lane: Index
    sums: str
    shape: tuple[int, int]

    @property
    def shares(self) -> int:
        """Slices that finish sums: where there are more than rows of instructions, the others have none to finish."""
        return min(self.slices, self.shape[0])

    @property
    def rows(self) -> int:
        """Rows of instructions whose sums a slice finishes."""
        return self.shape[0] // self.shares

    @property
    def share(self) -> Index:
        """Which of the shares this warp adds up."""
        return self.slice.mod(self.shares, {"thread": self.slices * self.warps * WARP})

    @property
    def has_share(self) -> tuple[Index, ...]:
        """Conditions (>= 0) under which this warp's share is its own to store."""
        return (Index((), self.shares - 1) - self.slice,) if self.shares < self.slices else ()


def add_slices(gemm: GemmLowering, parts: Sliced) -> str:
    """The register with the finished sums of this warp's share of the rows."""
    emitter, link = gemm.emitter, gemm.results_link
    rows, columns = parts.shape
    total = emitter.register("total", "float32", (parts.rows, columns, 2, PAIR))
    buffer = "slice_sums"
    elements = parts.slices * parts.warps * rows * columns * 2 * WARP * PAIR
    emitter.buffers[buffer] = Buffer(buffer, "float32", (elements,), "shared")
    emitter.add(Comment(f"sums of {parts.slices} slices of the depth, added in order: each finishes some rows", link))

    def place(slice_: Index, r: Index, s: Index, h: Index) -> Index:
        """Where a lane's pair of one slice lies: neighbouring lanes are neighbours."""
        warp = slice_ * parts.warps + parts.warp
        return ((((warp * rows + r) * columns + s) * 2 + h) * WARP + parts.lane) * PAIR

    with emitter.loop("r", rows, link) as r, emitter.loop("s", columns, link) as s, emitter.loop("h", 2, link) as h:
        pair = emitter.register("pair", "float32", (PAIR,))
        emitter.declare(pair)
        with emitter.loop(LANE_OF_VECTOR, PAIR, link) as v:
            emitter.assign(Slot(pair, (v,)), Access(parts.sums, (r, s, h, v)), link)
        emitter.add(Store(buffer, place(parts.slice, r, s, h), Slot(pair), PAIR, None, link))
    emitter.add(Barrier(link))
    emitter.declare(total, Literal(0.0, "float32"))
    with emitter.loop("q", parts.slices, link) as q, emitter.loop("r", parts.rows, link) as r, emitter.loop(
        "s", columns, link
    ) as s, emitter.loop("h", 2, link) as h:
        part = emitter.register("slice_part", "float32", (PAIR,))
        emitter.declare(part)
        emitter.add(Load(Slot(part), buffer, place(q, parts.share * parts.rows + r, s, h), PAIR, None, None, link))
        with emitter.loop(LANE_OF_VECTOR, PAIR, link) as v:
            emitter.assign(Slot(total, (r, s, h, v)), Access(part, (v,)), link, "sum")
    return total
