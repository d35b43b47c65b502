"""Blocked contractions on CUDA cores: a thread owns rows and columns of the block's tile and multiplies registers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.fusion.nodes import FusionGroup
from engine.kernels.gemm.base import Owned, Product, id_of
from engine.kernels.gemm.operand import Tiling
from engine.kernels.gemm.row_epilogue import Sharers, row_tile, store_rows
from engine.kernels.gemm.split_k import WIDEST, Held, add_parts, parts_of
from engine.kernels.gemm.thread_fragment import Part, fragment_elements, load_part, part_of
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks
from engine.target.hardware import MAX_THREADS, WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal, Scalar, Statement
from engine.tensor.padding import adds_nothing
from engine.tensor.rewrite import rewrite_scalar
from engine.tile.emit import Emitter, at
from engine.tile.nodes import Slot, TileProgram
from engine.tile.source import Line

REFUSED = {
    "slices": "threads of CUDA cores share a tile by its rows and columns, not its depth",
    "split": "a contraction splits its loops by block, thread and tile: ask for those",
    "unroll": "loops inside a tile are always written out, the loop over tiles never",
    "vector": "copies and fragments are as wide as alignment and the tile allow",
    "lane": "the threads of a block share a tile, not a row",
    "warp": "the threads of a block share a tile, not a column",
}
"""Marks that a contraction has no use for, and why."""


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Sizes of the main loop."""

    block: tuple[int, int]
    """Rows and columns of a block's tile."""
    thread: tuple[int, int]
    """Rows and columns of a thread's tile."""
    depth: int
    """Reduced elements of one shared-memory tile."""

    @property
    def threads(self) -> int:
        return math.prod(b // t for b, t in zip(self.block, self.thread, strict=True))


def lower_contraction(group: FusionGroup, nest: Nest, marks: Marks) -> TileProgram:
    """One kernel for a contraction and the element-wise statements after it."""
    product = Product(group, nest)
    marks.refuse(REFUSED)
    tiles = _tiles(product, marks)
    tiling = Tiling(product.loop.members, tiles.depth)
    parts = parts_of(product, marks, tiles.block, tiles.depth)
    operands = product.begin(tiles.block, tiling, tiles.threads, product.raster(marks, tiles.block[0]), parts)
    emitter = product.emitter
    step = min(tiles.depth, *(fragment_elements(operand.dtype) for operand in operands))
    slots = _bind_thread(product, tiles)
    factors = tuple(
        part_of(emitter, operand, owned, slot, step)
        for operand, owned, slot in zip(operands, tiles.thread, slots, strict=True)
    )
    accumulator = emitter.register("acc", "float32", tiles.thread)
    emitter.declare(accumulator, Literal(0.0, "float32"))
    product.main_loop(operands, lambda tile: _multiply(product, factors, accumulator, tile))
    if parts > 1:
        add_parts(product, _held(accumulator, tiles))
    rows, columns = factors
    results = Owned(
        shape=tiles.thread,
        vector=columns.run,
        row=lambda r: rows.operand.side.start + rows.local(emitter, r, rows.run),
        column=lambda s: columns.operand.side.start + columns.local(emitter, s, columns.run),
        sums=lambda r, s: Access(accumulator, (r, s)),
    )
    if product.has_whole_rows:
        store_rows(product, results, _sharers(product, tiles, rows.operand.side.start))
    else:
        product.epilogue(results)
    return product.finish(
        tiles.block,
        constants={"OWNED": math.prod(tiles.thread)},
        assertions=(("THREADS * OWNED == TILE_ROWS * TILE_COLUMNS", "the threads own the tile exactly"),),
        held=f"{tiles.thread[0]} x {tiles.thread[1]} registers of a thread: its part of the tile",
        requests=(
            marks.stages("stages", 2, tuple(operand.tile for operand in operands), tiling.depths),
            marks.stages("register_stages", 1, tuple(part.registers for part in factors), tiling.depths),
        ),
    )


def _tiles(product: Product, marks: Marks) -> _Tiles:
    """What the marks ask for, with as many threads as a block may have and every thread a share of the copies."""
    free, loop = product.free, product.loop.members
    blocks, threads = [], []
    whole = row_tile(product, marks, 1) if product.has_whole_rows else 0
    for side, members in enumerate(free):
        least = max(1, WARP // whole) if whole else 1  # the lanes of whole warps share rows
        block = whole if side == 1 and whole else marks.power("block", 64, 128, members, least)
        blocks.append(block)
        threads.append(marks.power("thread", max(4, block // 16), min(8, block), members))
    depth = marks.power("tile", 16, 64, loop, max(1, WARP // min(blocks)) if whole else 1)
    while math.prod(b // t for b, t in zip(blocks, threads, strict=True)) > min(MAX_THREADS, depth * min(blocks)):
        side = 0 if blocks[0] // threads[0] >= blocks[1] // threads[1] else 1
        threads[side] *= 2
        because = "with fewer, more threads than copies or than a block has"
        marks.changed("thread", threads[side], because, free[side])
    while whole and math.prod(b // t for b, t in zip(blocks, threads, strict=True)) < WARP:
        side = 0 if threads[0] >= threads[1] else 1
        threads[side] //= 2
        marks.changed("thread", threads[side], f"with more, fewer than the {WARP} lanes that share rows", free[side])
    return _Tiles((blocks[0], blocks[1]), (threads[0], threads[1]), depth)


def _held(accumulator: str, tiles: _Tiles) -> Held:
    """A thread's sums as vectors of neighbouring columns."""
    rows, columns = tiles.thread
    width = min(columns, WIDEST)
    return Held(tiles.threads, rows, columns // width, width, lambda r, s, v: Slot(accumulator, (r, s * width + v)))


def _bind_thread(product: Product, tiles: _Tiles) -> tuple[Index, Index]:
    """Which part of the block's tile this thread owns."""
    emitter, thread = product.emitter, Index.of("thread")
    link = Line((product.statement.name,), product.names)
    across = tiles.block[1] // tiles.thread[1]
    return (
        emitter.bind("thread_row", thread.floordiv(across, emitter.extents), link),
        emitter.bind("thread_column", thread.mod(across, emitter.extents), link),
    )


def _sharers(product: Product, tiles: _Tiles, first: Index) -> Sharers:
    """Which threads hold parts of the rows that this thread has parts of: neighbours."""
    thread, extents = Index.of("thread"), product.emitter.extents
    across = tiles.block[1] // tiles.thread[1]
    lanes = min(across, WARP)
    number = thread.mod(across, extents)
    lane, group = number.mod(lanes, extents), number.floordiv(lanes, extents)
    return Sharers(lanes, lane, across // lanes, group, tiles.block[0], first)


def _multiply(product: Product, parts: tuple[Part, ...], accumulator: str, tile: Index) -> None:
    """Outer products of the fragments of one tile; terms past the depth that would not be 0 are left out."""
    emitter, link = product.emitter, product.link
    step = parts[0].step if any(part.operand.depth_inner for part in parts) else 1
    rows, columns = (part.owned for part in parts)
    past = product.steps * product.tiling.tile - product.depth
    is_masked = past > 0 and not adds_nothing(product.statement)
    with emitter.loop("depth", product.tiling.tile // step, link, always=True) as depth:
        for part in parts:
            load_part(emitter, part, depth * step, step, link)
        with emitter.loop("q", step, link) as q:
            limit = Index((), product.depth - 1) - tile * product.tiling.tile - depth * step - q
            inside = emitter.mask("depth_inside", [limit], link) if is_masked else None
            with emitter.loop("r", rows, link) as r, emitter.loop("s", columns, link) as s:
                term = _term(emitter, product.statement, parts, (r, s), q)
                if inside:
                    term = Apply("select", (Access(inside, ()), term, Literal(0.0, "float32")), "float32")
                emitter.assign(Slot(accumulator, (r, s)), term, link, "sum")


def _term(
    emitter: Emitter, statement: Statement, parts: tuple[Part, ...], owned: tuple[Index, Index], q: Index
) -> Scalar:
    """The product over fragments: the statement's expression with its two wide reads replaced."""
    replaced = {id_of(p.operand.access): p.element(index, q) for p, index in zip(parts, owned, strict=True)}

    def read(access: Access) -> Scalar:
        if id_of(access) in replaced:
            return replaced[id_of(access)]
        return emitter.read(access, {}, at(statement))

    return rewrite_scalar(statement.expression, {}, read, statement.extents)
