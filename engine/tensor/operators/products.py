"""Sums of products of the elements of two tensors, be they numbers or codes of quantised numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.graph.quantized_weights import CODES
from engine.tensor.build import Domain, StatementBuilder, accumulator, box
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Guard, Literal
from engine.tensor.operators.quantization import Quantization, codes_behind
from engine.tensor.terms import Term, cast, number


@dataclass(frozen=True, slots=True)
class ProductFactor:
    """What a product reads: a tensor, the indices of its element, and what that stands for where it is a code."""

    name: str
    indices: Sequence[Index]
    quantization: Quantization | None = None
    guards: tuple[Guard, ...] = ()
    """Where the element is there."""
    filler: float = 0
    """What stands for it elsewhere."""

    @property
    def iterators(self) -> frozenset[str]:
        """Those that move it."""
        return frozenset(name for index in self.indices for name in index.iterators())

    def read(self, build: StatementBuilder) -> Term:
        """The element."""
        if not self.guards:
            return build.read(self.name, self.indices)
        dtype = build.dtype(self.name)
        filler = number(self.filler, dtype).scalar
        assert isinstance(filler, Literal)
        return Term(Access(self.name, tuple(self.indices), self.guards, filler), dtype)


def multiply_sum(
    build: StatementBuilder,
    target: str,
    space: Domain,
    a: ProductFactor,
    b: ProductFactor,
    because: str = "matrix product",
) -> None:
    """Append `target = sum(A[..] * B[..])` over the box: of codes, where both factors are dequantised ones."""
    a, b = with_codes(build, build.shape(target), space, a, b)
    if a.quantization is not None and b.quantization is not None:
        _multiply_codes(build, target, space, (a, b), because)
        return
    kind = accumulator("sum", build.dtype(a.name))
    left, right = (cast(factor.read(build), kind) for factor in (a, b))
    build.emit(target, space, left * right, reduction="sum", because=because)


def with_codes(
    build: StatementBuilder, shape: Sequence[int], space: Domain, a: ProductFactor, b: ProductFactor
) -> tuple[ProductFactor, ProductFactor]:
    """Both factors as the codes that they are dequantised from, where the product follows from the sum of the products
    of codes; else as they are.  shape: the result's.
    """
    if a.quantization is not None or b.quantization is not None:
        return a, b
    found = [codes_behind(build, factor.name) for factor in (a, b)]
    if found[0] is None or found[1] is None:
        return a, b
    codes = ProductFactor(found[0][0], a.indices, found[0][1]), ProductFactor(found[1][0], b.indices, found[1][1])
    if not _sums_codes(build, shape, space, codes) or _largest_sum(build, space, codes) >= 2**31:
        return a, b
    build.is_particular = True  # it reads what the operators before it read
    return codes


def product_of_codes(
    build: StatementBuilder, target: str, space: Domain, a: ProductFactor, b: ProductFactor, because: str
) -> None:
    """`multiply_sum` of quantised factors without scales; of codes shifted by their zero points where it must be."""
    factors = a, b
    if not _sums_codes(build, build.shape(target), space, factors):
        a, b = (_shift(build, factor, target) for factor in factors)
    multiply_sum(build, target, space, a, b, because)


def with_known_zero(build: StatementBuilder, factor: ProductFactor, target: str) -> ProductFactor:
    """The factor with a zero point that is known now: of codes shifted by it, where it is not."""
    found = factor.quantization
    is_known = found is None or found.is_symmetric(build) or found.known_zero(build) is not None
    return factor if is_known else _shift(build, factor, target)


def _shift(build: StatementBuilder, factor: ProductFactor, target: str) -> ProductFactor:
    """The factor as int32 numbers, its codes from their zero points on."""
    found = factor.quantization
    if found is None or found.is_symmetric(build):
        return factor
    cells = box(build.shape(factor.name))
    shifted = cast(build.read(factor.name, cells.written), "int32") - found.zero_at(build, cells, cells.written)
    name = build.define(target, "shifted", cells, shifted, because="codes from their zero point on")
    return replace(factor, name=name, quantization=replace(found, zero=""), filler=0)


def code_of_zero(build: StatementBuilder, factor: ProductFactor) -> int:
    """What stands for 0 in a factor with a known zero point."""
    found = factor.quantization
    return 0 if found is None or found.is_symmetric(build) else found.known_zero(build) or 0


def _sums_codes(
    build: StatementBuilder, shape: Sequence[int], space: Domain, factors: tuple[ProductFactor, ProductFactor]
) -> bool:
    """Whether scales and zero points stay the same along what is summed, and change along axes of the result."""
    for factor, other in (factors, factors[::-1]):
        found = factor.quantization
        if found is None or found.block or build.dtype(factor.name) not in CODES:
            return False
        if not found.is_single(build) and _result_axis(factor, space, shape) is None:
            return False
        if not found.is_symmetric(build) and _kept_axes(other, space) is None:
            return False
    return True


def _largest_sum(build: StatementBuilder, space: Domain, factors: tuple[ProductFactor, ProductFactor]) -> int:
    """What no sum of codes exceeds on its way, those for zero points included."""
    limits = [np.iinfo(build.dtype(factor.name)) for factor in factors]
    largest = math.prod(max(-int(limit.min), int(limit.max)) for limit in limits)
    shifted = sum(f.quantization is not None and not f.quantization.is_symmetric(build) for f in factors)
    return int(largest << shifted) * math.prod(space.extents[name] for name in space.reduced)


def _multiply_codes(
    build: StatementBuilder, target: str, space: Domain, factors: tuple[ProductFactor, ProductFactor], because: str
) -> None:
    """The product of what codes stand for, from the sum of the products of the codes.

    sum (a - za) sa (b - zb) sb  =  sa sb (sum a b  -  za sum b  -  zb sum a  +  n za zb)
    """
    shape = build.shape(target)
    product = build.temporary(target, "codes", shape, "int32")
    read = factors[0], _with_depths_inside(build, factors[1])
    left, right = (cast(factor.read(build), "int32") for factor in read)
    build.emit(product, space, left * right, reduction="sum", because=f"{because} of codes")
    cells = box(shape)
    total = build.read(product, cells.written)
    shifts = [_parameter(build, factor, space, cells, is_scale=False) for factor in factors]
    for zero, other in zip(shifts, reversed(factors), strict=True):
        if zero is not None:
            total = total - zero * build.broadcast(_sum_of_codes(build, target, space, other), cells)
    if shifts[0] is not None and shifts[1] is not None:
        total = total + shifts[0] * shifts[1] * math.prod(space.extents[name] for name in space.reduced)
    for factor in factors:
        scale = _parameter(build, factor, space, cells, is_scale=True)
        total = total if scale is None else cast(total, "float32") * scale
    build.emit(target, cells, total, because="what the sum of codes stands for")


def _with_depths_inside(build: StatementBuilder, factor: ProductFactor) -> ProductFactor:
    """A weight [K, N] as the constant [N, K], where there is one."""
    name = build.transpose_of(factor.name)
    return factor if name is None else replace(factor, name=name, indices=(factor.indices[1], factor.indices[0]))


def _parameter(
    build: StatementBuilder, factor: ProductFactor, space: Domain, cells: Domain, is_scale: bool
) -> Term | None:
    """A factor's scale or zero point at an element of the result; None for 1 and for 0."""
    found = factor.quantization
    assert found is not None
    if (is_scale and not found.scale) or (not is_scale and found.is_symmetric(build)):
        return None
    at = [Index()] * len(factor.indices)
    if not found.is_single(build):
        axis = _result_axis(factor, space, cells.shape)
        assert axis is not None
        at[found.axis] = cells.written[axis]
    return found.scale_at(build, cells, at) if is_scale else found.zero_at(build, cells, at)


def _result_axis(factor: ProductFactor, space: Domain, shape: Sequence[int]) -> int | None:
    """The axis of the result whose index is that of the axis along which a factor's scales change."""
    assert factor.quantization is not None
    index = factor.indices[factor.quantization.axis]
    return next((axis for axis, written in enumerate(space.written) if written == index and shape[axis] > 1), None)


def _kept_axes(factor: ProductFactor, space: Domain) -> tuple[bool, ...] | None:
    """Axes of the result that a factor moves with; None where it moves with a part of one."""
    moves = [[name in factor.iterators for name in index.iterators()] for index in space.written]
    return None if any(any(m) and not all(m) for m in moves) else tuple(bool(m) and all(m) for m in moves)


def _sum_of_codes(build: StatementBuilder, target: str, space: Domain, factor: ProductFactor) -> str:
    """An array of a factor's codes summed, which broadcasts to the result."""
    if known := build.sums(factor.name):
        return known
    kept = _kept_axes(factor, space)
    assert kept is not None
    own = replace(
        space,
        written=tuple(index if k else Index() for index, k in zip(space.written, kept, strict=True)),
        iterators=tuple(i for i in space.iterators if i.name in factor.iterators),
        shape=tuple(n if k else 1 for n, k in zip(build.shape(target), kept, strict=True)),
        reduced=tuple(name for name in space.reduced if name in factor.iterators),
    )
    code = cast(factor.read(build), "int32")
    return build.define(target, "sum", own, code, reduction="sum", because="sum of codes, for the other's zero point")
