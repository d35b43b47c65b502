"""Which iterators of a contraction are the m, n and k of a matrix product, and whether an instruction multiplies it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from engine.fusion.row_sides import factors_of
from engine.fusion.shape import is_contraction, is_of_codes, product_operands
from engine.tensor.nodes import (
    Access,
    Apply,
    Array,
    Iterator,
    Scalar,
    Statement,
    TensorProgram,
    accesses,
    iterators_of,
)
from engine.tensor.padding import adds_nothing
from engine.tensor.shifted_exponentials import match_weighted
from engine.tensor.traffic import flops_of
from engine.tensorize.nodes import Intrinsic

ROUNDED = "products are rounded before they are summed, the instruction sums them as they are"


@dataclass(frozen=True, slots=True)
class GemmAxes:
    """A contraction as batches of an m x n x k product: its iterators on each axis, outermost first."""

    statement: Statement
    batch: tuple[Iterator, ...]
    rows: tuple[Iterator, ...]
    """Only the first factor moves with these: m."""
    columns: tuple[Iterator, ...]
    """Only the second factor moves with these: n.  Where rows of the results are reduced, those that are reduced."""
    depth: tuple[Iterator, ...]
    """The reduced ones: k."""
    factors: tuple[Access, Access]
    """What is read of the first and of the second operand; of one of codes, the codes."""
    expressions: tuple[Scalar, Scalar]
    """The operands as they are computed."""
    has_whole_rows: bool
    """Whether a block has all columns, because rows of the results are reduced."""
    sibling: Statement | None = None
    """Another product of the same first factor with the same loops, whose columns stand beside these in each tile."""
    around: tuple[Iterator, ...] = ()
    """Reduced ones that are loops around the depth, whose sums all go to one tile."""
    outer: tuple[str, ...] = ()
    """Names of those that an axis could take and does not: some of the batch, and all around the depth."""

    @property
    def siblings(self) -> int:
        """Products that share the main loop."""
        return 1 if self.sibling is None else 2

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(m, n, k) of one batch, the columns of siblings together."""
        m, n, k = (math.prod(i.extent for i in side) for side in (self.rows, self.columns, self.depth))
        return m, n * self.siblings, k

    @property
    def batches(self) -> int:
        """Products of that size, each summed over all rounds."""
        return math.prod(i.extent for i in self.batch)

    @property
    def rounds(self) -> int:
        """Times that the depth is walked for one tile."""
        return math.prod(i.extent for i in self.around)

    def has(self, rows: Sequence[Iterator], columns: Sequence[Iterator], depth: Sequence[Iterator]) -> bool:
        """Whether these are the iterators of the axes, or the factors exchanged: the same tiles, transposed."""
        mine = (self.rows, self.columns, self.depth)
        return mine in ((tuple(rows), tuple(columns), tuple(depth)), (tuple(columns), tuple(rows), tuple(depth)))

    def padding(self, tile: tuple[int, int, int]) -> float:
        """Part of the multiplications that only fill whole tiles of m x n x k, 0..1."""
        done = math.prod(-(-size // t) * t for size, t in zip(self.sizes, tile, strict=True))
        return 1 - math.prod(self.sizes) / done

    def __str__(self) -> str:
        sides = zip("mnk", (self.rows, self.columns, self.depth), strict=True)
        return ", ".join(f"{name} = {' '.join(i.name for i in side)}" for name, side in sides)


def axes_of_contraction(
    statement: Statement, reduced_columns: Collection[str] = (), outer: Collection[str] = ()
) -> GemmAxes:
    """The axes of a contraction.

    reduced_columns: iterators that reductions of its results walk in the same kernel.  outer: those that are loops
    around the tiles, although they could be on an axis; a kernel has one or more on each.
    """
    factors = factors_of(statement, reduced_columns)
    first, second = map(element_access, factors)
    used = [iterators_of(factor) for factor in factors]
    rows = tuple(i for i in statement.parallel if i.name in used[0] - used[1])
    columns = tuple(i for i in statement.parallel if i.name in used[1] - used[0])
    columns = tuple(i for i in columns if i.name in reduced_columns) or columns
    left_out = tuple(i for i in (*rows, *columns, *statement.reduced) if i.name in outer)
    rows, columns, depth = (
        tuple(i for i in side if i not in left_out) for side in (rows, columns, statement.reduced)
    )
    batch = tuple(i for i in statement.parallel if i not in rows and i not in columns)
    around = tuple(i for i in statement.reduced if i in left_out)
    return GemmAxes(
        statement, batch, rows, columns, depth, (first, second), factors, bool(reduced_columns), around=around,
        outer=tuple(i.name for i in left_out),
    )  # fmt: skip


def element_access(factor: Scalar) -> Access:
    """The element that a factor stands for: of one of codes, what most iterators move, codes before their scales."""
    read = accesses(factor)
    if is_of_codes(factor):
        return max(read, key=lambda access: len(iterators_of(access)))
    return read[-1]  # an access comes after the look-ups inside its indices


def contraction_misfit(statement: Statement, arrays: Mapping[str, Array], intrinsic: Intrinsic) -> str:
    """Why an instruction does not compute a statement; "" where it does."""
    factors = product_operands(statement.expression)
    if factors is None or not is_contraction(statement):
        return "the statement is no sum of products of two arrays, each with an iterator of its own"
    if not _is_product(statement):
        return ROUNDED
    assert statement.reduction is not None
    if statement.reduction.accumulate != intrinsic.held:
        return f"sums are held in {statement.reduction.accumulate}, the instruction sums in {intrinsic.held}"
    if not adds_nothing(statement):
        return "the zeros that fill ragged tiles would count: the product of the factors is not 0 where both read 0"
    operands = zip(factors, (intrinsic.a.dtype, intrinsic.b.dtype), strict=True)
    return next(filter(None, (_factor_misfit(factor, arrays, dtype, intrinsic.held) for factor, dtype in operands)), "")


def attention_misfit(scores: Statement, values: Statement, program: TensorProgram, intrinsic: Intrinsic) -> str:
    """Why an instruction does not multiply both products of an attention after its online rewrite; "" where it does.

    Weights become operands in the registers that hold them: as the instruction's elements, which they are rounded to.
    """
    term = match_weighted(values.expression)
    if term is None or term.factor is None:
        return "the weighted sum is not in its online form"
    return pair_misfit(scores, term.factor, term.rounded or "float32", program, intrinsic)


def pair_misfit(
    scores: Statement, value_factor: Scalar, held_as: str, program: TensorProgram, intrinsic: Intrinsic
) -> str:
    """Why an instruction does not multiply two products, the second of which weighs with what is made of the results of
    the first; "" where it does.

    value_factor: of the second product beside the weights.  held_as: type of the weights.
    """
    factors = product_operands(scores.expression)
    if factors is None:
        return "the scores are no sum of products"
    if held_as != intrinsic.dtype:
        return f"weights are {held_as}, the instruction takes {intrinsic.dtype}"
    if not _is_product(scores):
        return ROUNDED
    for factor in (*factors, value_factor):
        held = {program.arrays[access.array].dtype for access in accesses(factor)}
        if held | {multiplied_dtype(factor, "float32", program.arrays)} != {intrinsic.dtype}:
            return f"a factor is {' and '.join(sorted(held))}, the instruction takes {intrinsic.dtype}"
    return ""


def is_allowed(intrinsic: Intrinsic, numerics: Mapping[str, str]) -> bool:
    """Whether a recipe's numerics let the instruction round what it rounds."""
    return intrinsic.numerics in ("", numerics.get("tensor_cores"))


def prologue(factor: Scalar, held: str) -> Scalar | None:
    """What is computed from a factor's element before it is multiplied; None where that is the element itself.

    held: the type of the sums.  A factor of codes is computed before its elements are in the tile.
    """
    inner = _without_cast_to(factor, held)
    return None if isinstance(inner, Access) or is_of_codes(factor) else inner


def unpacking_flops(axes: GemmAxes) -> tuple[int, int]:
    """Operations on CUDA cores that compute an element of the first and of the second factor from its codes."""
    first, second = (flops_of(factor) if is_of_codes(factor) else 0 for factor in axes.expressions)
    return first, second


def element_of(factor: Scalar, held: str) -> Scalar:
    """An element of a factor of codes as its tile holds it."""
    return _without_cast_to(factor, held)


def multiplied_dtype(factor: Scalar, held: str, arrays: Mapping[str, Array]) -> str:
    """The element type of a factor before its conversion to that of the sums, which an instruction makes by itself."""
    inner = _without_cast_to(factor, held)
    return arrays[inner.array].dtype if isinstance(inner, Access) else inner.dtype


def _without_cast_to(factor: Scalar, dtype: str) -> Scalar:
    is_cast = isinstance(factor, Apply) and factor.function == "cast" and factor.dtype == dtype
    return factor.operands[0] if isinstance(factor, Apply) and is_cast else factor


def _is_product(statement: Statement) -> bool:
    """Whether products are summed as they are: `product_operands` looks through a cast around them."""
    return isinstance(statement.expression, Apply) and statement.expression.function == "mul"


def _factor_misfit(factor: Scalar, arrays: Mapping[str, Array], wanted: str, held: str) -> str:
    """Why an instruction on elements of type `wanted`, whose sums have type `held`, cannot take a factor; "" where it
    can."""
    if is_of_codes(factor):
        dtype = multiplied_dtype(factor, held, arrays)
        return "" if dtype == wanted else f"codes stand for {dtype}, the instruction takes {wanted}"
    read = set(accesses(factor))
    if len(read) != 1:
        return "a factor is not computed from one element of its array"
    (access,) = read
    stored, dtype = arrays[access.array].dtype, multiplied_dtype(factor, held, arrays)
    if {stored, dtype} != {wanted}:
        what = f"{access.array} holds {stored}" if stored == dtype else f"a factor is computed in {dtype} from {stored}"
        return f"{what}, the instruction takes {wanted}"
    if "int" in wanted and prologue(factor, held) is not None:
        return "a factor is computed from its codes, the instruction takes them as they are"
    return ""
