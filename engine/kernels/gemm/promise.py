"""The product of a group as the estimate takes it, and the estimate that advisers choose by."""

from __future__ import annotations

from collections.abc import Callable, Collection

from engine.cost.estimate import model_microseconds
from engine.kernels.gemm.epilogue_requests import epilogue_of
from engine.kernels.gemm.nodes import FusedGemm
from engine.kernels.gemm.problem import config_of_tile, gemm_axes, gemm_problem, reaches
from engine.kernels.gemm.work import work
from engine.support.values import kept_with
from engine.target import Target
from engine.tensor.nodes import TensorProgram
from engine.tensor.traffic import compulsory_bytes, flop_counts
from engine.tensorize.bind import unpacking_flops
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Intrinsic
from engine.tensorize.space import GemmConfig
from engine.tile.nodes import TileProgram


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


def promise_of(machine: Target, program: TensorProgram, intrinsic: Intrinsic | None) -> Callable[[GemmConfig], float]:
    """The modelled microseconds of a program's kernels by their configuration, with the machine's own figures.

    The function raises Unsupported where no block of a kernel fits an SM.
    """
    gemm = fused_gemm(program, intrinsic)
    return lambda config: model_microseconds(work(gemm, config, machine), machine)
