"""The product of a group as the estimate takes it, and the estimate that advisers choose by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from engine.kernels.gemm.epilogue_requests import epilogue_of
from engine.kernels.gemm.limits import tiles_of
from engine.kernels.gemm.nodes import FusedGemm
from engine.kernels.gemm.problem import config_of_tile, gemm_axes, gemm_problem, reaches
from engine.support.units import MICROSECONDS
from engine.support.values import kept_with
from engine.target import Target
from engine.tensor.nodes import TensorProgram
from engine.tensor.traffic import compulsory_bytes, flop_counts
from engine.tensorize.bind import unpacking_flops
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Intrinsic
from engine.tensorize.space import GemmConfig
from engine.tile.nodes import TileProgram

ROUNDED = 1 - 1e-9
"""Of a floor, which is summed in another order than what it is the floor of."""


@kept_with
def fused_gemm(program: TensorProgram, intrinsic: Intrinsic | None, outer: tuple[str, ...] = ()) -> FusedGemm:
    """A program's contraction on tensor cores or (None) without them, with what its kernel does beside it.

    outer: as for `axes_of_contraction`.
    """
    axes, problem = gemm_axes(program, outer), gemm_problem(program, intrinsic, outer)
    assert axes is not None, program.name
    flops, special = flop_counts(program)
    if intrinsic:
        flops -= 2 * axes.statement.points * axes.siblings
    unpacking = unpacking_flops(axes)
    # Counted for each product, where a tile's elements are computed once for all rows or columns of its block.
    flops -= sum(unpacking) * axes.statement.points
    epilogue = epilogue_of(program, axes)
    return FusedGemm(problem, reaches(program, outer), epilogue, flops, special, compulsory_bytes(program), unpacking)


def fused_gemm_of_tile(program: TensorProgram, tile: TileProgram) -> FusedGemm | None:
    """What a kernel multiplies, and what it does beside it; None for a kernel that is no tiled contraction."""
    config = config_of_tile(tile)
    if config is None or gemm_axes(program) is None:
        return None
    return fused_gemm(program, INTRINSICS.get(tile.intrinsic), config.outer)


def floor_of(
    gemms: Sequence[FusedGemm], moved: tuple[int, int], machine: Target
) -> Callable[[GemmConfig], float]:
    """What the modelled microseconds of one launch of products are no less than, by their configuration.

    An empty launch, and the longest of the bytes of DRAM, the tiles that blocks copy through L2, and the products of
    the busiest SM, those on zeros included.  moved: bytes that they read from and write to DRAM.
    """
    problem, sms = gemms[0].problem, int(machine.sms.value)
    of_unit = machine.tensor_core_rate(problem.unit) if problem.unit else machine.fp32_rate
    rate, dram = of_unit.value / sms, sum(moved) / machine.dram_bandwidth.value
    # What codes take is left out.
    sizes = [[0 if reach.sources else reach.element_bytes for reach in gemm.reaches] for gemm in gemms]

    def floor(config: GemmConfig) -> float:
        rows, columns, depth = config.block
        threads, blocks, products, copied = config.parts * problem.lanes, 0, 0, 0
        for gemm, (first, second) in zip(gemms, sizes, strict=True):
            own, siblings = tiles_of(gemm.problem, config) * config.split_k, gemm.problem.siblings
            steps = own * math.ceil(gemm.problem.steps(depth) / config.split_k)
            shares = rows * depth // threads * first + columns // siblings * depth // threads * siblings * second
            blocks, products = blocks + own, products + 2 * rows * columns * depth * steps
            copied += steps * threads * shares
        compute = products * -(-blocks // sms) / blocks / rate
        l2 = copied / (machine.l2_bandwidth.value * min(blocks, sms) / sms)
        return (machine.empty_kernel + max(dram, compute, l2)) * MICROSECONDS * ROUNDED

    return floor
