"""Which iterators of a contraction are the m, n and k of an instruction, and what padding them costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.fusion.shape import is_contraction, product_operands
from engine.tensor.nodes import Access, Apply, Array, Iterator, Scalar, Statement, accesses
from engine.tensor.padding import adds_nothing
from engine.tensorize.nodes import Intrinsic


@dataclass(frozen=True, slots=True)
class Binding:
    """A contraction as batches of an m x n x k product."""

    batch: tuple[Iterator, ...]
    rows: tuple[Iterator, ...]
    """Only the first factor moves with these: m."""
    columns: tuple[Iterator, ...]
    """Only the second factor moves with these: n."""
    depth: tuple[Iterator, ...]
    """The reduced ones: k."""
    has_whole_rows: bool = False
    """Whether a block has all columns, because rows of the results are reduced."""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(m, n, k) of one batch."""
        m, n, k = (math.prod(i.extent for i in side) for side in (self.rows, self.columns, self.depth))
        return m, n, k

    @property
    def batches(self) -> int:
        """Products of that size."""
        return math.prod(i.extent for i in self.batch)

    def padding(self, tile: tuple[int, int, int]) -> float:
        """Part of the multiplications that only fill whole tiles of m x n x k, 0..1."""
        needed = math.prod(self.sizes)
        done = math.prod(-(-size // t) * t for size, t in zip(self.sizes, tile, strict=True))
        return 1 - needed / done

    def __str__(self) -> str:
        sides = zip("mnk", (self.rows, self.columns, self.depth), strict=True)
        return ", ".join(f"{name} = {' '.join(i.name for i in side)}" for name, side in sides)


def bind(statement: Statement, arrays: Mapping[str, Array], intrinsic: Intrinsic) -> Binding | str:
    """The binding of a contraction's iterators, or why the instruction does not compute it."""
    factors = product_operands(statement.expression)
    if factors is None or not is_contraction(statement):
        return "the statement is no sum of products of two arrays, each with an iterator of its own"
    if not isinstance(statement.expression, Apply) or statement.expression.function != "mul":
        return "products are rounded before they are summed, the instruction sums them as they are"
    assert statement.reduction is not None
    if statement.reduction.accumulate != "float32":
        return f"sums are held in {statement.reduction.accumulate}, the instruction sums in float32"
    if not adds_nothing(statement):
        return "the zeros that fill ragged tiles would count: the product of the factors is not 0 where both read 0"
    for factor in factors:
        reason = _misfit(_uncast(factor), arrays, intrinsic)
        if reason:
            return reason
    first, second = (next(iter(accesses(factor))) for factor in factors)
    return _sides(statement, first, second)


def is_allowed(intrinsic: Intrinsic, numerics: Mapping[str, str]) -> bool:
    """Whether a recipe's numerics let the instruction round what it rounds."""
    return intrinsic.numerics in ("", numerics.get("tensor_cores"))


def prologue(factor: Scalar) -> Scalar | None:
    """What is computed from a factor's element before it is multiplied; None where that is the element itself."""
    inner = _uncast(factor)
    return None if isinstance(inner, Access) else inner


def _uncast(factor: Scalar) -> Scalar:
    """The factor before its conversion to float32, which the instruction makes by itself."""
    is_widened = isinstance(factor, Apply) and factor.function == "cast" and factor.dtype == "float32"
    return factor.operands[0] if isinstance(factor, Apply) and is_widened else factor


def _misfit(factor: Scalar, arrays: Mapping[str, Array], intrinsic: Intrinsic) -> str:
    """Why the instruction cannot take a factor; "" where it can."""
    read = set(accesses(factor))
    if len(read) != 1 or any(access.guards for access in read):
        return "a factor is not computed from one element of its array"
    (access,) = read
    held = arrays[access.array].dtype
    dtype = held if isinstance(factor, Access) else factor.dtype if isinstance(factor, Apply) else ""
    if {held, dtype} != {intrinsic.dtype}:
        what = f"{access.array} holds {held}" if held == dtype else f"a factor is computed in {dtype} from {held}"
        return f"{what}, the instruction takes {intrinsic.dtype}"
    return ""


def _sides(statement: Statement, first: Access, second: Access) -> Binding:
    used = [{name for index in access.indices for name in index.iterators()} for access in (first, second)]
    rows = tuple(i for i in statement.parallel if i.name in used[0] and i.name not in used[1])
    columns = tuple(i for i in statement.parallel if i.name in used[1] and i.name not in used[0])
    batch = tuple(i for i in statement.parallel if i not in rows and i not in columns)
    return Binding(batch, rows, columns, statement.reduced)
