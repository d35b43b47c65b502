"""What the configuration of a contraction's kernel must keep: one row for each limit, with its figures.

LIMITS are those of any kernel; a search asks SEARCH_LIMITS, which leave out what is only slow, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.cost.alcop import allowed_registers
from engine.cost.alcop_nodes import GemmProblem
from engine.cost.alcop_work import estimated_registers
from engine.documents.units import kib
from engine.fusion.row_epilogue import MOST_COLUMNS
from engine.kernels.prune import (
    FAILS,
    SPILLS,
    too_many_blocks,
    too_many_registers,
    too_many_threads,
    too_much_shared,
    whole_warps,
)
from engine.pipeline.detect import MAX_STAGES
from engine.support.errors import Unsupported
from engine.target import Target
from engine.target.copies import HELD_STAGES, MOST_HELD, SMALLEST_COPY
from engine.target.hardware import MAX_THREADS, MAX_WARPS, SUM_BYTES, VECTOR_BYTES
from engine.target.occupancy import occupancy
from engine.target.registers import GEMM_ERROR
from engine.target.teams import MOST_BYTES, MOST_PARTS, whole_parts
from engine.tensorize.codes import box_of
from engine.tensorize.nodes import FRAGMENT_SIZE
from engine.tensorize.space import GemmConfig

BLOCKS, WARPS, DEPTHS = (16, 256), (16, 64), (16, 128)
"""Smallest and largest rows or columns of a block's and of a warp's tile, and depths, that tensor-core kernels take."""
CORE_BLOCK, CORE_PART, CORE_DEPTH = 128, 8, 64
"""Rows and columns of a block's and of a thread's tile, and depths, that kernels on CUDA cores take at most."""

Test = Callable[[GemmProblem, GemmConfig, Target], str]


@dataclass(frozen=True, slots=True)
class Limit:
    """One rule that drops config before they cost anything."""

    name: str
    broken: Test
    """How config break it, with figures; "" where they keep it."""
    because: str
    """Why nothing else would do."""


def tiles_of(problem: GemmProblem, config: GemmConfig) -> int:
    """Tiles of the result, of all batches."""
    rows, columns, _ = config.block
    return problem.batch * -(-problem.m // rows) * -(-problem.n // columns)


def registers_of(problem: GemmProblem, config: GemmConfig, machine: Target) -> int:
    """Of a thread, as estimated: what it needs, or as many as the compiler may give it, which spills the rest."""
    return min(estimated_registers(problem, config), allowed_registers(config.parts * problem.lanes, machine))


def exchanged_bytes(config: GemmConfig, on_tensor_cores: bool) -> int:
    """Shared memory that one slice needs to hand over its sums and, on tensor cores, to turn rows of them on their way
    out."""
    turned = config.parts_of_slice * FRAGMENT_SIZE * config.part[1] if on_tensor_cores else 0
    return SUM_BYTES * (math.prod(config.block[:2]) + turned)


def most_core_threads(block: tuple[int, int, int]) -> int:
    """Threads of a block on CUDA cores: each copies at least one element of the tile of either operand."""
    return min(MAX_THREADS, block[2] * min(block[:2]))


def first_broken(
    problem: GemmProblem, config: GemmConfig, machine: Target, limits: Sequence[Limit]
) -> tuple[Limit, str] | None:
    """The first limit that a configuration breaks, and how; None where it keeps all."""
    for limit in limits:
        how = limit.broken(problem, config, machine)
        if how:
            return limit, how
    return None


def _alignment(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    m, n, k = problem.instruction
    for what, size, unit in zip(("rows", "columns", "depths"), config.block, (m, n, k), strict=True):
        if size % unit:
            return f"no instruction divides {size} {what}: it computes {m} x {n} x {k}"
    least = FRAGMENT_SIZE * problem.siblings
    if problem.siblings > 1 and config.part[1] % least:
        return f"{config.part[1]} columns of a warp, and {problem.siblings} products need {FRAGMENT_SIZE} each"
    return ""


def _parts(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    rows, columns, _ = config.block
    if rows % config.part[0] or columns % config.part[1]:
        return f"parts of {config.part[0]} x {config.part[1]} do not divide a tile of {rows} x {columns}"
    return ""


def _rows(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    columns = config.block[1]
    if not problem.has_whole_rows or columns >= problem.n:
        return ""
    nearest = 1 << (problem.n - 1).bit_length()
    return f"tiles of {columns} columns cut rows of {problem.n}, which the kernel reduces: nearest is {nearest}"


def _stages(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    depth = config.block[2]
    tiles = problem.steps(depth)
    steps = -(-tiles // config.split_k)
    if config.stages > MAX_STAGES:
        return f"{config.stages} stages, a pipeline has up to {MAX_STAGES}"
    if config.stages > steps:
        shared = f", shared by {config.split_k} blocks" if config.split_k > 1 else ""
        depths = problem.k * problem.rounds
        return f"{config.stages} stages of {depth} depths, and the loop has {steps} of {depths:,}{shared}"
    return ""


def _raster(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    rows = -(-problem.m // config.block[0])
    return f"{config.raster} rows of tiles do not divide the {rows} that there are" if rows % config.raster else ""


def _split(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    """Every block of a team has a tile of the depth to multiply, and memory holds the sums of all."""
    (rows, columns, depth), parts = config.block, config.split_k
    if parts == 1:
        return ""
    steps = problem.steps(depth)
    if whole_parts(steps, parts) != parts:
        return f"{parts} blocks cannot share {steps} tiles of {depth} depths: one of them would have none"
    if parts > MOST_PARTS:
        return f"{parts} blocks to a tile: the last one adds up the sums of at most {MOST_PARTS}"
    left = parts * tiles_of(problem, config) * rows * columns * SUM_BYTES
    return f"{kib(left)} of sums in global memory, a kernel keeps {kib(MOST_BYTES)}" if left > MOST_BYTES else ""


def _inner(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    depth, k = config.block[2], problem.instruction[2]
    if depth % (k * config.slices):
        return f"{config.slices} slices of {depth} depths are no whole steps of {k}"
    inner = depth // k // config.slices
    if config.register_stages > inner:
        return f"{config.register_stages} register stages, and a tile has {inner} steps of {k} depths"
    return ""


def _codes(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    tiles = ((side, config.block[2]) for side in config.block[:2])
    boxes = (box_of(source, tile) for tile, of in zip(tiles, problem.sources, strict=True) for source in of)
    return next((box for box in boxes if isinstance(box, str)), "")


def _shared_memory(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    return too_much_shared(problem.shared_bytes(config), machine)


def _threads(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    return too_many_threads(config.parts * problem.lanes, machine)


def _room(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    threads, shared = config.parts * problem.lanes, problem.shared_bytes(config)
    try:
        occupancy(threads, shared, registers_of(problem, config, machine), machine)
    except Unsupported as error:
        return error.reason
    return ""


LIMITS = (
    Limit("instruction alignment", _alignment, "tiles are whole instructions"),
    Limit("whole parts", _parts, "every warp or thread owns as much of the tile"),
    Limit("split-K", _split, "a block without work would only wait for the others"),
    Limit("whole rows", _rows, "the values of a row never leave their block"),
    Limit("stages", _stages, "a pipeline is no longer than its loop"),
    Limit("register stages", _inner, "a pipeline in registers is no longer than a tile"),
    Limit("copies of codes", _codes, "only asynchronous copies run far enough ahead of what takes codes apart"),
    Limit("shared memory", _shared_memory, FAILS),
    Limit("threads", _threads, FAILS),
    Limit("room on an SM", _room, "not one block would ever start"),
)
"""Cheapest first; what breaks one is not asked the next."""


# What only a search asks


def _shape(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    uneven = _uneven(problem, config)
    if uneven or not problem.unit:
        return uneven or _core_shape(config, MOST_COLUMNS if problem.has_whole_rows else CORE_BLOCK)
    sizes = [(size, BLOCKS, "a block") for size in config.block[:2]]
    sizes += [(size, WARPS, "a warp") for size in config.part] + [(config.block[2], DEPTHS, "a tile's depth")]
    for size, (least, most), what in sizes:
        if not least <= size <= most:
            return f"{size} of {what}, kernels take {least} to {most}"
    if config.parts > MAX_WARPS:
        return f"{config.parts} warps, a block has up to {MAX_WARPS}"
    return ""


def _uneven(problem: GemmProblem, config: GemmConfig) -> str:
    """Sides that are no powers of two, nor three times one where that may be; parts share them in powers of two."""
    for n, (side, part) in enumerate(zip(config.block, config.part, strict=False)):
        takes_third = n == 0 and problem.takes_thirds and config.slices == 1
        if not is_tile_size(side, takes_third):
            return f"{side} of a block, kernels take powers of two{' and three times one' if takes_third else ''}"
        if side % part == 0 and not is_tile_size(side // part):
            return f"{side // part} parts beside each other, a tile has a power of two of them"
    depth = config.block[2]
    return "" if is_tile_size(depth) else f"{depth} depths, kernels take powers of two"


def is_tile_size(size: int, takes_third: bool = False) -> bool:
    """Whether a side may be so long: a power of two or, where that may be, three times one."""
    return size.bit_count() == 1 or (takes_third and size % 3 == 0 and (size // 3).bit_count() == 1)


def _core_shape(config: GemmConfig, widest: int) -> str:
    """The same for a kernel on CUDA cores."""
    rows, columns, depth = config.block
    sizes = [(rows, CORE_BLOCK, "a block"), (columns, widest, "a block"), (depth, CORE_DEPTH, "its depth")]
    sizes += [(size, CORE_PART, "a thread") for size in config.part]
    for size, most, what in sizes:
        if size > most:
            return f"{size} of {what}, kernels on CUDA cores have up to {most}"
    most = most_core_threads(config.block)
    return f"{config.parts} threads, with so small a tile a block has up to {most}" if config.parts > most else ""


def _warps(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    return whole_warps(config.parts * problem.lanes)


def _exchange(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    exchanged = exchanged_bytes(config, bool(problem.unit))
    if config.slices == 1 or config.slices * exchanged <= machine.shared_limit:
        return ""
    room = kib(machine.shared_limit)
    return f"{config.slices} slices exchange {kib(exchanged)} of sums each, a block may have {room}"


def _copies(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    """What is too small for an asynchronous copy goes through registers: they must hold a thread's part of a tile."""
    if config.stages == 1:
        return ""
    for size, count in problem.copies(config):
        if size < SMALLEST_COPY and count >= MOST_HELD + 1:
            copies = f"a thread copies {int(count)} times {size} bytes through {MOST_HELD} registers"
            return f"{config.stages} stages, and {copies}"
        if size < SMALLEST_COPY and config.stages > HELD_STAGES:
            return f"{config.stages} stages, and copies of {size} bytes go through registers, which hold one tile"
    return ""


def _registers(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    """Of sums and fragments: addresses of narrow copies are left out, the compiler may walk them in turn."""
    wide = VECTOR_BYTES // problem.element_bytes
    needed = estimated_registers(replace(problem, widths=(wide, wide)), config)
    return too_many_registers(needed, config.parts * problem.lanes, machine, GEMM_ERROR)


def _grid(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    return too_many_blocks(tiles_of(problem, config) * config.split_k)


def _empty(problem: GemmProblem, config: GemmConfig, machine: Target) -> str:
    sizes = (problem.m, problem.n, problem.k)
    for what, size, tile in zip(("rows", "columns", "depths"), sizes, config.block, strict=True):
        if tile >= 2 * max(size, FRAGMENT_SIZE):
            return f"a tile of {tile} {what} for {size}: half of it would only be filled"
    return ""


SEARCH_LIMITS = (
    Limit("tile shape", _shape, "kernels are generated for these alone"),
    Limit("whole warps", _warps, "lanes without a thread cost as much as those with one"),
    *LIMITS,
    Limit("order of blocks", _raster, "all groups of rows of tiles are alike"),
    Limit("exchange of sums", _exchange, "slices add their sums by way of shared memory"),
    Limit("asynchronous copies", _copies, f"cp.async moves {SMALLEST_COPY} bytes or more, registers hold the rest"),
    Limit("registers", _registers, SPILLS),
    Limit("grid", _grid, "a launch of more blocks fails"),
    Limit("tile utilisation", _empty, "half the tile does the same work"),
)
"""Every rule in the order in which it is asked."""
