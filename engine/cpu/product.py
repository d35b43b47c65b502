"""Which statements of a group are a product of two matrices, and which of its loops are rows, columns and depths."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.cpu.instructions import CpuInstruction, choose_instruction, is_shifted
from engine.cpu.staging import StagedSide, stage_side
from engine.fusion.row_sides import factors_of
from engine.fusion.shape import is_contraction
from engine.kernels.loop_nest import loop_nest, without_loops
from engine.scheduling.nodes import ScheduleTree
from engine.scheduling.tiling import fold_tiles
from engine.support.errors import Unsupported
from engine.target.cpu import CpuTarget
from engine.tensor.index import Index, linear
from engine.tensor.nodes import Access, Apply, Iterator, Scalar, Statement, TensorProgram, accesses
from engine.tensor.rewrite import plain_iterator
from engine.tensorize.bind import axes_of_contraction, multiplied_dtype

LATENCY, PIPES, LOADS = 4, 2, 1.8
"""Clocks of a fused multiply-add; how many begin in a clock, and how many loads of rows and columns beside them
(measured on Zen 5, as those below: tiles of 15 x 1 vectors reach 0.9 of the rate of 13 x 2)."""
PACKING, RUN, STAGING, COPYING = 0.9, 12, 0.4, 0.2
"""Clocks of a word that is packed, of those of neighbours that are a tile's together, at least, and the parts of the
first that a word takes to be staged, or copied with its neighbours."""
LONG = 16
"""Words of a row that are neighbours, at least, for rows to be copied as they lie."""
PHASE = 1.0
"""Clocks of finding a word among the phases of a stride."""
SCATTERED, TURNING = 20.0, 3.0
"""Clocks of storing the lanes of a vector one by one, and of a vector's part in turning a tile around."""


@dataclass(frozen=True, slots=True)
class ProductSide:
    """One factor: its loops, and what is multiplied."""

    loops: tuple[Iterator, ...]
    """Its own, outermost first: rows or columns."""
    factor: Scalar
    dtype: str
    """Before the conversion to the type of the sums."""
    is_constant: bool
    """Whether the graph fixes all that it reads."""
    staging: StagedSide | None = None
    """How it is copied once for all tiles; None where it is not."""

    @property
    def count(self) -> int:
        """Rows or columns that tiles have, those that staging puts between others included."""
        return self.staging.count if self.staging else self.size

    @property
    def size(self) -> int:
        """Rows or columns."""
        return math.prod(i.extent for i in self.loops)


@dataclass(frozen=True, slots=True)
class CpuProduct:
    """A product with the statements that use its sums."""

    program: TensorProgram
    anchor: Statement
    after: tuple[Statement, ...]
    batch: tuple[Iterator, ...]
    rows: ProductSide
    """Each element of this side is multiplied with vectors of the other."""
    columns: ProductSide
    """Lanes of vectors are neighbours of this side."""
    depth: tuple[Iterator, ...]
    """The last one is what an instruction's step takes several of."""
    instruction: CpuInstruction
    iterators: Mapping[str, Mapping[str, str]]
    """Statement -> its iterators -> those of the product."""
    is_turned: bool
    """Whether the lanes that follow the sums walk rows, as these are neighbours in memory and columns are not."""

    @property
    def name(self) -> str:
        """Of the mapping: the instruction, the loop that lanes walk, and what is staged."""
        staged = [side.loops[-1].name for side in (self.rows, self.columns) if side.staging]
        return "/".join([self.instruction.name, self.columns.loops[-1].name, *(f"staged_{name}" for name in staged)])

    @property
    def words(self) -> int:
        """Words of one row or column: those of the last loop of the depth are filled up."""
        *outer, last = self.depth
        return math.prod(i.extent for i in outer) * -(-last.extent // self.instruction.depth)


def match_products(program: TensorProgram, tree: ScheduleTree, machine: CpuTarget) -> Sequence[CpuProduct]:
    """The mappings of a group's product under a schedule, the best first; Unsupported where there is no product that
    tiles can make."""
    nest = loop_nest(program, fold_tiles(tree))
    anchor = next((s for s in nest.statements if is_contraction(s)), None)
    if anchor is None:
        raise _misfit(program, "no statement is a product of two factors with dimensions of their own")
    first, *rest = nest.phases
    after = tuple(s for phase in rest for s in phase.statements)
    if first.statements != (anchor,) or {plain_iterator(m.rows[anchor.name]) for m in first.members} != {
        i.name for i in anchor.reduced
    }:
        raise _misfit(program, f"other statements share the loops that {anchor.name} sums over")
    without_loops(nest, after)
    if any(s.reduction for s in after) or anchor.guards or any(s.guards for s in after):
        raise _misfit(program, "its results are reduced, or are a part of an array")
    if {plain_iterator(m.rows[anchor.name]) for m in nest.outer} != {i.name for i in anchor.parallel if i.extent > 1}:
        raise _misfit(program, "not all of its loops are around the sum")
    iterators = {
        s.name: {str(plain_iterator(m.rows[s.name])): str(plain_iterator(m.rows[anchor.name])) for m in nest.outer}
        for s in (anchor, *after)
    }
    expression = anchor.expression
    if not isinstance(expression, Apply) or expression.function != "mul":
        raise _misfit(program, "its terms are rounded before they are summed")
    if any(index.is_indirect for access in anchor.reads() for index in access.indices):
        raise _misfit(program, "a factor is looked up")
    return _sides(program, anchor, after, iterators, machine)


def _sides(
    program: TensorProgram, anchor: Statement, after: tuple[Statement, ...],
    iterators: Mapping[str, Mapping[str, str]], machine: CpuTarget,
) -> Sequence[CpuProduct]:  # fmt: skip
    """Its mappings: either side as columns, either of them staged.  The best first."""
    axes, factors = axes_of_contraction(anchor), factors_of(anchor, ())
    assert anchor.reduction is not None
    sums = anchor.reduction.accumulate
    sides = []
    for loops, factor in zip((axes.rows, axes.columns), factors, strict=True):
        read = accesses(factor)
        is_constant = all(a.array in program.constants for a in read)
        sides.append(ProductSide(loops, factor, multiplied_dtype(factor, sums, program.arrays), is_constant))
    found = []
    for rows, columns in (sides, reversed(sides)):
        instruction = choose_instruction(rows.dtype, columns.dtype, sums, machine)
        if instruction is None:
            continue
        step = instruction.depth
        # The loop with least to fill up goes last: an instruction takes several of its values at once.
        depth = sorted(axes.depth, key=lambda i: -(-i.extent // step) * step / i.extent, reverse=True)
        made = tuple(depth) if step > 1 else axes.depth
        plain = CpuProduct(program, anchor, after, axes.batch, rows, columns, made, instruction, iterators, False)
        plain = replace(plain, is_turned=_storing(plain, rows) + TURNING < _storing(plain, columns))
        inside = (*axes.batch, *made)
        # Rows that need no conversion are read in place, and the sums of rows that a shift asks for are of panels.
        is_read = step == 1 and not any(access.guards for access in accesses(rows.factor))
        never = (is_read or is_shifted(instruction, columns.dtype), False)
        staged = [
            None if side.is_constant or is_never
            else stage_side(side.factor, side.loops, inside, program.arrays, step, side is columns)
            for side, is_never in zip((rows, columns), never, strict=True)
        ]  # fmt: skip
        found.append(plain)
        if staged[0] is not None:
            found.append(replace(plain, rows=replace(rows, staging=staged[0])))
        if staged[1] is not None:
            found.append(replace(plain, columns=replace(columns, staging=staged[1]), is_turned=False))
    if not found:
        types = " and ".join(side.dtype for side in sides)
        raise _misfit(program, f"no instruction of {machine.name} sums products of {types} in {sums}")
    return sorted(found, key=lambda one: least_clocks(one, machine))


def tile_limits(machine: CpuTarget) -> Sequence[tuple[int, int]]:
    """(rows, vectors) of tiles whose sums, columns and one row fit the registers."""
    return [
        (rows, vectors)
        for vectors, rows in itertools.product((1, 2, 3, 4), range(1, 17))
        if rows * vectors + vectors + 1 <= machine.registers
    ]


def tiles_of(product: CpuProduct, machine: CpuTarget) -> Sequence[tuple[int, int]]:
    """The limits that a product's tiles may have: rows that are staged lie alike in every tile."""
    every, rows = tile_limits(machine), product.rows
    if rows.staging is None:
        return every
    position = rows.staging.position({i.name: i.extent for i in (*product.batch, *product.depth)})
    return [tile for tile in every if row_places(rows, position, tile[0]) is not None]


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """Where the rows of a tile lie: row r at r / run * jump + r % run * step, from the first one on."""

    run: int
    step: int
    jump: int


def row_places(side: ProductSide, position: Index, rows: int) -> RowPlaces | None:
    """The same for all tiles of so many rows; None where they differ.  position: of a row's word in memory."""
    joined: list[list[int]] = []  # extents and steps of loops, innermost first
    for loop in reversed(side.loops):
        step = position.coefficient(loop.name)
        if joined and step == joined[-1][0] * joined[-1][1]:
            joined[-1][0] *= loop.extent
        else:
            joined.append([loop.extent, step])
    (run, step), *outer = joined
    if not outer or run % rows == 0:
        return RowPlaces(rows, step, 0)
    groups = rows // run
    is_alike = rows % run == 0 and (len(outer) == 1 or outer[0][0] % groups == 0)
    return RowPlaces(run, step, outer[0][1]) if is_alike else None


def least_clocks(product: CpuProduct, machine: CpuTarget) -> float:
    """Clocks of all tiles of the best shape, and of what is stored of them."""
    batches = math.prod(i.extent for i in product.batch)
    tiles = min(
        tile_clocks(product, tile, machine) * product.words * batches + bringing_clocks(product, tile, machine)
        for tile in tiles_of(product, machine)
    )
    lanes = product.rows if product.is_turned else product.columns
    storing = _storing(product, lanes) + TURNING * product.is_turned
    return tiles + storing * product.rows.size * product.columns.size * batches / machine.lanes


def bringing_clocks(product: CpuProduct, tile: tuple[int, int], machine: CpuTarget) -> float:
    """Clocks of bringing factors to panels of tiles of (rows, vectors), or of staging."""
    batches, each = math.prod(i.extent for i in product.batch), (1 + product.instruction.depth) / 2
    total = 0.0
    for side, width in ((product.rows, tile[0]), (product.columns, tile[1] * machine.lanes)):
        if side.staging is not None:
            total += side.staging.words * each * PACKING * STAGING
        elif not side.is_constant and not _is_plain(product, side, tile[0]):
            is_copied = side is product.rows and is_along_depth(product)
            word = PACKING * COPYING if is_copied else max(PACKING, RUN / width)
            total += batches * product.words * side.size * each * word
    return total


def is_along_depth(product: CpuProduct) -> bool:
    """Whether neighbours of the depth are neighbours in the array of the rows, which are then packed as they lie."""
    factor, last = product.rows.factor, product.depth[-1]
    if product.instruction.depth > 1 or not isinstance(factor, Access) or last.extent < LONG:
        return False
    array = product.program.arrays[factor.array]
    is_guarded = any(last.name in guard.index.iterators() for guard in factor.guards)
    step = linear(factor.indices, array.shape).coefficient(last.name)
    return array.dtype == "float32" and not is_guarded and step == 1


def _is_plain(product: CpuProduct, side: ProductSide, rows: int) -> bool:
    """Whether a factor's elements are words as they lie in their array: rows alike in all tiles, columns neighbours."""
    if product.instruction.depth > 1 or not isinstance(side.factor, Access) or side.factor.guards:
        return False
    position = linear(side.factor.indices, product.program.arrays[side.factor.array].shape)
    if side is product.rows:
        return row_places(side, position, rows) is not None
    return position.coefficient(side.loops[-1].name) == 1


def tile_clocks(product: CpuProduct, tile: tuple[int, int], machine: CpuTarget) -> float:
    """Clocks of one word of the depth of all tiles: those at the edges are as small as what is left."""
    m, n, (rows, width) = product.rows.count, product.columns.count, (tile[0], tile[1] * machine.lanes)
    place = PHASE if product.columns.staging and product.columns.staging.phases else 0.0
    heights = ((rows, m // rows), (m % rows, 1))
    widths = ((tile[1], n // width), (-(-(n % width) // machine.lanes), 1))
    return sum(
        a * b * (max(LATENCY, h * w / PIPES, (h + w) / LOADS) + place)
        for h, a in heights for w, b in widths if h and w
    )  # fmt: skip


def _storing(product: CpuProduct, lanes: ProductSide) -> float:
    """Clocks of a vector's loads and stores after the sums, whose lanes walk a side: few where it is neighbours."""
    last = lanes.loops[-1].name
    total = 0.0
    for statement in (product.anchor, *product.after):
        names = {own for own, other in product.iterators[statement.name].items() if other == last}
        reads = () if statement is product.anchor else statement.reads()
        for access in (*reads, statement.write):
            array = product.program.arrays[access.array]
            if access.array in product.program.inputs or access.array in product.program.outputs:
                steps = {linear(access.indices, array.shape).coefficient(name) for name in names}
                total += SCATTERED if steps - {0, 1} else 1.0
    return total


def _misfit(program: TensorProgram, reason: str) -> Unsupported:
    return Unsupported("codegen", f"schedule of {program.name}", reason, "the general family follows it")
