"""The contraction inside a compiled kernel, and the knobs that the kernel stands at."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from engine.cost.alcop import promised
from engine.cost.alcop_nodes import Contraction
from engine.cost.alcop_work import alcop_work_of_config, main_loop
from engine.cost.nodes import Work
from engine.fusion.row_sides import factors_of, reduced_columns
from engine.fusion.shape import is_contraction
from engine.graph.nodes import DTYPES
from engine.target import Target
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.access import contiguous_along, position
from engine.tensor.nodes import Access, Iterator, Statement, TensorProgram, accesses
from engine.tensor.traffic import flop_counts
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Intrinsic
from engine.tensorize.space import GemmConfig
from engine.tile.nodes import TileProgram, operations

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


def contraction_of(program: TensorProgram, tile: TileProgram, facts: Work) -> Contraction | None:
    """What a kernel multiplies; None for a kernel that is no tiled contraction."""
    sides, sizes = sides_of(program), tile.constants
    if sides is None or not {"ROWS", "COLUMNS", "DEPTH", "TILE_DEPTH"} <= sizes.keys():
        return None
    m, n, k = sizes["ROWS"], sizes["COLUMNS"], sizes["DEPTH"]
    anchor = program.statement(sides.statement)
    batch = max(1, math.prod(i.extent for i in anchor.parallel) // (m * n))
    intrinsic = INTRINSICS.get(tile.intrinsic)
    results = sum(program.arrays[name].elements * DTYPES[program.arrays[name].dtype] for name in program.outputs)
    arrays = [program.arrays[access.array] for access in sides.factors]
    elements = (m * k * batch, n * k * batch)
    count = m * n * batch
    after = facts.flops if intrinsic else max(0, facts.flops - 2 * count * k)
    return Contraction(
        m=m,
        n=n,
        k=k,
        batch=batch,
        element_bytes=DTYPES[arrays[0].dtype],
        result_bytes=-(-results // count),
        unit=intrinsic.dtype if intrinsic else "",
        instruction=(intrinsic.m, intrinsic.n, intrinsic.k) if intrinsic else CORE,
        distinct=(min(1.0, arrays[0].elements / elements[0]), min(1.0, arrays[1].elements / elements[1])),
        widths=(_width(tile, arrays[0].name), _width(tile, arrays[1].name)),
        finish=(after / count, facts.special / count),
        has_whole_rows=bool(reduced_columns(program.statements, anchor)),
    )


def promise_of(machine: Target, program: TensorProgram, intrinsic: Intrinsic | None) -> Callable[[GemmConfig], float]:
    """The modelled microseconds of a program's kernels by their knobs, on tensor cores or (None) without them.

    The program has a contraction of two plain factors.
    """
    contraction = contraction_before(program, intrinsic)
    return lambda knobs: promised(alcop_work_of_config(contraction, knobs), machine)


def contraction_before(program: TensorProgram, intrinsic: Intrinsic | None) -> Contraction:
    """What a kernel would multiply with an instruction, before there is one; as `contraction_of` tells afterwards."""
    sides = sides_of(program)
    assert sides is not None, program.name
    anchor = program.statement(sides.statement)
    m, n, k = (math.prod(i.extent for i in side) for side in (sides.rows, sides.columns, sides.depth))
    count = math.prod(i.extent for i in anchor.parallel)
    batch = count // (m * n)
    results = sum(program.arrays[name].elements * DTYPES[program.arrays[name].dtype] for name in program.outputs)
    flops, special = flop_counts(program)
    arrays = [program.arrays[access.array] for access in sides.factors]
    first, second = (
        _copied(program, anchor, access, side, sides.depth)
        for access, side in zip(sides.factors, (sides.rows, sides.columns), strict=True)
    )
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


def _copied(
    program: TensorProgram, anchor: Statement, access: Access, *sides: tuple[Iterator, ...]
) -> int:
    """Neighbouring elements of an operand, along one of its sides, that one copy may move."""
    where, width = position(access, program.arrays), VECTOR_BYTES // DTYPES[program.arrays[access.array].dtype]
    runs = [[i.name for i in side] for side in sides]
    while width > 1 and not any(contiguous_along(where, run, width, anchor.extents) for run in runs):
        width //= 2
    return width


def _width(tile: TileProgram, array: str) -> int:
    """Elements that one copy of an operand moves in the main loop."""
    loop = main_loop(tile.body)
    regions = (region for op in operations(loop.body if loop else ()) for region in op.regions_read)
    return next((region.width for region in regions if region.buffer == array), 1)


def config_of_tile(tile: TileProgram) -> GemmConfig | None:
    """Where a kernel of a tiled contraction stands; None for other kernels."""
    sizes = tile.constants
    if not {"TILE_ROWS", "TILE_COLUMNS", "TILE_DEPTH"} <= sizes.keys():
        return None
    block = (sizes["TILE_ROWS"], sizes["TILE_COLUMNS"], sizes["TILE_DEPTH"])
    if tile.intrinsic:
        part = (sizes["WARP_ROWS"], sizes["WARP_COLUMNS"])
    else:
        rows, columns = tile.buffers["acc"].shape
        part = (rows, columns)
    return GemmConfig(block, part, tile.stages, tile.register_stages, sizes.get("SLICES", 1), tile.team)
