"""What a product's kernel with a configuration will ask of the machine: the counts of its tile program in closed form.

`engine.tile.work.work_of_tile` counts the same of a compiled kernel.  Registers alone are an estimate, which the
CUDA compiler replaces.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from engine.cost.alcop import allowed_registers
from engine.cost.alcop_nodes import Contraction
from engine.cost.alcop_work import estimated_registers
from engine.cost.estimate import model_microseconds
from engine.cost.nodes import Work
from engine.kernels.gemm.copies import Reach, TileCopy, choose_copy
from engine.kernels.gemm.epilogue_requests import Epilogue, EpilogueRequest, epilogue_of
from engine.kernels.gemm.limits import tiles_of
from engine.kernels.gemm.problem import contraction_before, reaches, sides_of
from engine.kernels.gemm.staged_epilogue import LEAST
from engine.kernels.gemm.thread_fragment import fragment_elements
from engine.target import Target
from engine.target.hardware import SUM_BYTES, VECTOR_BYTES, WARP
from engine.tensor.nodes import TensorProgram
from engine.tensor.traffic import compulsory_bytes, flop_counts
from engine.tensorize.nodes import FRAGMENT_SIZE, ROW_BYTES, Intrinsic
from engine.tensorize.space import GemmConfig


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """A group's product and what surrounds it, as far as its kernel's work depends on them."""

    contraction: Contraction
    reaches: tuple[Reach, Reach]
    """Of the first and of the second operand."""
    epilogue: Epilogue
    flops: int
    """On CUDA cores, of the whole launch."""
    special: int
    dram_bytes: tuple[int, int]
    """Read and written, whatever the configuration."""


def problem_of(program: TensorProgram, intrinsic: Intrinsic | None) -> GemmProblem:
    """The problem of a program with a contraction of two plain factors, on tensor cores or (None) without them."""
    sides, contraction = sides_of(program), contraction_before(program, intrinsic)
    assert sides is not None, program.name
    flops, special = flop_counts(program)
    if intrinsic:
        flops -= 2 * math.prod(program.statement(sides.statement).extents.values())
    return GemmProblem(
        contraction, reaches(program, sides), epilogue_of(program, sides), flops, special, compulsory_bytes(program)
    )


def promise_of(machine: Target, program: TensorProgram, intrinsic: Intrinsic | None) -> Callable[[GemmConfig], float]:
    """The modelled microseconds of a program's kernels by their configuration, with the machine's own figures.

    The function raises Unsupported where no block of a kernel fits an SM.
    """
    problem = problem_of(program, intrinsic)
    return lambda config: model_microseconds(work(problem, config, machine), machine)


def work(problem: GemmProblem, config: GemmConfig, machine: Target) -> Work:
    """The work of one launch of the kernel with a configuration that keeps all limits.

    machine: whose compiler gives a thread so many registers at most, and spills the rest.
    """
    contraction, parts = problem.contraction, config.split_k
    tile = _TileWork(problem, config)
    blocks = tiles_of(contraction, config) * parts
    everyone, last = blocks * tile.threads, blocks * tile.threads // parts
    copied = everyone * tile.steps * sum(c.shares(tile.threads) * c.width * c.element_bytes for c in tile.copies)
    handed = tile.results * SUM_BYTES if parts > 1 else 0
    outside = everyone * (problem.epilogue.factor_bytes + handed) + last * (handed * parts + tile.requested)
    shared = everyone * (tile.fragment_bytes + tile.exchanged) + last * tile.staged
    read, written = problem.dram_bytes
    m, n, k = config.block
    return Work(
        blocks=blocks,
        threads=tile.threads,
        flops=problem.flops,
        special=problem.special,
        dram_bytes_read=read,
        dram_bytes_written=written,
        l2_bytes=copied + outside,
        shared_bytes=tile.shared_bytes,
        shared_bytes_moved=copied + shared,
        registers=min(estimated_registers(contraction, config), allowed_registers(tile.threads, machine)),
        tensor_flops=2 * m * n * k * blocks * tile.steps if contraction.unit else 0,
        tensor_type=contraction.unit,
        stages=config.stages,
        serial_steps=tile.steps * max(1, *(c.shares(tile.threads) // c.together(tile.threads) for c in tile.copies)),
        team=parts,
        team_bytes=m * n * SUM_BYTES * parts if parts > 1 else 0,
    )


class _TileWork:
    """One block's tile under a configuration; bytes are those of one thread unless they say otherwise."""

    def __init__(self, problem: GemmProblem, config: GemmConfig) -> None:
        self.problem, self.config = problem, config
        contraction, (rows, columns, depth) = problem.contraction, config.block
        sizes = (contraction.m, contraction.n)
        self.on_tensor_cores = bool(contraction.unit)
        self.threads = config.parts * contraction.lanes
        self.counts = (-(-sizes[0] // rows), -(-sizes[1] // columns))
        """Tiles along rows and columns."""
        self.is_ragged = (sizes[0] % rows > 0, sizes[1] % columns > 0)
        self.steps = math.ceil(-(-contraction.k // depth) / config.split_k)
        first, second = (
            choose_copy(reach, (side, depth), (size, contraction.k), self.threads)
            for reach, side, size in zip(problem.reaches, config.block, sizes, strict=False)
        )
        self.copies: tuple[TileCopy, TileCopy] = (first, second)
        self.shares = min(config.slices, config.part[0] // FRAGMENT_SIZE) if self.on_tensor_cores else 1
        """Slices that finish sums: no more than rows of instructions."""
        self.results = math.prod(config.part) // contraction.lanes // self.shares
        """Sums that a thread finishes."""

    @property
    def fragment_bytes(self) -> int:
        """From shared memory to registers in the main loop: a register pipeline across tiles reads past the last."""
        (rows, columns), depth = self.config.part, self.config.block[2]
        if self.on_tensor_cores:
            step = self.problem.contraction.instruction[2] * self.config.slices
            of_step = (rows // FRAGMENT_SIZE + columns // FRAGMENT_SIZE) * ROW_BYTES
        else:
            step = min(depth, *(fragment_elements(copy.element_bytes) for copy in self.copies))
            of_step = step * sum(n * c.element_bytes for n, c in zip(self.config.part, self.copies, strict=True))
        ahead = self.config.register_stages - 1 if self.config.stages > 1 else 0
        return of_step * (self.steps * (depth // step) + ahead)

    @property
    def exchanged(self) -> int:
        """Sums that slices hand to each other."""
        if self.config.slices == 1:
            return 0
        all_sums = self.results * self.shares
        return SUM_BYTES * (all_sums + self.config.slices * self.results)

    # After the sums

    @property
    def is_staged(self) -> bool:
        """Whether results go out through shared memory, 16 rows of a warp at a time."""
        is_wide = self.problem.epilogue.widest >= LEAST
        return self.on_tensor_cores and is_wide and not self.problem.contraction.has_whole_rows

    @property
    def vector(self) -> int:
        """Neighbouring results of a thread that are read and written at once."""
        widest = self.problem.epilogue.widest
        if self.is_staged:
            return widest
        return min(widest, 2 if self.on_tensor_cores else self._run)

    @property
    def _run(self) -> int:
        """Neighbouring columns that a thread of CUDA cores owns together."""
        copy = self.copies[1]
        return 1 if copy.depth_inner else min(fragment_elements(copy.element_bytes), self.config.part[1])

    @property
    def rows(self) -> int:
        """Rows of a thread's results."""
        if not self.on_tensor_cores:
            return self.config.part[0]
        rows = self.config.part[0] // FRAGMENT_SIZE // self.shares
        return rows if self.is_staged else rows * 2

    @property
    def vectors(self) -> int:
        """Vectors of one row."""
        return self.results // (self.rows * self.vector)

    @property
    def requested(self) -> int:
        """Bytes read and written in global memory by what follows the sums."""
        total, once = 0, set[tuple[str, int]]()
        for one in self.problem.epilogue.passes:
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
        if self.problem.contraction.has_whole_rows:
            if self._moves_with_row(request) or row_masked:
                return everywhere
            return self.vectors if request.with_columns or column_masked else 1
        is_masked = row_masked or column_masked or (request.moves and self.shares < self.config.slices)
        if is_masked or self._moves_with_row(request) or self._moves_with_column(request):
            return everywhere
        return 1

    def _moves_with_row(self, request: EpilogueRequest) -> bool:
        """Whether a request waits for the row: not where a thread of CUDA cores has a single one, its own number."""
        is_fixed = not self.on_tensor_cores and self.config.part[0] == 1 and self.counts[0] == 1
        return request.with_rows and not is_fixed

    def _moves_with_column(self, request: EpilogueRequest) -> bool:
        is_fixed = not self.on_tensor_cores and self.config.part[1] == 1 and self.counts[1] == 1
        return request.with_columns and not is_fixed

    @property
    def _groups(self) -> int:
        """Warps beside each other that hold parts of the same rows."""
        across = self.config.block[1] // self.config.part[1]
        return across if self.on_tensor_cores else across // min(across, WARP)

    @property
    def _parts(self) -> list[int]:
        """Bytes of a part of each reduction whose parts pass shared memory."""
        return [size for one in self.problem.epilogue.passes for size in one.parts] if self._groups > 1 else []

    @property
    def staged(self) -> int:
        """Through shared memory after the sums: results on their way out, or parts of reduced rows."""
        written_and_read = 2 * self.results * self.problem.epilogue.sum_bytes if self.is_staged else 0
        return written_and_read + sum(self.rows * size * (1 + self._groups) for size in self._parts)

    @property
    def shared_bytes(self) -> int:
        """Of a block: the buffers after the main loop lie where its tiles were."""
        config = self.config
        tiles = [config.stages * copy.elements(self.on_tensor_cores) * copy.element_bytes for copy in self.copies]
        after = [size * config.block[0] * self._groups for size in self._parts]
        if config.slices > 1:
            after.append(config.slices * math.prod(config.block[:2]) * SUM_BYTES)
        if self.is_staged:
            after.append(config.parts * FRAGMENT_SIZE * config.part[1] * self.problem.epilogue.sum_bytes)
        return max(sum(-(-size // VECTOR_BYTES) * VECTOR_BYTES for size in sizes) for sizes in (tiles, after))
