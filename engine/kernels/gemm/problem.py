"""What a group multiplies, which of its iterators are rows, columns and depths, and where its kernel stands."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from engine.cost.alcop_nodes import GemmProblem
from engine.fusion.row_sides import reduced_columns
from engine.fusion.shape import is_contraction, is_of_codes
from engine.graph.nodes import DTYPES
from engine.kernels.gemm.copies import reach_of
from engine.kernels.gemm.nodes import Reach
from engine.kernels.statement_block import result_statement
from engine.support.errors import Unsupported
from engine.support.values import kept_with
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.access import vector_limit
from engine.tensor.nodes import Access, Array, Literal, Statement, TensorProgram, accesses, iterators_of
from engine.tensor.traffic import flop_counts
from engine.tensorize.bind import GemmAxes, axes_of_contraction, contraction_misfit, multiplied_dtype
from engine.tensorize.codes import sources_of
from engine.tensorize.nodes import Intrinsic
from engine.tensorize.space import GemmConfig, Source
from engine.tile.nodes import TileProgram

CORE = (1, 1, 4)
"""On CUDA cores a thread multiplies what it likes; fragments are brought 4 depths at a time."""


@kept_with
def gemm_axes(program: TensorProgram, outer: tuple[str, ...] = ()) -> GemmAxes | None:
    """The axes of a program's contraction, of which blocks have whole rows where its results are reduced; None without
    a contraction.  outer: as for `axes_of_contraction`."""
    anchor, sibling = products_of(program)
    if anchor is None:
        return None
    columns = reduced_columns(program.statements, anchor)
    return replace(axes_of_contraction(anchor, columns, outer), sibling=sibling)


def products_of(program: TensorProgram) -> tuple[Statement | None, Statement | None]:
    """The product of a program, and another one in the same main loop; None where there is none."""
    found = [s for s in program.statements if is_contraction(s)]
    return next(iter(found), None), found[1] if len(found) > 1 else None


def product_misfit(program: TensorProgram, intrinsic: Intrinsic) -> str:
    """Why an instruction does not compute the product of a program, or one beside it; "" where it does."""
    found = (contraction_misfit(s, program.arrays, intrinsic) for s in program.statements if is_contraction(s))
    return next(filter(None, found), "")


@kept_with
def gemm_problem(program: TensorProgram, intrinsic: Intrinsic | None, outer: tuple[str, ...] = ()) -> GemmProblem:
    """What a kernel of a program multiplies with an instruction, on CUDA cores without one.

    The program has a contraction of two plain factors.  outer: as for `axes_of_contraction`.
    """
    axes = gemm_axes(program, outer)
    assert axes is not None, program.name
    (m, n, k), batch, rounds = axes.sizes, axes.batches, axes.rounds
    count = m * n * batch
    results = sum(program.arrays[name].elements * DTYPES[program.arrays[name].dtype] for name in program.outputs)
    flops, special = flop_counts(program)
    arrays, siblings = [program.arrays[access.array] for access in axes.factors], axes.siblings
    found = reaches(program, outer)
    first, second = (max(reach.along_side, reach.along_depth) for reach in found)
    size = found[0].element_bytes
    return GemmProblem(
        m=m,
        n=n,
        k=k,
        batch=batch,
        element_bytes=size,
        result_bytes=-(-results // count),
        unit=intrinsic.dtype if intrinsic else "",
        instruction=(intrinsic.m, intrinsic.n, intrinsic.k) if intrinsic else CORE,
        distinct=(
            min(1.0, arrays[0].elements / (m * k * rounds * batch)),
            min(1.0, arrays[1].elements * siblings / (n * k * rounds * batch)),
        ),
        operand_bytes=operand_bytes(program, outer),
        sources=(found[0].sources, found[1].sources),
        widths=(first, second),
        finish=(max(0, flops - 2 * count * k * rounds) / count, special / count),
        has_whole_rows=axes.has_whole_rows,
        siblings=siblings,
        takes_thirds=takes_thirds(program, outer),
        rounds=rounds,
    )


def operand_bytes(program: TensorProgram, outer: tuple[str, ...] = ()) -> tuple[int, int]:
    """What both operands of one batch of a program's product take in memory, the second ones of siblings together.

    outer: as for `axes_of_contraction`.
    """
    axes = gemm_axes(program, outer)
    assert axes is not None, program.name
    found = []
    for n, factor in enumerate(axes.expressions):
        arrays = [program.arrays[name] for name in dict.fromkeys(access.array for access in accesses(factor))]
        moved_by = iterators_of(factor)
        batches = math.prod(i.extent for i in axes.batch if i.name in moved_by)
        walked = math.prod(i.extent for i in axes.statement.iterators if i.name in moved_by) // batches
        sizes = [DTYPES[array.dtype] for array in arrays]
        held = sum(array.elements * size for array, size in zip(arrays, sizes, strict=True)) // batches
        found.append(min(held, walked * sum(sizes)) * (axes.siblings if n else 1))
    return found[0], found[1]


def takes_thirds(program: TensorProgram, outer: tuple[str, ...] = ()) -> bool:
    """See `GemmProblem.takes_thirds`: where nothing shares the rows of a tile in powers of two.

    In shared memory the depths must lie beside each other: what does is permuted within a power of two of bytes on
    tensor cores, and read as vectors on CUDA cores.  So are the columns of results.
    """
    axes = gemm_axes(program, outer)
    if axes is None or axes.has_whole_rows or axes.siblings > 1:
        return False
    first, second = reaches(program, outer)
    return not (first.sources or second.sources) and first.along_side == 1 and first.singly_along_depth


@kept_with
def reaches(program: TensorProgram, outer: tuple[str, ...] = ()) -> tuple[Reach, Reach]:
    """What memory allows of the copies of both operands of a program's product.  outer: as for `axes_of_contraction`.
    """
    axes = gemm_axes(program, outer)
    assert axes is not None, program.name
    depth, extents = [i.name for i in axes.depth], axes.statement.extents
    found = []
    for n, side in enumerate((axes.rows, axes.columns)):
        sources = tuple(sources_of_operand(axes, n, program.arrays).values())
        if sources:
            found.append(_reach_of_codes(program, axes, n, sources))
        else:
            found.append(reach_of(axes.factors[n], program.arrays, [i.name for i in side], depth, extents))
    return found[0], found[1]


def sources_of_operand(axes: GemmAxes, number: int, arrays: Mapping[str, Array]) -> Mapping[Access, Source]:
    """What the first (0) or the second operand of a product is computed from, where it is one of codes; else nothing.

    Raises Unsupported for codes whose tiles cannot be copied.
    """
    factor, side = axes.expressions[number], (axes.rows, axes.columns)[number]
    if not is_of_codes(factor):
        return {}
    if len(side) != 1 or len(axes.depth) != 1:
        raise Unsupported("codegen", axes.statement.name, "codes are unpacked along one row or column and one depth")
    found = sources_of(factor, arrays, side[0], axes.depth[0])
    if isinstance(found, str):
        raise Unsupported("codegen", axes.statement.name, found)
    return found


def _reach_of_codes(program: TensorProgram, axes: GemmAxes, number: int, sources: tuple[Source, ...]) -> Reach:
    """Elements are written in the order of their codes, whatever copies bring these."""
    assert axes.statement.reduction is not None
    held = axes.statement.reduction.accumulate
    size = DTYPES[multiplied_dtype(axes.expressions[number], held, program.arrays)]
    widest = VECTOR_BYTES // size
    is_depth_inner = sources[0].walks[1].step == 1
    along = (1, widest) if is_depth_inner else (widest, 1)
    return Reach(size, *along, is_depth_inner, sources=sources)


def widest_result(program: TensorProgram, products: Collection[Statement], columns: Mapping[str, str]) -> int:
    """Neighbouring results that can be read and written at once.

    columns: statement -> its iterator along which results are neighbours; "" or one that it lacks for none.
    """
    statements = [result_statement(s, Literal(0.0, "float32")) if s in products else s for s in program.statements]
    runs = {s.name: (columns[s.name],) for s in statements if columns[s.name] in s.extents}
    return vector_limit(statements, program, runs)


def window_axes(anchor: Statement) -> int:
    """Axes along which windows slide, as those of convolutions: indices that several iterators move."""
    return max(sum(len(index.iterators()) > 1 for index in access.indices) for access in anchor.reads())


def config_of_tile(tile: TileProgram) -> GemmConfig | None:
    """Where a kernel of a tiled contraction stands; None for other kernels."""
    return tile.config if isinstance(tile.config, GemmConfig) else None
