"""What a group multiplies, which of its iterators are rows, columns and depths, and where its kernel stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.cost.alcop_nodes import Contraction
from engine.fusion.row_sides import factors_of, reduced_columns
from engine.fusion.shape import is_contraction
from engine.graph.nodes import DTYPES
from engine.kernels.gemm.copies import Reach, reach_of
from engine.kernels.statement_block import result_statement
from engine.tensor.access import vector_limit
from engine.tensor.nodes import Access, Iterator, Literal, Statement, TensorProgram, accesses
from engine.tensor.traffic import flop_counts
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Intrinsic
from engine.tensorize.space import GemmConfig
from engine.tile.nodes import TileProgram

CORE = (1, 1, 4)
"""On CUDA cores a thread multiplies what it likes; fragments are brought 4 depths at a time."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Which iterators of a contraction are rows, columns and depths, outermost first.

    Where rows of the results are reduced, the columns are what is reduced, and no others.
    """

    statement: str
    rows: tuple[Iterator, ...]
    columns: tuple[Iterator, ...]
    depth: tuple[Iterator, ...]
    factors: tuple[Access, Access]
    """What is read of the first and of the second operand."""


def sides_of(program: TensorProgram) -> Sides | None:
    """The sides of a program's contraction; None where it has none of two plain factors."""
    anchor = next((s for s in program.statements if is_contraction(s)), None)
    if anchor is None:
        return None
    whole = reduced_columns(program.statements, anchor)
    first, second = (_moving(anchor, list(accesses(factor))) for factor in factors_of(anchor, whole))
    if first is None or second is None:
        return None
    used = [{name for index in access.indices for name in index.iterators()} for access in (first, second)]
    rows = tuple(i for i in anchor.parallel if i.name in used[0] and i.name not in used[1])
    wide = tuple(i for i in anchor.parallel if i.name in used[1] and i.name not in used[0])
    columns = tuple(i for i in wide if i.name in whole) or wide
    return Sides(anchor.name, rows, columns, anchor.reduced, (first, second)) if rows and columns else None


def _moving(anchor: Statement, read: list[Access]) -> Access | None:
    """The one access of a factor that moves with the loops."""
    found = [access for access in dict.fromkeys(read) if any(index.iterators() for index in access.indices)]
    return found[0] if len(found) == 1 else None


def contraction_of(program: TensorProgram, tile: TileProgram) -> Contraction | None:
    """What a kernel multiplies; None for a kernel that is no tiled contraction."""
    if config_of_tile(tile) is None or sides_of(program) is None:
        return None
    return contraction_before(program, INTRINSICS.get(tile.intrinsic))


def contraction_before(program: TensorProgram, intrinsic: Intrinsic | None) -> Contraction:
    """What a kernel of a program multiplies with an instruction, on CUDA cores without one.

    The program has a contraction of two plain factors.
    """
    sides = sides_of(program)
    assert sides is not None, program.name
    anchor = program.statement(sides.statement)
    m, n, k = (math.prod(i.extent for i in side) for side in (sides.rows, sides.columns, sides.depth))
    count = math.prod(i.extent for i in anchor.parallel)
    batch = count // (m * n)
    results = sum(program.arrays[name].elements * DTYPES[program.arrays[name].dtype] for name in program.outputs)
    flops, special = flop_counts(program)
    arrays = [program.arrays[access.array] for access in sides.factors]
    first, second = (max(reach.along_side, reach.along_depth) for reach in reaches(program, sides))
    return Contraction(
        m=m,
        n=n,
        k=k,
        batch=batch,
        element_bytes=DTYPES[arrays[0].dtype],
        result_bytes=-(-results // count),
        unit=intrinsic.dtype if intrinsic else "",
        instruction=(intrinsic.m, intrinsic.n, intrinsic.k) if intrinsic else CORE,
        distinct=(
            min(1.0, arrays[0].elements / (m * k * batch)),
            min(1.0, arrays[1].elements / (n * k * batch)),
        ),
        widths=(first, second),
        finish=(max(0, flops - 2 * count * k) / count, special / count),
        has_whole_rows=bool(reduced_columns(program.statements, anchor)),
    )


def reaches(program: TensorProgram, sides: Sides) -> tuple[Reach, Reach]:
    """What memory allows of the copies of both operands."""
    depth, extents = [i.name for i in sides.depth], program.statement(sides.statement).extents
    first, second = (
        reach_of(access, program.arrays, [i.name for i in side], depth, extents)
        for access, side in zip(sides.factors, (sides.rows, sides.columns), strict=True)
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
