"""What the knobs of a contraction must keep to be a kernel at all: one row for each limit, with its figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.cost.alcop import allowed_registers
from engine.cost.alcop_nodes import GemmProblem
from engine.cost.alcop_work import estimated_registers
from engine.pipeline.detect import MAX_STAGES
from engine.support.errors import Unsupported
from engine.target import Target
from engine.target.hardware import MAX_THREADS, SUM_BYTES
from engine.target.occupancy import occupancy
from engine.target.teams import MOST_BYTES, MOST_PARTS, whole_parts
from engine.tensorize.nodes import FRAGMENT_SIZE
from engine.tensorize.space import GemmConfig

KIB = 1024
BLOCKS, WARPS, DEPTHS = (16, 256), (16, 64), (16, 128)
"""Smallest and largest rows or columns of a block's and of a warp's tile, and depths, that tensor-core kernels take."""
CORE_BLOCK, CORE_PART, CORE_DEPTH = 128, 8, 64
"""Rows and columns of a block's and of a thread's tile, and depths, that kernels on CUDA cores take at most."""

Test = Callable[[GemmProblem, GemmConfig, Target], str]


@dataclass(frozen=True, slots=True)
class Limit:
    """One rule that drops knobs before they cost anything."""

    name: str
    broken: Test
    """How knobs break it, with figures; "" where they keep it."""
    because: str
    """Why nothing else would do."""


def tiles_of(contraction: GemmProblem, config: GemmConfig) -> int:
    """Tiles of the result, of all batches."""
    rows, columns, _ = config.block
    return contraction.batch * -(-contraction.m // rows) * -(-contraction.n // columns)


def registers_of(contraction: GemmProblem, config: GemmConfig, machine: Target) -> int:
    """Of a thread, as estimated: what it needs, or as many as the compiler may give it, which spills the rest."""
    allowed = allowed_registers(config.parts * contraction.lanes, machine)
    return min(estimated_registers(contraction, config), allowed)


def exchanged_bytes(config: GemmConfig) -> int:
    """Shared memory that one slice needs to hand over its sums, and to turn rows of them on their way out."""
    return SUM_BYTES * (math.prod(config.block[:2]) + config.parts_of_slice * FRAGMENT_SIZE * config.part[1])


def most_core_threads(block: tuple[int, int, int]) -> int:
    """Threads of a block on CUDA cores: each copies at least one element of the tile of either operand."""
    return min(MAX_THREADS, block[2] * min(block[:2]))


def first_broken(
    contraction: GemmProblem, knobs: GemmConfig, machine: Target, limits: Sequence[Limit] | None = None
) -> tuple[Limit, str] | None:
    """The first limit that knobs break, and how; None where they keep all.  limits: LIMITS where none are given."""
    for limit in LIMITS if limits is None else limits:
        how = limit.broken(contraction, knobs, machine)
        if how:
            return limit, how
    return None


def kib(size: float) -> str:
    """Bytes for people."""
    return f"{size / KIB:.3g} KiB"


def _alignment(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    m, n, k = contraction.instruction
    for what, size, unit in zip(("rows", "columns", "depths"), knobs.block, (m, n, k), strict=True):
        if size % unit:
            return f"no instruction divides {size} {what}: it computes {m} x {n} x {k}"
    return ""


def _parts(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    rows, columns, _ = knobs.block
    if rows % knobs.part[0] or columns % knobs.part[1]:
        return f"parts of {knobs.part[0]} x {knobs.part[1]} do not divide a tile of {rows} x {columns}"
    return ""


def _rows(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    columns = knobs.block[1]
    if not contraction.has_whole_rows or columns >= contraction.n:
        return ""
    nearest = 1 << (contraction.n - 1).bit_length()
    return f"tiles of {columns} columns cut rows of {contraction.n}, which the kernel reduces: nearest is {nearest}"


def _stages(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    depth = knobs.block[2]
    tiles = -(-contraction.k // depth)
    steps = -(-tiles // knobs.split_k)
    if knobs.stages > MAX_STAGES:
        return f"{knobs.stages} stages, a pipeline has up to {MAX_STAGES}"
    if knobs.stages > steps:
        shared = f", shared by {knobs.split_k} blocks" if knobs.split_k > 1 else ""
        return f"{knobs.stages} stages of {depth} depths, and the loop has {steps} of {contraction.k:,}{shared}"
    return ""


def _split(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    """Every block of a team has a tile of the depth to multiply, and memory holds the sums of all."""
    (rows, columns, depth), parts = knobs.block, knobs.split_k
    if parts == 1:
        return ""
    steps = -(-contraction.k // depth)
    if whole_parts(steps, parts) != parts:
        return f"{parts} blocks cannot share {steps} tiles of {depth} depths: one of them would have none"
    if parts > MOST_PARTS:
        return f"{parts} blocks to a tile: the last one adds up the sums of at most {MOST_PARTS}"
    left = parts * tiles_of(contraction, knobs) * rows * columns * SUM_BYTES
    return f"{kib(left)} of sums in global memory, a kernel keeps {kib(MOST_BYTES)}" if left > MOST_BYTES else ""


def _inner(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    depth, k = knobs.block[2], contraction.instruction[2]
    if depth % (k * knobs.slices):
        return f"{knobs.slices} slices of {depth} depths are no whole steps of {k}"
    inner = depth // k // knobs.slices
    if knobs.register_stages > inner:
        return f"{knobs.register_stages} register stages, and a tile has {inner} steps of {k} depths"
    return ""


def _shared_memory(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    needed, limit = knobs.stages * knobs.stage_bytes(contraction.element_bytes), machine.shared_limit
    return f"{kib(needed)} of shared memory, a block may have {kib(limit)}" if needed > limit else ""


def _threads(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    threads, most = knobs.parts * contraction.lanes, machine.threads_per_block.value
    return f"{threads:,} threads, a block may have {most:,.0f}" if threads > most else ""


def _room(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    threads = knobs.parts * contraction.lanes
    shared = knobs.stages * knobs.stage_bytes(contraction.element_bytes)
    try:
        occupancy(threads, shared, registers_of(contraction, knobs, machine), machine)
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
    Limit("shared memory", _shared_memory, "a launch that asks for more fails"),
    Limit("threads", _threads, "a launch that asks for more fails"),
    Limit("room on an SM", _room, "not one block would ever start"),
)
"""Cheapest first; what breaks one is not asked the next."""
