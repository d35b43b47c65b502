"""What may be chosen of a contraction: tiles, warps or threads, and pipelines, as the rules open them.

A task for every intrinsic that a kernel can be generated with, and one for CUDA cores.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from engine.cost.alcop_nodes import GemmProblem
from engine.cost.estimate import estimate_microseconds
from engine.cost.nodes import Work
from engine.fusion.nodes import FusionGroup
from engine.fusion.row_sides import reduced_columns
from engine.fusion.shape import is_contraction
from engine.kernels.gemm.advise import advise_tiles
from engine.kernels.gemm.entries import entries_of, raster_entries
from engine.kernels.gemm.limits import SEARCH_LIMITS, first_broken
from engine.kernels.gemm.nodes import FusedGemm
from engine.kernels.gemm.problem import config_of_tile, gemm_axes, product_misfit
from engine.kernels.gemm.promise import fused_gemm
from engine.kernels.gemm.tiles import SLICES, SPLITS
from engine.kernels.gemm.work import work
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.prune import Named, PruningRule, asked_intrinsic, first, promising, prune, user_check
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
    sketch,
)
from engine.kernels.space import Funnel, Program, Refused, Task
from engine.kernels.tuned_entries import with_tuned_entries
from engine.recipe import Entry, Recipe
from engine.support.errors import EngineError, Unsupported
from engine.target import Target
from engine.target.copies import SMALLEST_COPY
from engine.tensor.nodes import Statement
from engine.tensorize.abstractions import ABSTRACTIONS
from engine.tensorize.bind import GemmAxes, axes_of_contraction, contraction_misfit, is_allowed
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.mappings import IntrinsicMapping, mappings
from engine.tensorize.nodes import FRAGMENT_SIZE, Intrinsic
from engine.tensorize.product import products
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
NOT_SEARCHED = "a search tries the mapping of all iterators: no loops around the intrinsic"
DECIDED = frozenset(
    ("axis", "block", "warp", "thread", "tile", "stages", "register_stages", "slices", "split_k", "intrinsic", "raster")
)

TENSOR_TILES, TENSOR_WARPS, CHUNKS = (1, 2, 4), (1, 2, 4), (1, 2, 4, 8)
"""Fragments of a warp's tile along a side, warps of a block along a side, fragments along the depth."""
STAGES, SETS = (1, 2, 3, 4, 5, 6), (1, 2, 4)
FEW_SPLITS = tuple(n for n in SPLITS if n <= 8 and n.bit_count() == 1)
"""What is tried of `SPLITS` beside the adviser's: each number more doubles the programs of a deep product."""
CORE_TILES, CORE_THREADS, CORE_DEPTHS = (1, 2, 4, 8), (1, 2, 4, 8, 16, 32), (4, 8, 16, 32, 64)
"""On CUDA cores: results of a thread along a side, threads of a block along a side, depths of a tile."""
CORE_SLICES = (1, 4)
"""On CUDA cores, where a search has the most programs: each number more would add as many again."""
CORE_STAGES = (1, 2, 3)
"""Two copies ahead hide all latency behind the arithmetic of CUDA cores."""
FEWEST_STEPS = 4
"""Tiles of depth that each slice must have left."""
FEWEST_DEPTHS = 512
"""That each block of several must have left: its way through them takes longer than the blocks' meeting."""


@dataclass(frozen=True, slots=True)
class GemmTemplate:
    """The programs of one mapping of a contraction: what each asks for, and what a model promises of it."""

    group: FusionGroup
    name: str
    """The intrinsic, or `CUDA_CORES`."""
    axes: GemmAxes
    gemm: FusedGemm
    machine: Target
    kept: tuple[Entry, ...] = ()
    """Entries of the mapping itself, which all its programs have."""
    blocks_may_share: bool = True
    """Whether several blocks may share the depth of a tile."""
    decided: ClassVar[frozenset[str]] = DECIDED

    @property
    def problem(self) -> GemmProblem:
        """The product itself."""
        return self.gemm.problem

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
        return Program(self.name, tuple(zip(DIMENSIONS, values, strict=True)))

    def config(self, program: Program) -> GemmConfig:
        """Tiles and stages of a program."""
        given = dict(program.values)
        row_warps, column_warps, rows, columns, chunks, stages, sets, slices, split = (
            int(given.get(name, 1)) for name in DIMENSIONS  # what records know may be older than a dimension
        )
        unit = self.fragment
        part = (rows * unit, columns * unit)
        block = (part[0] * row_warps, part[1] * column_warps, chunks * unit * slices)
        return GemmConfig(block, part, stages, sets, slices, split)

    def entries(self, program: Program) -> Sequence[Entry]:
        """The mapping's own entries, and the marks that ask for the tiles."""
        config, on_tensor_cores = self.config(program), bool(self.problem.unit)
        tiles = entries_of(self.axes, config, on_tensor_cores=on_tensor_cores)
        raster = raster_entries(self.axes, config.block[:2], self.machine.sm_count) if on_tensor_cores else ()
        return (*self.kept, *tiles, *raster)

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
        return self.program(config) if config and (kernel.tile.intrinsic or CUDA_CORES) == self.name else None

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
        offers[PARTIAL_TILING] = {**warps, "row_tiles": TENSOR_TILES, "column_tiles": TENSOR_TILES}
        offers |= {PLACE_MAIN: {"register_stages": SETS}, PLACE_OUTPUT: {}}
    else:
        offers[CACHE_READ] = {"chunks": CORE_DEPTHS, "stages": CORE_STAGES}
        threads = {"row_warps": CORE_THREADS, "column_warps": CORE_THREADS}
        offers[TILING] = {**threads, "row_tiles": CORE_TILES, "column_tiles": CORE_TILES}
        refuses[PLACE_MAIN] = "the compiler moves loads of registers ahead by itself"
    return Situation(template.name, dict.fromkeys(DIMENSIONS, 1), offers, refuses)


def _why_not_shared(template: GemmTemplate) -> str:
    """Why neither several sets of warps nor several blocks share the depth of a tile; "" where some may."""
    blocks, sms = template.smallest_grid, template.machine.sm_count
    if blocks >= sms:
        return f"{blocks} blocks of the largest tiles fill {sms} SMs"
    return "" if _shares(template) else f"{template.problem.k} depths are too few to share"


def _shares(template: GemmTemplate, now: GemmConfig | None = None) -> Choices:
    """Who may share the depth: sets of warps or threads, where there is much of it several blocks."""
    depth = template.problem.k
    sliced, split = (now.slices, now.split_k) if now else (1, 1)
    slices = SLICES if template.problem.unit else CORE_SLICES
    offered = {
        "slices": {1, sliced, *(slices if depth // (FRAGMENT_SIZE * 2) >= 2 * FEWEST_STEPS else ())},
        "split_k": {1, split, *(FEW_SPLITS if template.blocks_may_share and depth >= 2 * FEWEST_DEPTHS else ())},
    }
    return {name: tuple(sorted(values)) for name, values in offered.items() if len(values) > 1}


def task_of(template: GemmTemplate, kernel: Kernel) -> Task:
    """Every program that the rules open for one mapping, pruned.

    kernel: of the group under its recipe: its program stays, and what a person decided.  The model says nothing of
    copies that go through registers well enough to drop a program by its promise.
    """
    now = template.program_of(kernel)
    made, applied = sketch(situation(template, template.config(now) if now else None))
    funnel = prune_programs(template, made.points(), (user_check(template, kernel),))
    if min(template.problem.widths) * template.problem.element_bytes >= SMALLEST_COPY:
        funnel = promising(funnel, template.rank, () if now is None else (now,))
    return Task(template.name, made.dimensions, funnel, applied, template)


def prune_programs(template: GemmTemplate, points: Iterable[Program], checks: Sequence[PruningRule] = ()) -> Funnel:
    """What of these programs is worth generating code for."""
    problem, machine = template.problem, template.machine

    def find_broken(program: Program) -> tuple[Named, str] | None:
        found = first_broken(problem, template.config(program), machine, SEARCH_LIMITS)
        return found or first(checks, program)

    return prune(points, (*SEARCH_LIMITS, *checks), find_broken)


# Mappings


def product_tasks(group: FusionGroup, kernel: Kernel, compile_group: Compile) -> tuple[list[Task], list[Refused]]:
    """A task for each mapping of a contraction that has a kernel, that of `kernel` first; why others have none."""
    found: list[Task] = []
    refused: list[Refused] = []
    for intrinsic in _intrinsics(kernel):
        task = _task(group, kernel, intrinsic, compile_group)
        if isinstance(task, str):
            refused.append(Refused(intrinsic.name if intrinsic else CUDA_CORES, task))
        else:
            found.append(task)
    now = kernel.tile.intrinsic or CUDA_CORES
    return sorted(found, key=lambda task: task.name != now), refused


def _intrinsics(kernel: Kernel) -> Iterator[Intrinsic | None]:
    """What computes the contraction, and None for CUDA cores; alone what the user asks for, where that is one."""
    wish = asked_intrinsic(kernel)
    for intrinsic in INTRINSICS.values():
        misfit = product_misfit(kernel.program, intrinsic)
        if wish in ("", intrinsic.name) and not misfit and is_allowed(intrinsic, kernel.recipe.numerics):
            yield intrinsic
    if not wish:
        yield None


def _task(group: FusionGroup, kernel: Kernel, intrinsic: Intrinsic | None, compile_group: Compile) -> Task | str:
    """The task of one mapping, or why it has no kernel."""
    made, name = kernel, intrinsic.name if intrinsic else CUDA_CORES
    entries, _ = advise_tiles(kernel.program, intrinsic, kernel.target)
    if (kernel.tile.intrinsic or CUDA_CORES) != name:
        try:
            made = compile_group(group, with_tuned_entries(kernel.recipe, group, DECIDED, entries))
        except EngineError as error:
            return error.reason
    axes = gemm_axes(made.program)
    if axes is None or config_of_tile(made.tile) is None or (made.tile.intrinsic or CUDA_CORES) != name:
        return "its kernel has no tiles of two plain factors"
    # Programs decide all marks but the instruction, which is the mapping's own.
    kept = tuple(e for e in entries if isinstance(e.value, tuple) and e.value[0] == "intrinsic")
    gemm = fused_gemm(made.program, intrinsic)
    template = GemmTemplate(group, name, axes, gemm, made.target, kept)
    return task_of(template, kernel)


def refused_mappings(group: FusionGroup, recipe: Recipe) -> list[Refused]:
    """The mappings of a group's sum to all intrinsics that are not searched, counted by reason."""
    sums = [s for s in group.program.statements if s.reduction is not None]
    anchor = next((s for s in sums if is_contraction(s)), sums[0] if sums else None)
    forms = products(anchor, group.program.arrays) if anchor else "no statement is a sum"
    if anchor is None or isinstance(forms, str):
        return []
    found: list[Refused] = []
    for name, abstraction in ABSTRACTIONS.items():
        listed = mappings(forms, abstraction)
        if isinstance(listed, str):
            found.append(Refused(name, listed, 0))
            continue
        reasons = Counter(
            why_no_kernel(mapping, anchor, group, recipe) or (NOT_SEARCHED if mapping.outer else "")
            for mapping in listed
        )
        found += [Refused(name, because, count) for because, count in reasons.items() if because]
    return found


def outer_of(mapping: IntrinsicMapping) -> tuple[str, ...]:
    """Names of the iterators that stay loops around the intrinsic."""
    return tuple(i.name for i in mapping.outer)


def why_no_kernel(mapping: IntrinsicMapping, anchor: Statement, group: FusionGroup, recipe: Recipe) -> str:
    """Why no kernel can be generated for a mapping; "" where one can be tried."""
    name = mapping.abstraction.name
    if mapping.abstraction.why_not:
        return mapping.abstraction.why_not
    if mapping.product.because:
        return f"{mapping.product.because}: kernels multiply arrays, this factor is none"
    misfit = contraction_misfit(anchor, group.program.arrays, INTRINSICS[name])
    if misfit:
        return misfit
    if mapping.is_swapped:
        return "kernels take the factors as they are written"
    if mapping.product.splits:
        cut = ", ".join(f"{name} by {by}" for name, by in mapping.product.splits)
        return f"kernels take whole iterators, and this mapping cuts {cut}"
    outer = outer_of(mapping)
    taken = axes_of_contraction(anchor, reduced_columns(group.program.statements, anchor), outer)
    if mapping.axes != (taken.rows, taken.columns, taken.depth):
        return f"kernels with these loops around the intrinsic put on its axes: {taken}"
    if not is_allowed(INTRINSICS[name], recipe.numerics):
        need = INTRINSICS[name]
        return f'{need.because}; the recipe\'s numerics must say "tensor_cores": "{need.numerics}"'
    return ""
