"""What tiles of a matrix product must keep, beside what a GPU allows: one row for each rule, with its figures."""

from __future__ import annotations

from dataclasses import replace

from engine.cost.alcop import allowed_registers
from engine.cost.alcop_nodes import GemmProblem
from engine.cost.alcop_work import estimated_registers
from engine.fusion.row_epilogue import MOST_COLUMNS
from engine.kernels.gemm.limits import (
    BLOCKS,
    CORE_BLOCK,
    CORE_DEPTH,
    CORE_PART,
    DEPTHS,
    LIMITS,
    WARPS,
    Limit,
    exchanged_bytes,
    kib,
    most_core_threads,
    tiles_of,
)
from engine.kernels.prune import REGISTERS_BECAUSE, whole_warps
from engine.target import Target
from engine.target.copies import HELD_STAGES, MOST_HELD, SMALLEST_COPY
from engine.target.hardware import MAX_GRID, MAX_WARPS, VECTOR_BYTES
from engine.target.registers import GEMM_ERROR
from engine.tensorize.nodes import FRAGMENT_SIZE
from engine.tensorize.space import GemmConfig


def _shape(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    if not contraction.unit:
        return _core_shape(knobs, MOST_COLUMNS if contraction.has_whole_rows else CORE_BLOCK)
    sizes = [(size, BLOCKS, "a block") for size in knobs.block[:2]]
    sizes += [(size, WARPS, "a warp") for size in knobs.part] + [(knobs.block[2], DEPTHS, "a tile's depth")]
    for size, (least, most), what in sizes:
        if not least <= size <= most or size & (size - 1):
            return f"{size} of {what}, kernels take powers of two from {least} to {most}"
    if knobs.parts > MAX_WARPS:
        return f"{knobs.parts} warps, a block has up to {MAX_WARPS}"
    return ""


def _core_shape(knobs: GemmConfig, widest: int) -> str:
    """The same for a kernel on CUDA cores."""
    rows, columns, depth = knobs.block
    sizes = [(rows, CORE_BLOCK, "a block"), (columns, widest, "a block"), (depth, CORE_DEPTH, "its depth")]
    sizes += [(size, CORE_PART, "a thread") for size in knobs.part]
    for size, most, what in sizes:
        if size > most:
            return f"{size} of {what}, kernels on CUDA cores have up to {most}"
    most = most_core_threads(knobs.block)
    return f"{knobs.parts} threads, with so small a tile a block has up to {most}" if knobs.parts > most else ""


def _warps(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    return whole_warps(knobs.parts * contraction.lanes)


def _exchange(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    exchanged = exchanged_bytes(knobs)
    if knobs.slices == 1 or knobs.slices * exchanged <= machine.shared_limit:
        return ""
    return f"{knobs.slices} slices exchange {kib(exchanged)} of sums each, a block may have {kib(machine.shared_limit)}"


def _copies(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    """What is too small for an asynchronous copy goes through registers: they must hold a thread's part of a tile."""
    if knobs.stages == 1:
        return ""
    for size, count in contraction.copies(knobs):
        if size < SMALLEST_COPY and count >= MOST_HELD + 1:
            held = int(count)
            return f"{knobs.stages} stages, and a thread copies {held} times {size} bytes through {MOST_HELD} registers"
        if size < SMALLEST_COPY and knobs.stages > HELD_STAGES:
            return f"{knobs.stages} stages, and copies of {size} bytes go through registers, which hold one tile"
    return ""


def registers_of_tiles(contraction: GemmProblem, knobs: GemmConfig) -> int:
    """What sums and fragments take: addresses of narrow copies are left out, the compiler may walk them in turn."""
    wide = VECTOR_BYTES // contraction.element_bytes
    return estimated_registers(replace(contraction, widths=(wide, wide)), knobs)


def _registers(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    needed = registers_of_tiles(contraction, knobs)
    most = allowed_registers(knobs.parts * contraction.lanes, machine)
    return f"about {needed} registers, a thread may have {most}" if needed > most * (1 + GEMM_ERROR) else ""


def _grid(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    blocks = tiles_of(contraction, knobs) * knobs.split_k
    return f"{blocks:,} blocks, a grid may have {MAX_GRID:,}" if blocks > MAX_GRID else ""


def _empty(contraction: GemmProblem, knobs: GemmConfig, machine: Target) -> str:
    for what, size, tile, unit in zip(
        ("rows", "columns", "depths"), (contraction.m, contraction.n, contraction.k), knobs.block, (FRAGMENT_SIZE,) * 3,
        strict=True,
    ):  # fmt: skip
        if tile >= 2 * max(size, unit):
            return f"a tile of {tile} {what} for {size}: half of it would only be filled"
    return ""


PRODUCT_LIMITS = (
    Limit("shape of tiles", _shape, "kernels are generated for these alone"),
    Limit("whole warps", _warps, "lanes without a thread cost as much as those with one"),
    *LIMITS,
    Limit("exchange of sums", _exchange, "slices add their sums by way of shared memory"),
    Limit("asynchronous copies", _copies, f"cp.async moves {SMALLEST_COPY} bytes or more, registers hold the rest"),
    Limit("registers", _registers, REGISTERS_BECAUSE),
    Limit("grid", _grid, "a launch of more blocks fails"),
    Limit("filled tiles", _empty, "half the tile does the same work"),
)
"""Every rule in the order in which it is asked."""
