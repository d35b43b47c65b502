"""A sum of products as the matching of intrinsics sees it: iterators, and the indices of each operand.

    conv       y[n,k,p,q]  = sum(c,r,s) x[n, c, p + r, q + s] * w[k, c, r, s]
    mean       y[i]        = sum(j)     x[i, j] * ones[j]
    running    y[i, j]     = sum(r)     x[i, r] * band[r, j]

A sum of one factor is the product with a constant matrix of ones; where the factor is read along a diagonal, as in
running sums and pooling, the matrix holds 1 in a band and 0 elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.fusion.axis_splitting import inner_of, outer_of
from engine.fusion.shape import is_of_codes, product_operands
from engine.tensor.index import Index, Quotient, Remainder
from engine.tensor.nodes import (
    Access,
    Apply,
    Array,
    Iterator,
    Position,
    Scalar,
    Statement,
    accesses,
    iterators_of,
)
from engine.tensor.padding import adds_nothing
from engine.tensor.rewrite import plain_iterator
from engine.tensorize.bind import element_access, multiplied_dtype

ONES, BAND = "ones", "band"
"""Constant factors that no array holds."""


@dataclass(frozen=True, slots=True)
class ProductOperand:
    """One array of a product, and where it is read or written."""

    array: str
    dtype: str
    """Of an element as it is multiplied; of the result the type that sums are held in."""
    indices: tuple[Index, ...]

    @property
    def iterators(self) -> frozenset[str]:
        """Those that move it."""
        return frozenset(name for index in self.indices for name in index.iterators())

    def __str__(self) -> str:
        return f"{self.array}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True, slots=True)
class ProductForm:
    """result = sum over the reduced iterators of the product of the factors."""

    iterators: tuple[Iterator, ...]
    reduced: frozenset[str]
    factors: tuple[ProductOperand, ...]
    result: ProductOperand
    splits: tuple[tuple[str, int], ...] = ()
    """Iterators that stand as two, NAME.outer and NAME.inner, and points of the inner one: groups of channels."""
    because: str = ""
    """How a statement that is written otherwise came to be one; "" where it is written as a product."""

    @property
    def operands(self) -> tuple[ProductOperand, ...]:
        """Factors first, the result last: the rows of access matrices."""
        return (*self.factors, self.result)

    @property
    def multiplications(self) -> int:
        """That the sum needs."""
        return math.prod(i.extent for i in self.iterators)

    def iterator(self, name: str) -> Iterator:
        """The iterator of this name; KeyError where there is none."""
        return {i.name: i for i in self.iterators}[name]

    def __str__(self) -> str:
        summed = ", ".join(i.name for i in self.iterators if i.name in self.reduced)
        return f"{self.result} = sum({summed}) {' * '.join(map(str, self.factors))}"


def products(statement: Statement, arrays: Mapping[str, Array]) -> tuple[ProductForm, ...] | str:
    """The ways in which a statement is a sum of products, as written first; or why it is none."""
    if statement.reduction is None or statement.reduction.operation != "sum":
        return "the statement is no sum"
    if statement.guards:
        return "only a part of the result is written"
    written = _explicit_product(statement, arrays)
    if isinstance(written, str):
        return written
    if written is not None and written.factors[0].iterators != written.factors[1].iterators:
        return (written,)
    summed = _sum_as_product(statement, arrays)
    return (summed,) if written is None else (written, summed)


def meaning(statement: Statement, arrays: Mapping[str, str]) -> ProductForm:
    """An intrinsic's own statement as a product.  arrays: element type of each of its factors.

    Raises ValueError for a statement that is no product: a row of the table is wrong.
    """
    typed = {name: Array(name, (), dtype) for name, dtype in arrays.items()}
    found = _explicit_product(statement, typed)
    if not isinstance(found, ProductForm):
        raise ValueError(f"{statement.name} of an intrinsic is no sum of products")
    return found


def _explicit_product(statement: Statement, arrays: Mapping[str, Array]) -> ProductForm | str | None:
    """The product of two factors that the statement sums; None where it sums something else."""
    assert statement.reduction is not None
    factors = product_operands(statement.expression)
    if factors is None or any(len(set(accesses(f))) != 1 and not is_of_codes(f) for f in factors):
        return None
    if not isinstance(statement.expression, Apply) or statement.expression.function != "mul":
        return "products are rounded before they are summed, an intrinsic sums them as they are"
    if not adds_nothing(statement):
        return "the zeros that fill ragged tiles would count: the product of the factors is not 0 where both read 0"
    read = [_read_element(factor, statement) for factor in factors]
    if any(_asks_position(factor) and not is_of_codes(factor) for factor in factors):
        return None
    held = statement.reduction.accumulate
    operands = tuple(
        ProductOperand(access.array, multiplied_dtype(factor, held, arrays), access.indices)
        for factor, access in zip(factors, read, strict=True)
    )
    result = ProductOperand(statement.write.array, held, statement.write.indices)
    found = ProductForm(statement.iterators, frozenset(statement.reduction.iterators), operands, result)
    return _with_splits(found)


def _read_element(factor: Scalar, statement: Statement) -> Access:
    """The element that a factor is; of one of codes, that which they stand for, however they are packed."""
    found = element_access(factor)
    if not is_of_codes(factor):
        return found
    moved = iterators_of(factor)
    return replace(found, indices=tuple(Index.of(i.name) for i in statement.iterators if i.name in moved))


def _sum_as_product(statement: Statement, arrays: Mapping[str, Array]) -> ProductForm:
    """The sum of one factor as a product with ones."""
    assert statement.reduction is not None
    held = statement.reduction.accumulate
    reduced = frozenset(statement.reduction.iterators)
    dtype = multiplied_dtype(statement.expression, held, arrays)
    result = ProductOperand(statement.write.array, held, statement.write.indices)
    read = list(dict.fromkeys(accesses(statement.expression)))
    banded = _band_of(statement, read[0], arrays) if len(read) == 1 else None
    if banded is not None:
        access, iterators, summed, band = banded
        factors = (ProductOperand(access.array, dtype, access.indices), ProductOperand(BAND, dtype, band))
        why = "running sums and windows are a product with a constant band of ones"
        return _with_splits(ProductForm(iterators, summed, factors, result, because=why))
    moving = {name for access in read for index in access.indices for name in index.iterators()}
    if _asks_position(statement.expression):
        moving |= statement.extents.keys()
    own = tuple(Index.of(i.name) for i in statement.iterators if i.name in moving | reduced)
    name = " ".join(dict.fromkeys(access.array for access in read)) or "terms"
    ones = tuple(Index.of(i.name) for i in statement.iterators if i.name in reduced)
    factors = (ProductOperand(name, dtype, own), ProductOperand(ONES, dtype, ones))
    because = "a sum is the product with a column of ones"
    return ProductForm(statement.iterators, reduced, factors, result, because=because)


_Banded = tuple[Access, tuple[Iterator, ...], frozenset[str], tuple[Index, ...]]


def _band_of(statement: Statement, access: Access, arrays: Mapping[str, Array]) -> _Banded | None:
    """The factor read by one new iterator for each index that a reduced one shares; None where no index is shared."""
    assert statement.reduction is not None
    reduced = set(statement.reduction.iterators)
    shared = {
        axis: index
        for axis, index in enumerate(access.indices)
        if reduced & set(index.iterators()) and plain_iterator(index) is None
    }
    if not shared or _asks_position(statement.expression):
        return None
    if access.guards and not _is_zero_outside(statement, access):
        return None
    gone = {name for index in shared.values() for name in index.iterators()}
    kept = {name for axis, i in enumerate(access.indices) if axis not in shared for name in i.iterators()}
    if gone & kept or any(set(guard.index.iterators()) - gone for guard in access.guards):
        return None
    new = {axis: Iterator(f"{access.array}.{axis}", arrays[access.array].shape[axis]) for axis in shared}
    indices = tuple(Index.of(new[a].name) if a in new else index for a, index in enumerate(access.indices))
    left = tuple(i for i in statement.iterators if i.name not in gone & reduced)
    summed = frozenset(i.name for i in new.values()) | (reduced - gone)
    own = [Index.of(i.name) for i in left if i.name in gone or i.name in reduced]
    band = (*(Index.of(i.name) for i in new.values()), *own)
    return Access(access.array, indices), (*left, *new.values()), summed, band


def _is_zero_outside(statement: Statement, access: Access) -> bool:
    """Whether a guarded factor adds nothing where its guards fail."""
    return access.otherwise is not None and access.otherwise.value == 0 and adds_nothing(statement)


def _with_splits(product: ProductForm) -> ProductForm:
    """The product with an iterator cut in two where an index divides it: j becomes j.outer * by + j.inner."""
    cuts = {
        name: by
        for operand in product.operands
        for index in operand.indices
        for name, by in _divisions(index)
        if product.iterator(name).extent % by == 0
    }
    if not cuts:
        return product
    iterators: list[Iterator] = []
    for i in product.iterators:
        by = cuts.get(i.name)
        iterators += map(Iterator, halves(i.name), (i.extent // by, by)) if by else [i]
    extents = {i.name: i.extent for i in iterators}
    values = {name: Index.of(outer_of(name)) * by + Index.of(inner_of(name)) for name, by in cuts.items()}

    def of(operand: ProductOperand) -> ProductOperand:
        return replace(operand, indices=tuple(i.substitute(values, extents) for i in operand.indices))

    summed = {half for name in product.reduced & cuts.keys() for half in halves(name)}
    return replace(
        product,
        iterators=tuple(iterators),
        reduced=frozenset(product.reduced - cuts.keys()) | summed,
        factors=tuple(map(of, product.factors)),
        result=of(product.result),
        splits=tuple(cuts.items()),
    )


def halves(iterator: str) -> tuple[str, str]:
    """The names of the outer and the inner of the two that an iterator is cut in."""
    return outer_of(iterator), inner_of(iterator)


def _divisions(index: Index) -> list[tuple[str, int]]:
    """(iterator, by) of every division or remainder of one bare iterator."""
    found = [(atom.of, atom.by) for atom, _ in index.terms if isinstance(atom, Quotient | Remainder)]
    return [(name, by) for of, by in found if (name := plain_iterator(of)) is not None]


def _asks_position(value: Scalar) -> bool:
    """Whether the value depends on where it stands, and not only on what it reads."""
    return isinstance(value, Position) or (isinstance(value, Apply) and any(map(_asks_position, value.operands)))
