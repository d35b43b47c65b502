"""What may be chosen of a contraction: tiles, warps or threads, and pipelines, as the rules open them.

A task for every intrinsic that a kernel can be generated with, and one for CUDA cores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import ClassVar, cast

from engine.cost.alcop_nodes import GemmProblem
from engine.cost.estimate import estimate_microseconds
from engine.cost.nodes import Work
from engine.fusion.nodes import FusionGroup
from engine.kernels.gemm.block_order import exceeds_l2, in_order
from engine.kernels.gemm.entries import entries_of
from engine.kernels.gemm.limits import SEARCH_LIMITS, first_broken, is_tile_size
from engine.kernels.gemm.nodes import FusedGemm
from engine.kernels.gemm.problem import config_of_tile
from engine.kernels.gemm.tiles import MOST_CORE_STAGES, MOST_STAGES, SLICES, SPLITS
from engine.kernels.gemm.work import work
from engine.kernels.large_spaces import programs_of, unseen_of
from engine.kernels.nodes import Kernel
from engine.kernels.prune import PruningRule, first, left_by_user, most_promised, promising, user_check
from engine.kernels.sieve import Named, Sieve
from engine.kernels.sketch_rules import (
    CACHE_READ,
    CROSS_THREAD,
    INLINE,
    PARTIAL_TILING,
    PLACE_MAIN,
    PLACE_OUTPUT,
    TILING,
    Choices,
    Situation,
    Sketch,
    sketch,
)
from engine.kernels.space import Applied, Funnel, Program, Task, Value
from engine.recipe import Entry
from engine.support.errors import Unsupported
from engine.target import Target
from engine.target.copies import SMALLEST_COPY
from engine.tensorize.bind import GemmAxes
from engine.tensorize.nodes import FRAGMENT_SIZE
from engine.tensorize.space import GemmConfig

CUDA_CORES = "CUDA cores"
"""Name of the mapping to no intrinsic."""
DIMENSIONS = (
    "row_warps", "column_warps", "row_tiles", "column_tiles", "chunks", "stages", "register_stages", "slices",
    "split_k",
)  # fmt: skip
"""Open dimensions of a product: warps of a block along a side (threads on CUDA cores), fragments of a warp's tile along
a side (results of a thread), fragments along the depth of a slice, buffers in shared memory and in registers, sets of
warps (threads) that share the depth of a tile, blocks that share the whole depth."""
RASTER = "raster"
"""Another one, where L2 does not hold both operands: rows of tiles that blocks walk down before they go to the right.
Elsewhere the order costs nothing that the estimate could tell, and is the rule's (`in_order`)."""
_ONES: Mapping[str, Value] = dict.fromkeys(DIMENSIONS, 1)
_in_order = itemgetter(*DIMENSIONS)
DECIDED = frozenset(
    ("axis", "block", "warp", "thread", "tile", "stages", "register_stages", "slices", "split_k", "intrinsic", "raster")
)

TENSOR_TILES, TENSOR_WARPS, CHUNKS = (1, 2, 3, 4), (1, 2, 4), (1, 2, 4, 8)
"""Fragments of a warp's tile along a side, warps of a block along a side, fragments along the depth."""
RASTERS = (1, 2, 4, 8, 16)
STAGES, SETS = tuple(range(1, MOST_STAGES + 1)), (1, 2, 4)
CORE_TILES, CORE_THREADS, CORE_DEPTHS = (1, 2, 3, 4, 6, 8), (1, 2, 4, 8, 16, 32), (4, 8, 16, 32, 64)
"""On CUDA cores: results of a thread along a side, threads of a block along a side, depths of a tile."""
CORE_STAGES = tuple(range(1, MOST_CORE_STAGES + 1))
FEWEST_STEPS = 4
"""Tiles of depth that each slice must have left."""
FEWEST_DEPTHS = 512
"""That each block of several must have left: its way through them takes longer than the blocks' meeting."""


def mapping_name(intrinsic: str, outer: Sequence[str] = ()) -> str:
    """Of the mapping to an intrinsic ("" for CUDA cores) with these loops around it."""
    return f"{intrinsic or CUDA_CORES} inside {' '.join(outer)}" if outer else intrinsic or CUDA_CORES


@dataclass(frozen=True, slots=True)
class GemmTemplate:
    """The programs of one mapping of a contraction: what each asks for, and what a model promises of it."""

    group: FusionGroup
    name: str
    """Of the mapping, as `mapping_name`."""
    axes: GemmAxes
    gemm: FusedGemm
    machine: Target
    kept: tuple[Entry, ...] = ()
    """Entries of the mapping itself, which all its programs have."""
    blocks_may_share: bool = True
    """Whether several blocks may share the depth of a tile."""
    advised: GemmConfig | None = None
    """Whose numbers of sharers and of register stages are tried beside 1, and no others; None where all are."""
    _rasters: dict[tuple[int, ...], int] = field(default_factory=dict, compare=False, repr=False)
    """(rows and columns of a tile, blocks that share a depth) -> the best order, of those that were asked for."""

    decided: ClassVar[frozenset[str]] = DECIDED

    @property
    def problem(self) -> GemmProblem:
        """The product itself."""
        return self.gemm.problem

    @property
    def has_open_order(self) -> bool:
        """Whether the order of blocks is a dimension."""
        return exceeds_l2(self.problem, self.machine)

    @property
    def fragment(self) -> int:
        """What tiles are counted in."""
        return FRAGMENT_SIZE if self.problem.unit else 1

    def program(self, config: GemmConfig) -> Program:
        """The program with this configuration."""
        unit = self.fragment
        rows, columns = config.part
        values = (
            config.block[0] // rows, config.block[1] // columns, rows // unit, columns // unit,
            config.block[2] // unit // config.slices, config.stages, config.register_stages, config.slices,
            config.split_k,
        )  # fmt: skip
        order = ((RASTER, config.raster),) if self.has_open_order else ()
        return Program(self.name, (*zip(DIMENSIONS, values, strict=True), *order))

    def config(self, program: Program) -> GemmConfig:
        """Tiles, stages and the order of blocks of a program."""
        given = {**_ONES, **dict(program.values)}  # what records know may be older than a dimension
        row_warps, column_warps, rows, columns, chunks, stages, sets, slices, split = cast(
            tuple[int, ...], _in_order(given)
        )
        unit = self.fragment
        part = (rows * unit, columns * unit)
        block = (part[0] * row_warps, part[1] * column_warps, chunks * unit * slices)
        raster = given.get(RASTER)
        if isinstance(raster, int):
            return GemmConfig(block, part, stages, sets, slices, split, raster, self.axes.outer)
        config = GemmConfig(block, part, stages, sets, slices, split, outer=self.axes.outer)
        tiles = (*block[:2], split)
        if tiles not in self._rasters:
            self._rasters[tiles] = in_order(self.problem, config, self.machine).raster
        raster = self._rasters[tiles]
        return replace(config, raster=raster) if raster > 1 else config

    def entries(self, program: Program) -> Sequence[Entry]:
        """The mapping's own entries, and the marks that ask for the tiles."""
        tiles = entries_of(self.axes, self.config(program), on_tensor_cores=bool(self.problem.unit))
        return (*self.kept, *tiles)

    def work(self, program: Program) -> Work:
        """See `engine.kernels.gemm.work`."""
        return work(self.gemm, self.config(program), self.machine)

    def rank(self, program: Program) -> float:
        """The estimated time, in microseconds, with the machine's own figures."""
        try:
            return estimate_microseconds(self.work(program), self.machine)
        except Unsupported:
            # Limits count tiles alone; pads and a staged epilogue can still ask for more shared memory than there is.
            return math.inf

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program that a kernel stands at."""
        config = config_of_tile(kernel.tile)
        is_mine = config is not None and mapping_name(kernel.tile.intrinsic, config.outer) == self.name
        return self.program(config) if config is not None and is_mine else None

    @property
    def smallest_grid(self) -> int:
        """Blocks with the largest tiles: what is sure to run at once."""
        tile, c = FRAGMENT_SIZE * TENSOR_TILES[-1] * TENSOR_WARPS[-1], self.problem
        return -(-c.m // tile) * -(-c.n // tile) * c.batch


def situation(template: GemmTemplate, now: GemmConfig | None = None) -> Situation:
    """What the rules may open of one mapping of a contraction.  now: of the kernel as it stands."""
    refuses = {CROSS_THREAD: _why_not_shared(template)}
    offers: dict[str, Choices] = {INLINE: {}} if len(template.group.program.statements) > 1 else {}
    if not refuses[CROSS_THREAD]:
        offers[CROSS_THREAD] = _shares(template, now)
    if template.problem.unit:
        offers[CACHE_READ] = {"chunks": CHUNKS, "stages": STAGES}
        warps = {"row_warps": TENSOR_WARPS, "column_warps": TENSOR_WARPS}
        offers[PARTIAL_TILING] = {**warps, **_tiles(TENSOR_TILES, template.problem), **_orders(template, now)}
        sets = SETS if template.advised is None else tuple(sorted({1, template.advised.register_stages}))
        offers |= {PLACE_MAIN: {"register_stages": sets}, PLACE_OUTPUT: {}}
    else:
        offers[CACHE_READ] = {"chunks": CORE_DEPTHS, "stages": CORE_STAGES}
        threads = {"row_warps": CORE_THREADS, "column_warps": CORE_THREADS}
        offers[TILING] = {**threads, **_tiles(CORE_TILES, template.problem), **_orders(template, now)}
        refuses[PLACE_MAIN] = "the compiler moves loads of registers ahead by itself"
    return Situation(template.name, dict.fromkeys(DIMENSIONS, 1), offers, refuses)


def _orders(template: GemmTemplate, now: GemmConfig | None) -> Choices:
    """Of the blocks, where they are open."""
    return {RASTER: tuple(sorted({*RASTERS, now.raster if now else 1}))} if template.has_open_order else {}


def _tiles(sizes: Sequence[int], problem: GemmProblem) -> Choices:
    """Of a part along either side: those of `sizes` that its kernel takes."""
    columns = tuple(filter(is_tile_size, sizes))
    return {"row_tiles": tuple(sizes) if problem.takes_thirds else columns, "column_tiles": columns}


def _why_not_shared(template: GemmTemplate) -> str:
    """Why neither several sets of warps nor several blocks share the depth of a tile; "" where some may."""
    blocks, sms = template.smallest_grid, template.machine.sm_count
    if blocks >= sms:
        return f"{blocks} blocks of the largest tiles fill {sms} SMs"
    if template.advised is not None and not _shares(template):
        return "the adviser lets no two share the depth of this mapping"
    return "" if _shares(template) else f"{template.problem.k} depths are too few to share"


def _shares(template: GemmTemplate, now: GemmConfig | None = None) -> Choices:
    """Who may share the depth: sets of warps or threads, where there is much of it several blocks."""
    depth, advised = template.problem.k, template.advised
    sliced, split = (now.slices, now.split_k) if now else (1, 1)
    offered = {"slices": {1, sliced, advised.slices}, "split_k": {1, split, advised.split_k}} if advised else {
        "slices": {1, sliced, *(SLICES if depth // (FRAGMENT_SIZE * 2) >= 2 * FEWEST_STEPS else ())},
        "split_k": {1, split, *(SPLITS if template.blocks_may_share and depth >= 2 * FEWEST_DEPTHS else ())},
    }
    return {name: tuple(sorted(values)) for name, values in offered.items() if len(values) > 1}


def task_of(template: GemmTemplate, kernel: Kernel) -> Task:
    """Every program that the rules open for one mapping, pruned.

    kernel: of the group under its recipe: its program stays, and what a person decided.  The model says nothing of
    copies that go through registers well enough to drop a program by its promise.
    """
    now = template.program_of(kernel)
    made, applied = sketch(situation(template, template.config(now) if now else None))
    return task_of_programs(template, made, kernel, applied)


def task_of_programs(
    template: GemmTemplate, made: Sketch, kernel: Kernel, applied: tuple[Applied, ...] = ()
) -> Task:
    """The programs of a sketch of one mapping, pruned as `task_of` does.  applied: the rules that opened them."""
    now, of_user = template.program_of(kernel), user_check(template, kernel)
    sieve = _sieve(template, (of_user,))
    part = left_by_user(made, template, kernel, of_user, sieve)
    funnel, times = programs_of(part, sieve, template.rank, now)
    most = math.inf
    if min(template.problem.widths) * template.problem.element_bytes >= SMALLEST_COPY:
        most = most_promised(times.values())
        funnel = promising(funnel, times, () if now is None else (now,))
    unseen = unseen_of(part, sieve, template.rank, most)
    return Task(template.name, made.dimensions, funnel, applied, template, times, unseen)


def prune_programs(template: GemmTemplate, points: Iterable[Program]) -> Funnel:
    """What of these programs is worth generating code for."""
    sieve = _sieve(template, ())
    return sieve.funnel(filter(sieve.passes, points))


def _sieve(template: GemmTemplate, checks: Sequence[PruningRule]) -> Sieve:
    problem, machine = template.problem, template.machine

    def find_broken(program: Program) -> tuple[Named, str] | None:
        found = first_broken(problem, template.config(program), machine, SEARCH_LIMITS)
        return found or first(checks, program)

    return Sieve((*SEARCH_LIMITS, *checks), find_broken)
