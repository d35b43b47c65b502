"""What a product's kernel with a configuration will ask of the machine: the counts of its tile program in closed form.

`engine.tile.work.work_of_tile` counts the same of a compiled kernel.  Registers alone are an estimate, which the
CUDA compiler replaces.
"""

from __future__ import annotations

import math

from engine.cost.nodes import Work
from engine.kernels.gemm.code_loads import loads_of_codes
from engine.kernels.gemm.copies import TileCopy, choose_copy
from engine.kernels.gemm.limits import registers_of, tiles_of
from engine.kernels.gemm.nodes import FEWEST_STAGED, PARTS_AT_ONCE, SUMS_AT_ONCE, EpilogueRequest, FusedGemm
from engine.kernels.gemm.passes import Loads, exchange_passes, fragment_passes, row_parts_passes
from engine.kernels.gemm.thread_fragment import fragment_elements
from engine.kernels.gemm.thread_grid import thread_grid
from engine.support.values import cached_property
from engine.target import Target
from engine.target.hardware import SUM_BYTES, VECTOR_BYTES, WARP
from engine.target.teams import parts_read
from engine.tensorize.nodes import FRAGMENT_SIZE, ROW_BYTES
from engine.tensorize.space import GemmConfig


def work(gemm: FusedGemm, config: GemmConfig, machine: Target) -> Work:
    """The work of one launch of the kernel with a configuration that keeps all limits.

    machine: whose compiler gives a thread so many registers at most, and spills the rest.
    """
    problem, parts = gemm.problem, config.split_k
    tile = _TileWork(gemm, config)
    blocks = tiles_of(problem, config) * parts
    everyone, last = blocks * tile.threads, blocks * tile.threads // parts
    copied = blocks * tile.steps * sum(c.copied_bytes(tile.threads) for c in tile.copies)
    handed = tile.results * SUM_BYTES if parts > 1 else 0
    outside = everyone * (gemm.epilogue.factor_bytes + handed) + last * (handed * parts_read(parts) + tile.requested)
    shared = everyone * (tile.unpacked + tile.fragment_bytes + tile.exchanged) + last * tile.staged
    loads = _loads_of_grid(tile, blocks, blocks // parts)
    read, written = gemm.dram_bytes
    m, n, k = config.block
    return Work(
        blocks=blocks,
        threads=tile.threads,
        flops=gemm.flops + (0 if problem.unit else 2 * (m * n * k * blocks * tile.steps - problem.products))
        + sum(of * side for of, side in zip(gemm.unpacking, config.block, strict=False)) * k * blocks * tile.steps,
        special=gemm.special,
        dram_bytes_read=read,
        dram_bytes_written=written,
        l2_bytes=copied + outside,
        shared_bytes=tile.shared_bytes,
        shared_bytes_moved=copied + shared,
        shared_bytes_loaded=loads.bytes * tile.threads,
        shared_passes=loads.passes * -(-tile.threads // WARP),
        registers=registers_of(problem, config, machine),
        tensor_flops=2 * m * n * k * blocks * tile.steps if problem.unit else 0,
        tensor_type=problem.unit,
        stages=config.stages,
        serial_steps=tile.steps * max(1, *(c.shares(tile.threads) // c.together(tile.threads) for c in tile.copies)),
        team=parts,
        team_bytes=m * n * SUM_BYTES * parts_read(parts),
        copies_tiles=True,
        orders=(problem.tile_order(config),),
    )


def _loads_of_grid(tile: _TileWork, blocks: int, last: int) -> Loads:
    """From shared memory, of one warp and one thread of every block; of none on tensor cores.

    last: blocks that finish sums.
    """
    if tile.on_tensor_cores:
        return Loads(0, 0)
    each, finish = (tile.code_loads, tile.fragment_loads, tile.exchange_loads), tile.row_parts_loads
    return Loads(
        blocks * sum(loads.passes for loads in each) + last * finish.passes,
        blocks * sum(loads.bytes for loads in each) + last * finish.bytes,
    )


class _TileWork:
    """One block's tile under a configuration; bytes are those of one thread unless they say otherwise."""

    def __init__(self, gemm: FusedGemm, config: GemmConfig) -> None:
        self.gemm, self.config = gemm, config
        problem, (rows, columns, depth) = gemm.problem, config.block
        sizes = (problem.m, problem.n)
        self.on_tensor_cores = bool(problem.unit)
        self.threads = config.parts * problem.lanes
        self.counts = (-(-sizes[0] // rows), -(-sizes[1] // columns))
        """Tiles along rows and columns."""
        self.grid = thread_grid(config, problem.has_whole_rows)
        self.is_ragged = (sizes[0] % rows > 0, sizes[1] % columns > 0)
        self.steps = math.ceil(problem.steps(depth) / config.split_k)
        first, second = (
            choose_copy(reach, (side // products, depth), (size // products, problem.k), self.threads)
            for reach, side, size, products in zip(
                gemm.reaches, config.block, sizes, (1, problem.siblings), strict=False
            )
        )
        self.copies: tuple[TileCopy, ...] = (first, *[second] * problem.siblings)
        """Of the tile of the first factor, and of those of the second of each product."""
        self.has_codes = any(copy.boxes for copy in self.copies)
        self.shares = min(config.slices, config.part[0] // (FRAGMENT_SIZE if self.on_tensor_cores else 1))
        """Slices that finish sums: no more than rows of instructions, on CUDA cores than rows of a thread."""
        self.results = math.prod(config.part) // problem.lanes // self.shares
        """Sums that a thread finishes."""
        epilogue, part = gemm.epilogue, config.part
        self.is_staged = self.on_tensor_cores and epilogue.widest >= FEWEST_STAGED and not problem.has_whole_rows
        """Whether results go out through shared memory, 16 rows of a warp at a time."""
        if self.on_tensor_cores:
            rows_of_instructions = part[0] // FRAGMENT_SIZE // self.shares
            self.rows, neighbours = rows_of_instructions * (1 if self.is_staged else 2), 2
        else:
            elements = fragment_elements(second.element_bytes)
            self.rows, neighbours = part[0] // self.shares, 1 if second.depth_inner else min(elements, part[1])
        """Rows of a thread's results, and neighbouring columns that it owns together."""
        self.vector = epilogue.widest if self.is_staged else min(epilogue.widest, neighbours)
        """Neighbouring results of a thread that are read and written at once."""
        self.vectors = self.results // (self.rows * self.vector * problem.siblings)
        """Of one row."""
        across = columns // part[1]
        self.groups = across if self.on_tensor_cores else across // min(across, WARP)
        """Warps beside each other that hold parts of the same rows."""
        self.part_bytes = [size for one in epilogue.passes for size in one.parts] if self.groups > 1 else []
        """Of a part of each reduction whose parts pass shared memory."""

    @cached_property
    def _fragments(self) -> tuple[int, int]:
        """(depths that a thread or a warp loads together, how often); a register pipeline reads past the last tile."""
        depth = self.config.block[2] // self.config.slices
        if self.on_tensor_cores:
            step = self.gemm.problem.instruction[2]
        else:
            # Threads read single depths where neither tile has them inside.
            is_inner = any(copy.depth_inner for copy in self.copies)
            step = min(depth, *(fragment_elements(copy.element_bytes) for copy in self.copies)) if is_inner else 1
        # What threads write to a tile of codes is there when all have: nothing of the next tile can be read before.
        crosses = self.config.stages > 1 and not self.has_codes
        ahead = self.config.register_stages - 1 if crosses else 0
        return step, self.steps * (depth // step) + ahead

    @cached_property
    def fragment_bytes(self) -> int:
        """From shared memory to registers in the main loop."""
        (rows, columns), (step, times) = self.config.part, self._fragments
        if self.on_tensor_cores:
            return (rows // FRAGMENT_SIZE + columns // FRAGMENT_SIZE) * ROW_BYTES * times
        return step * times * sum(n * c.element_bytes for n, c in zip(self.config.part, self.copies, strict=False))

    @cached_property
    def code_loads(self) -> Loads:
        """Of what factors of codes are computed from, in the main loop."""
        if not self.has_codes:
            return Loads(0, 0)
        found = [load for copy in self.copies for load in loads_of_codes(copy, self.threads)]
        passes, size = sum(load.passes for load in found), sum(load.bytes for load in found)
        return Loads(self.steps * passes, self.steps * size)

    @property
    def unpacked(self) -> int:
        """Read of copied codes, and written as the elements that they stand for."""
        if not self.has_codes:
            return 0
        written = sum(c.shares(self.threads) * c.width * c.element_bytes for c in self.copies if c.boxes)
        return self.code_loads.bytes + self.steps * written

    @property
    def exchanged(self) -> int:
        """Sums that slices hand to each other."""
        if self.config.slices == 1:
            return 0
        all_sums = self.results * self.shares
        return SUM_BYTES * (all_sums + self.config.slices * self.results)

    # Loads from shared memory on CUDA cores

    @property
    def fragment_loads(self) -> Loads:
        """In the main loop."""
        step, times = self._fragments
        depths, passes = self.config.block[2] // self.config.slices, 0
        for side, (copy, owned) in enumerate(zip(self.copies, self.config.part, strict=False)):
            size, stride = copy.element_bytes, copy.stride(is_swizzled=False)
            run = step if copy.depth_inner else min(fragment_elements(size), owned)
            apart = (stride * size, depths * size) if copy.depth_inner else (run * size, depths * stride * size)
            passes += times * (owned * step // run) * fragment_passes(self.grid, side, apart, run * size)
        return Loads(passes, self.fragment_bytes)

    @property
    def exchange_loads(self) -> Loads:
        """Of sums that slices hand to each other."""
        slices, results = self.config.slices, self.results
        if slices == 1:
            return Loads(0, 0)
        width = min(self.config.part[1], SUMS_AT_ONCE)
        share_bytes = results * self.config.parts_of_slice * SUM_BYTES
        passes = exchange_passes(self.grid, self.shares, share_bytes, width * SUM_BYTES)
        return Loads(slices * results // width * passes, slices * results * SUM_BYTES)

    @property
    def row_parts_loads(self) -> Loads:
        """Of parts of reduced rows."""
        width, passes = min(self.groups, PARTS_AT_ONCE), 0
        for size in self.part_bytes:
            passes += self.rows * (self.groups // width) * row_parts_passes(self.threads, width * size)
        return Loads(passes, sum(self.rows * size * self.groups for size in self.part_bytes))

    # After the sums

    @property
    def requested(self) -> int:
        """Bytes read and written in global memory by what follows the sums."""
        total, once = 0, set[tuple[str, int]]()
        for one in self.gemm.epilogue.passes:
            for requests, times, vector in (
                (one.of_rows, self._times_of_row, 1), (one.of_elements, self._times_of_element, self.vector),
            ):  # fmt: skip
                for request in requests:
                    width, count = vector if request.with_lanes else 1, times(request)
                    is_known = (request.name, width) in once and not request.is_write
                    total += 0 if is_known else count * width * request.bytes
                    once |= {(request.name, width)} if count == 1 else set()
        return total

    def _times_of_row(self, request: EpilogueRequest) -> int:
        """How often a thread makes a request for its rows."""
        is_inside = request.is_write or self._moves_with_row(request) or (request.moves and self.is_ragged[0])
        return self.rows if is_inside else 1

    def _times_of_element(self, request: EpilogueRequest) -> int:
        """How often a thread makes a request for its elements; loops over rows stand inside those over columns only
        where rows are reduced, and read once for a column what moves with it alone."""
        everywhere = self.rows * self.vectors
        if request.is_write:
            return everywhere
        row_masked, column_masked = (request.moves and ragged for ragged in self.is_ragged)
        if self.gemm.problem.has_whole_rows:
            if self._moves_with_row(request) or row_masked:
                return everywhere
            return self.vectors if request.with_columns or column_masked else 1
        is_masked = row_masked or column_masked or (request.moves and self.shares < self.config.slices)
        if is_masked or self._moves_with_row(request) or (request.with_columns and not self._is_fixed(1)):
            return everywhere
        return 1

    def _moves_with_row(self, request: EpilogueRequest) -> bool:
        """Whether a request waits for the row: not where a thread of CUDA cores has a single one, its own number."""
        return request.with_rows and not self._is_fixed(0)

    def _is_fixed(self, side: int) -> bool:
        return not self.on_tensor_cores and self.config.part[side] == 1 and self.counts[side] == 1

    @property
    def staged(self) -> int:
        """Through shared memory after the sums: results on their way out, or parts of reduced rows."""
        written_and_read = 2 * self.results * self.gemm.epilogue.sum_bytes if self.is_staged else 0
        return written_and_read + sum(self.rows * size * (1 + self.groups) for size in self.part_bytes)

    @property
    def shared_bytes(self) -> int:
        """Of a block: the buffers after the main loop lie where its tiles were."""
        config = self.config
        tiles, computed = [], 0
        for copy in self.copies:
            size = copy.elements(self.on_tensor_cores) * copy.element_bytes
            tiles += [config.stages * box.bytes for box in copy.boxes] or [config.stages * size]
            computed += size if copy.boxes else 0
        after = [size * config.block[0] * self.groups for size in self.part_bytes]
        if config.slices > 1:
            after.append(config.slices * math.prod(config.block[:2]) * SUM_BYTES)
        if self.is_staged:
            after.append(config.parts * FRAGMENT_SIZE * config.part[1] * self.gemm.epilogue.sum_bytes)
        return computed + max(sum(-(-n // VECTOR_BYTES) * VECTOR_BYTES for n in sizes) for sizes in (tiles, after))
