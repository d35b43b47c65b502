"""Blocked contractions on tensor cores: warps own parts of the block's tile and multiply whole fragments.

    block tile -> warp tiles -> instructions of 16 x 8 x k; sums stay in registers

Matrix loads bring four matrices of 8 rows at once from the tiles, whose chunks are permuted so that eight rows lie in
different banks.  Where a tile keeps the depth outside, the load transposes on the way.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.fusion.nodes import FusionGroup
from engine.fusion.row_sides import factors_of
from engine.kernels.gemm.base import GemmLowering, Owned
from engine.kernels.gemm.intra_block_split_k import Sliced, add_slices
from engine.kernels.gemm.nodes import SUMS_AT_ONCE
from engine.kernels.gemm.operand import Operand
from engine.kernels.gemm.outer_loops import outer_loops
from engine.kernels.gemm.read_marks import choose_for_tensor_cores
from engine.kernels.gemm.row_epilogue import RowThreads, store_rows
from engine.kernels.gemm.split_k import Held, add_parts
from engine.kernels.gemm.staged_epilogue import PAIR, WarpTile, store_results
from engine.kernels.loop_nest import Nest
from engine.kernels.marks import Marks, pipeline_requests
from engine.kernels.mma_fragments import SHARERS, Lanes
from engine.target import Target
from engine.target.hardware import WARP
from engine.tensor.index import Index
from engine.tensorize.bind import prologue
from engine.tensorize.nodes import FRAGMENT_SIZE, Intrinsic
from engine.tensorize.space import GemmConfig
from engine.tile.emit import LANE_OF_VECTOR
from engine.tile.nodes import Buffer, Comment, Slot, TileProgram
from engine.tile.source import Line


def lower_tensor_cores(
    group: FusionGroup, nest: Nest, marks: Marks, intrinsic: Intrinsic, machine: Target,
    taken: Mapping[str, Buffer] | None = None,
) -> TileProgram:  # fmt: skip
    """One kernel for a contraction that `intrinsic` computes, and the element-wise statements after it.

    taken: buffers of other parts of it.
    """
    gemm = GemmLowering(group, nest, taken, outer_loops(marks, nest, group.program))
    config = choose_for_tensor_cores(gemm, marks, intrinsic, machine)
    tile = _emit(gemm, config, intrinsic)
    # Codes that are taken apart stand beside the sums.
    return marks.describe(tile.with_registers(machine.sm_count) if gemm.has_codes else tile, config)


def _emit(gemm: GemmLowering, config: GemmConfig, intrinsic: Intrinsic) -> TileProgram:
    operands = gemm.begin(config, config.parts * WARP, is_swizzled=True)
    warps = _Warps(gemm, intrinsic, operands)
    gemm.main_loop(operands, warps.multiply)
    if config.slices > 1:
        warps.sums = add_slices(gemm, warps.slices)
    if config.split_k > 1:
        add_parts(gemm, warps.held_sums())
    if gemm.has_whole_rows:
        store_rows(gemm, warps.owned_sums(), warps.sharers())
    else:
        store_results(gemm, warps.tile(), warps.owned_sums())
    rows, columns = config.part
    return gemm.finish(
        constants={"SLICES": config.slices, "WARP_ROWS": rows, "WARP_COLUMNS": columns, "MMA_DEPTH": intrinsic.k},
        assertions=(
            (
                "THREADS / 32 * WARP_ROWS * WARP_COLUMNS == SLICES * TILE_ROWS * TILE_COLUMNS",
                "the warps of a slice own the tile exactly",
            ),
            ("TILE_DEPTH % (SLICES * MMA_DEPTH) == 0", "a slice is whole instructions deep"),
        ),
        held=f"registers of a warp: {rows} x {columns} of the tile, {rows * columns // WARP} of a thread",
        requests=pipeline_requests(
            config.stages, config.register_stages, (name for operand in operands for name in operand.copied),
            (warps.first, warps.second),
        ),
    )


class _Warps:
    """The warps of a block: where each stands in the tile, its fragments and its sums."""

    def __init__(self, gemm: GemmLowering, intrinsic: Intrinsic, operands: tuple[Operand, ...]) -> None:
        self.gemm, self.intrinsic, self.operands = gemm, intrinsic, operands
        self.products = len(gemm.products)
        config = self.config = gemm.config
        emitter, thread = gemm.emitter, Index.of("thread")
        link = Line((gemm.statement.name,), gemm.names)
        across = config.block[1] // config.part[1]
        number = thread.floordiv(WARP, emitter.extents)
        self.slice = number.floordiv(config.parts_of_slice, emitter.extents)
        warp = number.mod(config.parts_of_slice, emitter.extents)
        self.depth = config.block[2] // config.slices
        """Of a tile that one slice multiplies."""
        emitter.add(Comment("where a warp's part of the tile begins, and what each lane reads of it first", link))
        self.lane = emitter.bind("lane", thread.mod(WARP, emitter.extents), link)
        self.lanes = Lanes(emitter, intrinsic, self.lane)
        self.origin = (
            emitter.bind("warp_row", warp.floordiv(across, emitter.extents) * config.part[0], link),
            emitter.bind("warp_column", warp.mod(across, emitter.extents) * (config.part[1] // self.products), link),
        )
        factors = (*gemm.factors, *(factors_of(s, ())[1] for s in gemm.products[1:]))
        self.prologues = tuple(prologue(factor, gemm.held) for factor in factors)
        self.places = tuple(
            emitter.bind(
                f"{operand.access.array}_lane",
                self.lanes.first(operand, n == 0, self.origin[min(n, 1)], self.slice * self.depth),
                link,
            )
            for n, operand in enumerate(operands)
        )
        """Position in each tile of what this lane reads first."""
        self.count = (config.part[0] // intrinsic.m, config.part[1] // intrinsic.n)
        """Instructions along the rows and the columns of a warp's tile, those of each product together."""
        first, *second = (operand.access.array for operand in operands)
        self.first = emitter.register(f"{first}_part", self.lanes.word, (self.count[0], 4))
        self.second = emitter.register(f"{'_'.join(second)}_part", self.lanes.word, (self.count[1] // 2, 2, 2))
        self.sums = emitter.register("acc", gemm.held, (*self.count, 2, PAIR))
        emitter.declare(self.sums, gemm.nothing)
        self.slices = Sliced(
            slices=config.slices,
            slice=self.slice,
            group=warp,
            groups=config.parts_of_slice,
            lane=self.lane,
            lanes=WARP,
            sums=self.sums,
            shape=(*self.count, 2, PAIR),
            width=PAIR,
        )

    def multiply(self, _: Index) -> None:
        """One tile: for each step of the instruction's depth, the fragments and every product of two of them."""
        emitter, link, intrinsic = self.gemm.emitter, self.gemm.link, self.intrinsic
        rows, columns = self.count
        emitter.add(Comment(f"fragments of {intrinsic.k} depths from the tiles, then every product of two", link))
        each = columns // 2 // self.products
        sides = [(0, "r", self.first, rows, 0)]
        sides += [(1 + n, "p", self.second, each, n * each) for n in range(self.products)]
        with emitter.loop("step", self.depth // intrinsic.k, link, always=True) as step:
            for n, counter, name, fragments, before in sides:
                if not before:
                    emitter.declare(name)
                with emitter.loop(counter, fragments, link) as number:
                    operand = self.operands[n]
                    place = operand.local(number * FRAGMENT_SIZE, step * intrinsic.k) + self.places[n]
                    self.lanes.load(Slot(name, (number + before,)), operand, n == 0, place, link)
            for n, counter, name, fragments, before in sides:
                if self.prologues[n] is not None:
                    with emitter.loop(counter, fragments, link) as number:
                        element = f"{self.operands[n].access.array}_element"
                        self.lanes.map(Slot(name, (number + before,)), self.prologues[n], element, link)
            self.lanes.multiply(self.sums, self.count, lambda r: Slot(self.first, (r,)), self.second, link)

    def tile(self) -> WarpTile:
        """Where the sums of this thread's warp belong."""
        slices, (rows, columns) = self.slices, self.config.part
        first, second = (o.side.start + origin for o, origin in zip(self.operands, self.origin, strict=False))
        warp = Index.of("thread").floordiv(WARP, self.gemm.emitter.extents)
        return WarpTile(
            lane=self.lane,
            warp=warp,
            warps=self.config.parts,
            start=(first + slices.share * (rows // slices.shares), second),
            shape=(rows // slices.shares, columns),
            is_ours=slices.has_share,
        )

    def held_sums(self) -> Held:
        """What this lane holds of the sums that its warp finishes, four of an instruction to a vector."""
        lane = {LANE_OF_VECTOR: SUMS_AT_ONCE}

        def slot(r: Index, s: Index, v: Index) -> Slot:
            return Slot(self.sums, (r, s, v.floordiv(2, lane), v.mod(2, lane)))

        owners = self.slices.shares * self.config.parts_of_slice * WARP
        return Held(owners, self.slices.rows, self.count[1], SUMS_AT_ONCE, slot)

    def sharers(self) -> RowThreads:
        """Which lanes and warps hold parts of the rows that this lane has parts of."""
        thread, extents = Index.of("thread"), self.gemm.emitter.extents
        across = self.config.block[1] // self.config.part[1]
        group = thread.floordiv(WARP, extents).mod(across, extents)
        lane, first = self.lane.mod(SHARERS, extents), self.operands[0].side.start
        return RowThreads(SHARERS, lane, across, group, self.config.block[0], first, self.slices.has_share)

    def owned_sums(self) -> Owned:
        """What this lane holds of the sums that its warp finishes."""
        return self.lanes.owned_sums(self.sums, (self.slices.rows, self.count[1]), self.tile().start)
