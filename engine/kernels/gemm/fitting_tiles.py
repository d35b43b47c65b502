"""Tiles that fit a product: no wider than it, in whole parts for warps or threads, with registers for what goes there.

    256 x 40 float16    ->    128 x 64 in parts of 64 x 32, 64 x 64 in parts of 32 x 32, ..., none of 128 columns
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from engine.cost.alcop_nodes import GemmProblem
from engine.cost.alcop_work import estimated_registers
from engine.fusion.row_cost import row_tiles, thread_tile, warp_tile
from engine.kernels.gemm.block_order import panels_of_wave
from engine.kernels.gemm.limits import most_core_threads
from engine.kernels.gemm.nodes import FusedGemm, Reach
from engine.kernels.gemm.problem import window_axes
from engine.kernels.gemm.tiles import CORE_TILES, SLICES, TILES, Loop, Tile
from engine.target import Target
from engine.target.copies import MOST_HELD
from engine.target.hardware import WARP
from engine.tensorize.bind import GemmAxes
from engine.tensorize.nodes import FRAGMENT_SIZE
from engine.tensorize.space import GemmConfig

MOST_ESTIMATED = 330
"""Registers of a thread by the estimate, which counts the places of single copies apart: up to here NVRTC 13.0 finds
room in 255, of 384 it spilled 200 bytes.  On CUDA cores it found room for all that were seen."""
MOST_READ = 1.25
"""Times what a square of blocks reads: the estimate does not know what blocks of a wave share in L2."""
MOST_WINDOWS, LARGE = 2, 128 * 128
"""Axes that windows slide along, past which the addresses of elements leave no registers for tiles of so many
results."""


def warp_tiles(axes: GemmAxes, loop: Loop, gemm: FusedGemm, machine: Target) -> list[Tile]:
    """Tiles no wider than the product; whole rows where they are reduced, few addresses where elements are gathered."""
    sizes, windows, reaches = axes.sizes[:2], window_axes(axes.statement), gemm.reaches
    tiles = _tiles_for(gemm.problem, TILES, machine)
    if windows:  # where copies go element by element, twice the threads share the addresses of large tiles
        tiles = [t for t in tiles if max(t.block) <= 64 or t.warp != (64, 64)]
    if axes.has_whole_rows:
        tiles = [Tile(block, warp_tile(block)) for block in row_tiles(*sizes)]
    fitted = list(dict.fromkeys(_fit_warps(tile, sizes, axes.siblings) for tile in tiles))
    if not loop.through_registers:
        return fitted
    few = [t for t in fitted if windows <= MOST_WINDOWS or math.prod(t.block) < LARGE] or fitted
    # A thread holds its share of a tile in registers on the way: larger tiles would crowd out its sums.
    return [t for t in few if fits_registers((*t.block, loop.tile), t.warps, reaches)] or few[-1:]


def fits_registers(block: tuple[int, int, int], warps: int, reaches: Sequence[Reach]) -> bool:
    """Whether the threads hold a tile of each factor at once that goes through registers."""
    sides = [side for side, reach in zip(block, reaches, strict=False) if reach.is_single]
    return max(sides, default=0) * block[2] <= MOST_HELD * WARP * warps


def _fit_warps(tile: Tile, sizes: tuple[int, int], products: int = 1) -> Tile:
    """A tile no wider than the product needs, a warp's part with columns of all products of the main loop."""
    rows, columns = (min(b, max(FRAGMENT_SIZE, power_above(s))) for b, s in zip(tile.block, sizes, strict=True))
    least = FRAGMENT_SIZE * products
    columns = max(columns, least)
    return Tile((rows, columns), (min(rows, tile.warp[0]), min(columns, max(tile.warp[1], least))))


def thread_tiles(axes: GemmAxes, loop: Loop, gemm: FusedGemm, machine: Target) -> list[Tile]:
    """The same on CUDA cores."""
    m, n, _ = axes.sizes
    if axes.has_whole_rows:
        threads = (256, 256 // SLICES[-1])  # as many where slices of the depth have a set each
        found = itertools.product(row_tiles(m, n, least=1), threads)
        return list(dict.fromkeys(Tile(block, thread_tile(block, of_slice)) for block, of_slice in found))
    tiles = _tiles_for(gemm.problem, CORE_TILES, machine)
    return list(dict.fromkeys(_fit_threads(tile, (m, n), loop.tile) for tile in tiles))


def _tiles_for(problem: GemmProblem, tiles: Sequence[Tile], machine: Target) -> list[Tile]:
    """Those that the product may have.

    Tiles with three times a power of two rows are not cut to fewer, and must leave blocks an order in which a wave
    reads little more than if it were a square: 43 rows of tiles have none but one by one.
    """
    widest = power_above(problem.m) if problem.takes_thirds else 0

    def has_order(block: tuple[int, int]) -> bool:
        square = 2 * math.sqrt(math.prod(block) * machine.sm_count)
        read = panels_of_wave((problem.m, problem.n), block, machine.sm_count).values()
        return min(read, default=0) <= MOST_READ * square

    return [tile for tile in tiles if tile.is_even or (tile.block[0] <= widest and has_order(tile.block))]


def _fit_threads(tile: Tile, sizes: tuple[int, int], depth: int) -> Tile:
    """A tile no wider than the product needs, a thread's part cut as much but for what its copies ask."""
    rows, columns = (min(b, power_above(size)) for b, size in zip(tile.block, sizes, strict=True))
    part = [max(1, b * t // whole) for b, t, whole in zip((rows, columns), tile.warp, tile.block, strict=True)]
    while rows // part[0] * (columns // part[1]) > most_core_threads((rows, columns, depth)):
        part[0 if rows // part[0] >= columns // part[1] else 1] *= 2
    return Tile((rows, columns), (part[0], part[1]))


def power_above(size: int) -> int:
    """The smallest power of two that is no less."""
    return 1 << (size - 1).bit_length()


def without_spills(choices: list[GemmConfig], problem: GemmProblem, machine: Target) -> list[GemmConfig]:
    """Those that the compiler finds registers for; all where it finds them for none."""

    most, of_block = machine.registers_per_thread.value, machine.registers_per_sm.value

    def has_room(config: GemmConfig) -> bool:
        of_thread = of_block / (config.parts * problem.lanes)
        if of_thread < most:
            return estimated_registers(problem, config) <= of_thread
        return not problem.unit or estimated_registers(problem, config) <= MOST_ESTIMATED

    return [c for c in choices if has_room(c)] or choices
