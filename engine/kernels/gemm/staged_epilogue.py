"""Results of tensor cores on their way out through shared memory: every lane stores 16 neighbouring bytes of a row.

A lane holds two neighbouring columns of an instruction's sums, and a store of its own would be 4 bytes wide.  So each
warp writes its sums, 16 rows at a time and rounded to their type, to a part of shared memory of its own, and reads them
back along rows.  What follows the sum is computed then, on reads as wide.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.graph.nodes import DTYPES
from engine.kernels.gemm.base import GemmLowering, Owned
from engine.kernels.gemm.nodes import FEWEST_STAGED
from engine.target.hardware import VECTOR_BYTES, WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply
from engine.tile.emit import LANE_OF_VECTOR
from engine.tile.nodes import Buffer, Comment, Load, Slot, Store, WarpSync

ROWS = 16
"""Of a warp's tile that are in shared memory at a time: those of one instruction."""
PAIR = 2
"""Neighbouring sums of a lane."""


@dataclass(frozen=True, slots=True)
class WarpTile:
    """Where a warp's sums belong."""

    lane: Index
    warp: Index
    """Number of the warp in its block."""
    warps: int
    start: tuple[Index, Index]
    """First row and column of the product."""
    shape: tuple[int, int]
    """Rows, and columns of all products together."""
    is_ours: tuple[Index, ...] = ()
    """Conditions (>= 0) under which they are this warp's to store."""


def store_results(gemm: GemmLowering, tile: WarpTile, owned: Owned) -> None:
    """Store a warp's sums: 16 bytes at once where the arrays allow, else what a lane has."""
    vector = gemm.widest_result()
    if vector < FEWEST_STAGED:
        gemm.epilogue(owned, tile.is_ours)
        return
    emitter, link, width, products = gemm.emitter, gemm.results_link, tile.shape[1], len(gemm.products)
    columns = width // products
    emitter.add(Comment(f"sums go through shared memory, {ROWS} rows at a time, so that a lane stores {vector}", link))
    results = _buffer(gemm, tile)
    first = tile.warp * (ROWS * width)
    with emitter.loop("r", tile.shape[0] // ROWS, link) as r:
        _write(gemm, tile, owned, r, results, first)
        emitter.add(WarpSync(link))
        with emitter.loop("piece", ROWS * columns // (WARP * vector), link) as piece:
            chunk = emitter.bind("chunk", piece * WARP + tile.lane, link)
            row = chunk.floordiv(columns // vector, emitter.extents)
            column = chunk.mod(columns // vector, emitter.extents) * vector
            at_row = first + row * width + column
            totals = [_read(gemm, results, at_row + n * columns, vector) for n in range(products)]
            gemm.elements((tile.start[0] + r * ROWS + row, tile.start[1] + column), vector, totals, tile.is_ours)
        emitter.add(WarpSync(link))


def _read(gemm: GemmLowering, results: str, start: Index, vector: int) -> Access:
    """Neighbouring sums of a row as a register over the lanes of a vector, in reads of 16 bytes."""
    emitter, link = gemm.emitter, gemm.results_link
    dtype = emitter.buffers[results].dtype
    width = min(vector, VECTOR_BYTES // DTYPES[dtype])
    total = emitter.register("sums", dtype, (vector // width, width))
    emitter.declare(total)
    with emitter.loop("q", vector // width, link) as q:
        emitter.add(Load(Slot(total, (q,)), results, start + q * width, width, None, None, link))
    lane, lanes = Index.of(LANE_OF_VECTOR), {LANE_OF_VECTOR: vector}
    return Access(total, (lane.floordiv(width, lanes), lane.mod(width, lanes)))


def _buffer(gemm: GemmLowering, tile: WarpTile) -> str:
    """Shared memory for 16 rows of each warp's tile, its chunks permuted."""
    dtype = gemm.program.arrays[gemm.statement.write.array].dtype
    name, elements = "results", tile.warps * ROWS * tile.shape[1]
    row_bytes = tile.shape[1] * DTYPES[dtype]
    gemm.emitter.buffers[name] = Buffer(name, dtype, (elements,), "shared", row_bytes)
    return name


def _write(gemm: GemmLowering, tile: WarpTile, owned: Owned, r: Index, results: str, first: Index) -> None:
    """Every lane's pairs of sums of 16 rows, rounded to their type."""
    emitter, link, columns = gemm.emitter, gemm.results_link, tile.shape[1]
    dtype = emitter.buffers[results].dtype
    lane_row = tile.lane.floordiv(4, emitter.extents)
    lane_column = tile.lane.mod(4, emitter.extents) * PAIR
    with emitter.loop("h", 2, link) as h, emitter.loop("s", columns // 8, link) as s:
        pair = emitter.register("pair", dtype, (PAIR,))
        emitter.declare(pair)
        with emitter.loop(LANE_OF_VECTOR, PAIR, link) as v:
            sums = owned.sums(r * 2 + h, s * PAIR + v)
            emitter.assign(Slot(pair, (v,)), Apply("cast", (sums,), dtype), link)
        place = (h * 8 + lane_row) * columns + s * 8 + lane_column
        emitter.add(Store(results, first + place, Slot(pair), PAIR, None, link))
