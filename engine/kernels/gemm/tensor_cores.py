"""Blocked contractions on tensor cores: warps own parts of the block's tile and multiply whole fragments.

    block tile -> warp tiles -> instructions of 16 x 8 x k; sums stay in registers

Matrix loads bring four matrices of 8 rows at once from the tiles, whose chunks are permuted so that eight rows lie in
different banks.  Where a tile keeps the depth outside, the load transposes on the way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.fusion.nodes import FusionGroup
from engine.kernels.gemm.base import Owned, Product
from engine.kernels.gemm.intra_block_split_k import Sliced, added
from engine.kernels.gemm.operand import Operand, Tiling
from engine.kernels.gemm.row_epilogue import Sharers, row_tile, store_rows
from engine.kernels.gemm.split_k import WIDEST, Held, add_parts, parts_of
from engine.kernels.gemm.staged_epilogue import WarpTile, store_results
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks, nearest_power, power_up_to
from engine.kernels.mma_fragments import SHARERS, Lanes
from engine.target import Target
from engine.target.hardware import MAX_WARPS, SUM_BYTES, WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Literal
from engine.tensorize.bind import prologue
from engine.tensorize.nodes import FRAGMENT_SIZE, Intrinsic
from engine.tile.emit import LANE_OF_VECTOR
from engine.tile.nodes import Comment, Slot, TileProgram
from engine.tile.source import Line

REFUSED = {
    "split": "loops are split by block, warp and tile; to share the depth of a tile among warps, ask for slices",
    "unroll": "loops inside a tile are always written out, the loop over tiles never",
    "vector": "copies and fragments are as wide as alignment and the tile allow",
    "lane": "the threads of a block share a tile, not a row",
    "thread": "on tensor cores the instruction says which sums a thread owns: ask for warp tiles",
}
"""Marks that a contraction on tensor cores has no use for, and why."""


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Sizes of the main loop."""

    block: tuple[int, int]
    """Rows and columns of a block's tile."""
    warp: tuple[int, int]
    """Rows and columns of a warp's tile."""
    depth: int
    slices: int
    """Warps that share each part of the tile, with a part of the depth each."""

    @property
    def warps(self) -> int:
        """Of one slice."""
        return math.prod(b // w for b, w in zip(self.block, self.warp, strict=True))


def lower_tensor_cores(
    group: FusionGroup, nest: Nest, marks: Marks, intrinsic: Intrinsic, machine: Target
) -> TileProgram:
    """One kernel for a contraction that `intrinsic` computes, and the element-wise statements after it."""
    product = Product(group, nest)
    marks.refuse(REFUSED)
    tiles = _tiles(product, marks, intrinsic, machine)
    tiling = Tiling(product.loop.members, tiles.depth, is_swizzled=True)
    threads, raster = tiles.warps * tiles.slices * WARP, product.raster(marks, tiles.block[0])
    parts = parts_of(product, marks, tiles.block, tiles.depth)
    operands = product.begin(tiles.block, tiling, threads, raster, parts)
    warps = _Warps(product, intrinsic, tiles, operands)
    product.main_loop(operands, warps.multiply)
    if tiles.slices > 1:
        warps.sums = added(product, warps.slices)
    if parts > 1:
        add_parts(product, warps.held())
    if product.has_whole_rows:
        store_rows(product, warps.owned(), warps.sharers())
    else:
        store_results(product, warps.tile(), warps.owned())
    rows, columns = tiles.warp
    return product.finish(
        tiles.block,
        constants={"SLICES": tiles.slices, "WARP_ROWS": rows, "WARP_COLUMNS": columns, "MMA_DEPTH": intrinsic.k},
        assertions=(
            (
                "THREADS / 32 * WARP_ROWS * WARP_COLUMNS == SLICES * TILE_ROWS * TILE_COLUMNS",
                "the warps of a slice own the tile exactly",
            ),
            ("TILE_DEPTH % (SLICES * MMA_DEPTH) == 0", "a slice is whole instructions deep"),
        ),
        held=f"registers of a warp: {rows} x {columns} of the tile, {rows * columns // WARP} of a thread",
        wishes=(
            marks.wish("stages", 2, tuple(operand.tile for operand in operands), tiling.depths),
            marks.wish("register_stages", 1, (warps.first, warps.second), tiling.depths),
        ),
    )


def _tiles(product: Product, marks: Marks, intrinsic: Intrinsic, machine: Target) -> _Tiles:
    """What the marks ask for: whole fragments to a warp, at most 32 warps to a block."""
    blocks, warps = [], []
    for side, members in enumerate(product.free):
        if side == 1 and product.has_whole_rows:
            blocks.append(row_tile(product, marks, FRAGMENT_SIZE))
        else:
            blocks.append(marks.power("block", 64, 256, members, least=16))
        warps.append(marks.power("warp", min(32, blocks[-1]), min(64, blocks[-1]), members, least=16))
    loop = product.loop.members
    depth = marks.power("tile", 32, 128, loop, least=16)
    while math.prod(b // w for b, w in zip(blocks, warps, strict=True)) > MAX_WARPS:
        side = 0 if warps[0] <= warps[1] else 1
        warps[side] *= 2
        because = f"with fewer, more than the {MAX_WARPS} warps of a block"
        marks.changed("warp", warps[side], because, product.free[side])
    count = math.prod(b // w for b, w in zip(blocks, warps, strict=True))
    exchanged = (math.prod(blocks) + count * FRAGMENT_SIZE * warps[1]) * SUM_BYTES
    sharing = min(depth // intrinsic.k, MAX_WARPS // count, max(1, machine.shared_limit // exchanged))
    most = power_up_to(MAX_WARPS)(sharing)
    needs = f"a power of two up to {most}: slices share a block and its shared memory"
    slices = marks.number("slices", 1, nearest_power(1, most), needs, loop)
    return _Tiles((blocks[0], blocks[1]), (warps[0], warps[1]), depth, slices)


class _Warps:
    """The warps of a block: where each stands in the tile, its fragments and its sums."""

    def __init__(
        self, product: Product, intrinsic: Intrinsic, tiles: _Tiles, operands: tuple[Operand, Operand]
    ) -> None:
        self.product, self.intrinsic, self.tiles, self.operands = product, intrinsic, tiles, operands
        emitter, thread = product.emitter, Index.of("thread")
        link = Line((product.statement.name,), product.names)
        across = tiles.block[1] // tiles.warp[1]
        number = thread.floordiv(WARP, emitter.extents)
        self.slice = number.floordiv(tiles.warps, emitter.extents)
        warp = number.mod(tiles.warps, emitter.extents)
        self.depth = tiles.depth // tiles.slices
        """Of a tile that one slice multiplies."""
        emitter.add(Comment("where a warp's part of the tile begins, and what each lane reads of it first", link))
        self.lane = emitter.bind("lane", thread.mod(WARP, emitter.extents), link)
        self.lanes = Lanes(emitter, intrinsic, self.lane)
        self.origin = (
            emitter.bind("warp_row", warp.floordiv(across, emitter.extents) * tiles.warp[0], link),
            emitter.bind("warp_column", warp.mod(across, emitter.extents) * tiles.warp[1], link),
        )
        self.prologues = tuple(map(prologue, product.factors))
        self.places = tuple(
            emitter.bind(
                f"{operand.access.array}_lane",
                self.lanes.first(operand, side == 0, self.origin[side], self.slice * self.depth),
                link,
            )
            for side, operand in enumerate(operands)
        )
        """Position in either tile of what this lane reads first."""
        self.count = (tiles.warp[0] // intrinsic.m, tiles.warp[1] // intrinsic.n)
        """Instructions along the rows and the columns of a warp's tile."""
        first, second = (operand.access.array for operand in operands)
        self.first = emitter.register(f"{first}_part", self.lanes.word, (self.count[0], 4))
        self.second = emitter.register(f"{second}_part", self.lanes.word, (self.count[1] // 2, 2, 2))
        self.sums = emitter.register("acc", "float32", (*self.count, 2, 2))
        emitter.declare(self.sums, Literal(0.0, "float32"))
        self.slices = Sliced(tiles.slices, self.slice, warp, tiles.warps, self.lane, self.sums, self.count)

    def multiply(self, _: Index) -> None:
        """One tile: for each step of the instruction's depth, the fragments and every product of two of them."""
        emitter, link, intrinsic = self.product.emitter, self.product.link, self.intrinsic
        rows, columns = self.count
        emitter.add(Comment(f"fragments of {intrinsic.k} depths from the tiles, then every product of two", link))
        sides = ((0, "r", self.first, rows), (1, "p", self.second, columns // 2))
        with emitter.loop("step", self.depth // intrinsic.k, link, always=True) as step:
            for side, counter, name, fragments in sides:
                emitter.declare(name)
                with emitter.loop(counter, fragments, link) as number:
                    operand = self.operands[side]
                    place = operand.local(number * FRAGMENT_SIZE, step * intrinsic.k) + self.places[side]
                    self.lanes.load(Slot(name, (number,)), operand, side == 0, place, link)
            for side, counter, name, fragments in sides:
                if self.prologues[side] is not None:
                    with emitter.loop(counter, fragments, link) as number:
                        element = f"{self.operands[side].access.array}_element"
                        self.lanes.map(Slot(name, (number,)), self.prologues[side], element, link)
            self.lanes.multiply(self.sums, self.count, lambda r: Slot(self.first, (r,)), self.second, link)

    def tile(self) -> WarpTile:
        """Where the sums of this thread's warp belong."""
        slices, (rows, columns) = self.slices, self.tiles.warp
        first, second = (o.side.start + origin for o, origin in zip(self.operands, self.origin, strict=True))
        warp = Index.of("thread").floordiv(WARP, self.product.emitter.extents)
        return WarpTile(
            lane=self.lane,
            warp=warp,
            warps=slices.warps * slices.slices,
            start=(first + slices.share * (rows // slices.shares), second),
            shape=(rows // slices.shares, columns),
            is_ours=slices.has_share,
        )

    def held(self) -> Held:
        """What this lane holds of the sums that its warp finishes, four of an instruction to a vector."""
        lane = {LANE_OF_VECTOR: WIDEST}

        def slot(r: Index, s: Index, v: Index) -> Slot:
            return Slot(self.sums, (r, s, v.floordiv(2, lane), v.mod(2, lane)))

        return Held(self.slices.shares * self.tiles.warps * WARP, self.slices.rows, self.count[1], WIDEST, slot)

    def sharers(self) -> Sharers:
        """Which lanes and warps hold parts of the rows that this lane has parts of."""
        thread, extents = Index.of("thread"), self.product.emitter.extents
        across = self.tiles.block[1] // self.tiles.warp[1]
        group = thread.floordiv(WARP, extents).mod(across, extents)
        lane, first = self.lane.mod(SHARERS, extents), self.operands[0].side.start
        return Sharers(SHARERS, lane, across, group, self.tiles.block[0], first, self.slices.has_share)

    def owned(self) -> Owned:
        """What this lane holds of the sums that its warp finishes."""
        return self.lanes.owned(self.sums, (self.slices.rows, self.count[1]), self.tile().start)
