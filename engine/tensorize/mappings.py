"""Every way to compute an operator by an intrinsic: which iterators make up each of its axes (GTA's first layer).

A match puts one iterator on each axis of the intrinsic, all others at 0, and holds where every operand is then indexed
as the intrinsic's is.  A mapping is what a set of matches puts on each axis together.  Counted so, a matrix product has
1 mapping to a matrix intrinsic, convolutions over 1, 2 and 3 axes have 6, 35 and 180.  The mapping of all iterators is
always tried: it is among those where a batch gives the window a partner, and needs none to be gathered by loads.

A mapping keeps every operand in place where products of binary matrices say so (AMOS, algorithm 1; GTA's first layer).
With X the accesses of the operator (operands x iterators), Y the matching (axes of the intrinsic x iterators) and Z the
accesses of the intrinsic (operands x axes), and * the boolean matrix product:

    valid  iff  Z * Y = X  and  X * Y^T = Z
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.tensor.index import Atom, Index
from engine.tensor.nodes import Iterator
from engine.tensorize.abstractions import Abstraction
from engine.tensorize.product import ProductForm, ProductOperand, halves

MOST_MATCHES = 15
"""Past which only single matches and all of them together are tried (the published limit)."""
UNIT = "unit"
"""Name of an axis of extent 1 that an operator has not, and an intrinsic wants: the columns of a vector."""

Match = tuple[str, ...]
"""An iterator for each axis of the intrinsic."""
Union = tuple[frozenset[str], ...]
"""The iterators on each axis of the intrinsic."""


Matrix = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Matrices:
    """X, Y and Z of one mapping; iterators that stay loops around the intrinsic have no column."""

    software: Matrix
    """X: which iterators move each operand of the operator."""
    matching: Matrix
    """Y: which iterators make up each axis of the intrinsic."""
    intrinsic: Matrix
    """Z: which axes move each operand of the intrinsic."""

    def why_invalid(self) -> str:
        """Which of the two equations fails; "" for a valid mapping."""
        if not np.array_equal(multiply(self.intrinsic, self.matching), self.software):
            return "an operand would not move with all its iterators: Z * Y is not X"
        if not np.array_equal(multiply(self.software, self.matching.T), self.intrinsic):
            return "an axis of the intrinsic would move an operand that it holds still: X * Y^T is not Z"
        return ""


def multiply(a: Matrix, b: Matrix) -> Matrix:
    """The boolean matrix product: "or" over "and"."""
    return np.asarray(a.astype(np.int64) @ b.astype(np.int64) > 0)


def access_matrix(operands: Sequence[ProductOperand], iterators: Sequence[str]) -> Matrix:
    """operands x iterators: whether the iterator moves the operand."""
    rows = [[name in operand.iterators for name in iterators] for operand in operands]
    return np.array(rows, bool).reshape(len(operands), len(iterators))


def matching_matrix(axes: Sequence[Collection[str]], iterators: Sequence[str]) -> Matrix:
    """axes x iterators: whether the iterator is part of the axis."""
    return np.array([[name in axis for name in iterators] for axis in axes], bool).reshape(len(axes), len(iterators))


@dataclass(frozen=True, slots=True)
class TiledAxis:
    """One axis of the intrinsic after physical mapping."""

    name: str
    extent: int
    """Of the flattened iterators."""
    size: int
    """Of the intrinsic."""

    @property
    def tiles(self) -> int:
        """Calls along this axis."""
        return -(-self.extent // self.size)

    @property
    def padding(self) -> int:
        """Points of the last tile that only fill it."""
        return self.tiles * self.size - self.extent


@dataclass(frozen=True, slots=True)
class IntrinsicMapping:
    """An operator computed by an intrinsic: a virtual mapping, from which the physical one follows."""

    abstraction: Abstraction
    product: ProductForm
    """The operator, its factors in the intrinsic's order, with the unit axes that were added."""
    axes: tuple[tuple[Iterator, ...], ...]
    """Of each axis of the intrinsic the iterators it is made of, the last one innermost."""
    is_swapped: bool = False
    """Whether the operator's second factor is the intrinsic's first."""

    @property
    def outer(self) -> tuple[Iterator, ...]:
        """Iterators that stay loops around the intrinsic."""
        mapped = {i.name for axis in self.axes for i in axis}
        return tuple(i for i in self.product.iterators if i.name not in mapped)

    @property
    def cuts(self) -> tuple[tuple[str, int], ...]:
        """The iterators whose halves are apart, on an axis and another or a loop, and points of the inner half."""
        sides = [{i.name for i in side} for side in (*self.axes, self.outer)]
        together = {name for name, _ in self.product.splits for side in sides if set(halves(name)) <= side}
        return tuple((name, by) for name, by in self.product.splits if name not in together)

    def whole_iterators(self, iterators: Sequence[Iterator]) -> tuple[Iterator, ...]:
        """Iterators of an axis, or outer ones, as the operator has them: two halves of one are that one again.

            l.outer l.inner    ->    l
        """
        found = {i.name: i for i in iterators}
        for name, _ in self.product.splits:
            outer, inner = halves(name)
            if outer in found and inner in found:
                found[outer] = Iterator(name, found[outer].extent * found.pop(inner).extent)
        return tuple(found.values())

    def flat_indices(self) -> dict[str, Index]:
        """The virtual mapping: each axis as one number counted through its iterators, the last with stride 1."""
        found = {}
        for axis, iterators in zip(self.abstraction.product.iterators, self.axes, strict=True):
            index = Index()
            for i in iterators:
                index = index * i.extent + Index.of(i.name)
            found[axis.name] = index
        return found

    def inverse(self) -> dict[str, Index]:
        """Each mapped iterator from the flattened axes, by division and remainder."""
        extents = {axis.name: axis.extent for axis in self.tiled_axes()}
        found = {}
        for axis, iterators in zip(self.abstraction.product.iterators, self.axes, strict=True):
            stride = 1
            for i in reversed(iterators):
                found[i.name] = Index.of(axis.name).floordiv(stride, extents).mod(i.extent, extents)
                stride *= i.extent
        return found

    def tiled_axes(self) -> tuple[TiledAxis, ...]:
        """The physical mapping: each flattened axis cut into calls of the intrinsic, the last one padded."""
        return tuple(
            TiledAxis(axis.name, math.prod(i.extent for i in iterators), axis.extent)
            for axis, iterators in zip(self.abstraction.product.iterators, self.axes, strict=True)
        )

    def why_not_strict(self) -> str:
        """Why a strict mapping refuses it: axes shorter than the intrinsic's; "" where there are none."""
        short = [f"{a.name} has {a.extent} of {a.size}" for a in self.tiled_axes() if a.extent < a.size]
        return ", ".join(short)

    @property
    def calls(self) -> int:
        """Of the intrinsic, in all outer loops."""
        return math.prod(a.tiles for a in self.tiled_axes()) * math.prod(i.extent for i in self.outer)

    @property
    def cost(self) -> int:
        """Multiplications done, those that fill tiles included: what mappings and intrinsics are ranked by."""
        return self.calls * self.abstraction.multiplications

    @property
    def padding(self) -> float:
        """Part of the multiplications that only fill tiles, 0..1."""
        return 1 - self.product.multiplications / self.cost

    def matrices(self) -> Matrices:
        """X, Y and Z of the mapping."""
        names = [i.name for axis in self.axes for i in axis]
        own = [axis.name for axis in self.abstraction.product.iterators]
        return Matrices(
            access_matrix(self.product.operands, names),
            matching_matrix([[i.name for i in axis] for axis in self.axes], names),
            access_matrix(self.abstraction.product.operands, own),
        )

    def __str__(self) -> str:
        sides = zip(self.abstraction.product.iterators, self.axes, strict=True)
        return ", ".join(f"{axis.name} = {' '.join(i.name for i in side)}" for axis, side in sides)


def mappings(products: Sequence[ProductForm], abstraction: Abstraction) -> tuple[IntrinsicMapping, ...] | str:
    """All valid mappings of an operator to an intrinsic, cheapest first; or why there is none.

    products: the ways in which the operator is a sum of products.  The way and the order of factors with the fewest
    added unit axes is taken.
    """
    reason, best = "", None
    # Both orders: an intrinsic may take either factor as its rows.
    for product in products:
        for factors in itertools.permutations(product.factors):
            ordered = replace(product, factors=factors)
            misfit = _misfit(ordered, abstraction)
            completed, units = _complete_axes(ordered, abstraction) if not misfit else (ordered, 0)
            if misfit or not _unions(completed, abstraction):
                reason = reason or misfit or _why_none(completed, abstraction)
            elif best is None or units < best[0]:
                best = units, completed, factors != product.factors
    if best is None:
        return reason
    _, product, is_swapped = best
    found = []
    for union in _unions(product, abstraction):
        axes = tuple(tuple(i for i in product.iterators if i.name in names) for names in union)
        found.append(IntrinsicMapping(abstraction, product, axes, is_swapped))
    valid = [mapping for mapping in found if not mapping.matrices().why_invalid()]
    return tuple(sorted(valid, key=lambda m: (m.cost, len(m.outer))))


def matches(product: ProductForm, abstraction: Abstraction) -> list[Match]:
    """Every assignment of one iterator to each axis under which the operands are indexed as the intrinsic's."""
    chosen = itertools.product(*_candidates(product, abstraction.product))
    return [match for match in chosen if len(set(match)) == len(match) and _matches(product, match)]


def _candidates(product: ProductForm, own: ProductForm) -> list[list[str]]:
    """For each axis of an intrinsic the iterators of its kind."""
    wanted = [_kind(axis.name, own) for axis in own.iterators]
    return [[i.name for i in product.iterators if _kind(i.name, product) == kind] for kind in wanted]


def _matches(product: ProductForm, match: Match) -> bool:
    """Whether each operand's indices hold every assigned iterator that moves it, once and alone.

    A stride or a reversed window is a factor and an offset of the index, which a load can follow.
    """
    for operand in product.operands:
        held = [[atom for atom, _ in index.terms if _moves(atom, match)] for index in operand.indices]
        alone = [atoms[0] for atoms in held if len(atoms) == 1]
        if any(len(atoms) > 1 for atoms in held) or sorted(map(str, alone)) != sorted(operand.iterators & set(match)):
            return False
    return True


def _moves(atom: Atom, match: Match) -> bool:
    """Whether an atom of an index changes with an assigned iterator."""
    return bool(set(Index(((atom, 1),)).iterators()) & set(match))


def _unions(product: ProductForm, abstraction: Abstraction) -> list[Union]:
    """What every non-empty set of matches puts on the axes, each outcome once, and all iterators together."""
    found = matches(product, abstraction)
    single = [tuple(frozenset((name,)) for name in match) for match in found]
    seen: dict[Union, None] = {}
    if len(found) > MOST_MATCHES:
        seen = dict.fromkeys((*_prefer_exact(found, product, abstraction), _join(single)))
    else:
        for match in single:
            seen |= dict.fromkeys([match, *(_join((union, match)) for union in seen)])
    whole = tuple(frozenset(names) for names in _candidates(product, abstraction.product))
    if all(whole) and len(set(whole)) == len(whole):
        seen[whole] = None
    return list(seen)


def _prefer_exact(found: Sequence[Match], product: ProductForm, abstraction: Abstraction) -> list[Union]:
    """Single matches; only those of the intrinsic's extents where there are any."""
    equal = [m for m in found if tuple(product.iterator(name).extent for name in m) == abstraction.sizes]
    return [tuple(frozenset((name,)) for name in match) for match in equal or found]


def _join(unions: Iterable[Union]) -> Union:
    return tuple(frozenset().union(*axis) for axis in zip(*unions, strict=True))


def _misfit(product: ProductForm, abstraction: Abstraction) -> str:
    """Why the intrinsic cannot take the operands, whatever iterators move them; "" where it can."""
    if len(product.factors) != len(abstraction.product.factors):
        return f"{len(product.factors)} factors, {abstraction.name} multiplies {len(abstraction.product.factors)}"
    for mine, theirs in zip(product.factors, abstraction.product.factors, strict=True):
        if mine.dtype != theirs.dtype:
            return f"{mine.array} holds {mine.dtype}, {abstraction.name} takes {theirs.dtype}"
    mine, theirs = product.result, abstraction.product.result
    if mine.dtype != theirs.dtype:
        return f"sums are held in {mine.dtype}, {abstraction.name} sums in {theirs.dtype}"
    return ""


def _complete_axes(product: ProductForm, abstraction: Abstraction) -> tuple[ProductForm, int]:
    """The product with an axis of extent 1 for each of the intrinsic's that nothing could fill, and their number."""
    own = abstraction.product
    kinds = {_kind(i.name, product) for i in product.iterators}
    missing = [a for a in own.iterators if a.name not in own.reduced and _kind(a.name, own) not in kinds]
    units = [Iterator(f"{UNIT}.{axis.name}", 1) for axis in missing]

    def map_operand(operand: ProductOperand, theirs: ProductOperand) -> ProductOperand:
        new = (u for u, axis in zip(units, missing, strict=True) if axis.name in theirs.iterators)
        return replace(operand, indices=(*operand.indices, *(Index.of(u.name) for u in new)))

    factors = tuple(itertools.starmap(map_operand, zip(product.factors, own.factors, strict=True)))
    result = map_operand(product.result, own.result)
    return replace(product, iterators=(*product.iterators, *units), factors=factors, result=result), len(units)


def _kind(name: str, product: ProductForm) -> tuple[bool, tuple[bool, ...]]:
    """What makes an iterator fit for an axis: whether it is summed over, and which operands it moves."""
    return name in product.reduced, tuple(name in operand.iterators for operand in product.operands)


def _why_none(product: ProductForm, abstraction: Abstraction) -> str:
    """Which axis of the intrinsic nothing can fill."""
    own, kinds = abstraction.product, {_kind(i.name, product) for i in product.iterators}
    for axis in own.iterators:
        if _kind(axis.name, own) not in kinds:
            pairs = zip(product.operands, own.operands, strict=True)
            moved = " and ".join(mine.array for mine, theirs in pairs if axis.name in theirs.iterators)
            what = "summed iterator" if axis.name in own.reduced else "iterator"
            return f"no {what} moves {moved} and nothing else, as {axis.name} of {abstraction.name} does"
    return f"its iterators share indices in every assignment to the axes of {abstraction.name}"
