"""What a group multiplies, which of its iterators are rows, columns and depths, and where its kernel stands."""

from __future__ import annotations

from collections.abc import Mapping

from engine.cost.alcop_nodes import GemmProblem
from engine.fusion.row_sides import reduced_columns
from engine.fusion.shape import is_contraction
from engine.graph.nodes import DTYPES
from engine.kernels.gemm.copies import reach_of
from engine.kernels.gemm.nodes import Reach
from engine.kernels.statement_block import result_statement
from engine.tensor.access import vector_limit
from engine.tensor.nodes import Literal, Statement, TensorProgram
from engine.tensor.traffic import flop_counts
from engine.tensorize.bind import GemmAxes, axes_of_contraction
from engine.tensorize.nodes import Intrinsic
from engine.tensorize.space import GemmConfig
from engine.tile.nodes import TileProgram

CORE = (1, 1, 4)
"""On CUDA cores a thread multiplies what it likes; fragments are brought 4 depths at a time."""


def gemm_axes(program: TensorProgram) -> GemmAxes | None:
    """The axes of a program's contraction, of which blocks have whole rows where its results are reduced; None without
    a contraction."""
    anchor = next((s for s in program.statements if is_contraction(s)), None)
    return axes_of_contraction(anchor, reduced_columns(program.statements, anchor)) if anchor else None


def gemm_problem(program: TensorProgram, intrinsic: Intrinsic | None) -> GemmProblem:
    """What a kernel of a program multiplies with an instruction, on CUDA cores without one.

    The program has a contraction of two plain factors.
    """
    axes = gemm_axes(program)
    assert axes is not None, program.name
    (m, n, k), batch = axes.sizes, axes.batches
    count = m * n * batch
    results = sum(program.arrays[name].elements * DTYPES[program.arrays[name].dtype] for name in program.outputs)
    flops, special = flop_counts(program)
    arrays = [program.arrays[access.array] for access in axes.factors]
    first, second = (max(reach.along_side, reach.along_depth) for reach in reaches(program, axes))
    return GemmProblem(
        m=m,
        n=n,
        k=k,
        batch=batch,
        element_bytes=DTYPES[arrays[0].dtype],
        result_bytes=-(-results // count),
        unit=intrinsic.dtype if intrinsic else "",
        instruction=(intrinsic.m, intrinsic.n, intrinsic.k) if intrinsic else CORE,
        distinct=(min(1.0, arrays[0].elements / (m * k * batch)), min(1.0, arrays[1].elements / (n * k * batch))),
        widths=(first, second),
        finish=(max(0, flops - 2 * count * k) / count, special / count),
        has_whole_rows=axes.has_whole_rows,
    )


def reaches(program: TensorProgram, axes: GemmAxes) -> tuple[Reach, Reach]:
    """What memory allows of the copies of both operands."""
    depth, extents = [i.name for i in axes.depth], axes.statement.extents
    first, second = (
        reach_of(access, program.arrays, [i.name for i in side], depth, extents)
        for access, side in zip(axes.factors, (axes.rows, axes.columns), strict=True)
    )
    return first, second


def widest_result(program: TensorProgram, anchor: Statement, columns: Mapping[str, str]) -> int:
    """Neighbouring results that can be read and written at once.

    columns: statement -> its iterator along which results are neighbours; "" or one that it lacks for none.
    """
    statements = [result_statement(s, Literal(0.0, "float32")) if s is anchor else s for s in program.statements]
    runs = {s.name: (columns[s.name],) for s in statements if columns[s.name] in s.extents}
    return vector_limit(statements, program, runs)


def config_of_tile(tile: TileProgram) -> GemmConfig | None:
    """Where a kernel of a tiled contraction stands; None for other kernels."""
    return tile.config if isinstance(tile.config, GemmConfig) else None
