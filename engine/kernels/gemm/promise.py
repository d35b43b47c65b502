"""The product of a group as the estimate takes it, and the estimate that advisers choose by."""

from __future__ import annotations

import math
from collections.abc import Callable

from engine.cost.estimate import model_microseconds
from engine.kernels.gemm.epilogue_requests import epilogue_of
from engine.kernels.gemm.nodes import FusedGemm
from engine.kernels.gemm.problem import config_of_tile, contraction_before, reaches, sides_of
from engine.kernels.gemm.work import work
from engine.target import Target
from engine.tensor.nodes import TensorProgram
from engine.tensor.traffic import compulsory_bytes, flop_counts
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Intrinsic
from engine.tensorize.space import GemmConfig
from engine.tile.nodes import TileProgram


def problem_of(program: TensorProgram, intrinsic: Intrinsic | None) -> FusedGemm:
    """The problem of a program with a contraction of two plain factors, on tensor cores or (None) without them."""
    sides, contraction = sides_of(program), contraction_before(program, intrinsic)
    assert sides is not None, program.name
    flops, special = flop_counts(program)
    if intrinsic:
        flops -= 2 * math.prod(program.statement(sides.statement).extents.values())
    return FusedGemm(
        contraction, reaches(program, sides), epilogue_of(program, sides), flops, special, compulsory_bytes(program)
    )


def problem_of_tile(program: TensorProgram, tile: TileProgram) -> FusedGemm | None:
    """The problem that a kernel solves; None for a kernel that is no tiled contraction."""
    if config_of_tile(tile) is None or sides_of(program) is None:
        return None
    return problem_of(program, INTRINSICS.get(tile.intrinsic))


def promise_of(machine: Target, program: TensorProgram, intrinsic: Intrinsic | None) -> Callable[[GemmConfig], float]:
    """The modelled microseconds of a program's kernels by their configuration, with the machine's own figures.

    The function raises Unsupported where no block of a kernel fits an SM.
    """
    problem = problem_of(program, intrinsic)
    return lambda config: model_microseconds(work(problem, config, machine), machine)
