"""Two products in a row, with whole rows of the first one's results in a block between them: backward of attention.

    g[q,k] = sum(r) y[q,r] * v[k,r];  t = g * p;  d[q] = sum(k) t[q,k];  s = t - p * d;  x[q,r] = sum(k) s[q,k] * w[k,r]

What lies between may reduce rows and be stored: an attention of which other kernels need scores or weights is one, too.
Only what statements read and write decides; no operator's name does.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.fusion.attention import ProductPair
from engine.fusion.attention_cost import MOST_DEPTH, MOST_HEADS, TILES, shared_bytes
from engine.fusion.axis_splitting import split
from engine.fusion.kinds import CHAINED
from engine.fusion.product_axis_splitting import group_splits
from engine.fusion.row_cost import covering
from engine.fusion.row_epilogue import SPREAD
from engine.fusion.shape import Key, Shape, is_contraction, is_of_codes, joined_axes, own_iterators, product_operands
from engine.graph.nodes import DTYPES
from engine.support.errors import Unsupported
from engine.target import Target
from engine.tensor.nodes import (
    Access,
    Apply,
    Array,
    Literal,
    Scalar,
    Statement,
    TensorProgram,
    accesses,
    iterators_of,
    without_casts,
)
from engine.tensor.padding import adds_nothing
from engine.tensor.rewrite import inline, looked_up

MOST_KEYS = 128
"""Scores of a row that is reduced between the products: a warp's share of longer ones, with what is made of them and
with its results, does not fit the registers of its threads (NVRTC 13.0 spills 8 to 48 bytes at 256)."""


@dataclass(frozen=True, slots=True)
class ChainedProducts(ProductPair):
    """The statements of two products in a row by what they do."""

    between: tuple[Statement, ...]
    """What is made of each score and of rows of them, in order; the weights are among it."""
    after: tuple[Statement, ...]
    """What is made of the results."""

    @property
    def has_whole_rows(self) -> bool:
        """Whether rows of scores are reduced: a block then needs all keys at once."""
        return any(s.reduction is not None for s in self.between)

    @property
    def value_factor(self) -> Scalar:
        """What the second product multiplies beside its weights."""
        factors = product_operands(self.values.expression)
        assert factors is not None, self.values
        return next(f for f in factors if all(a.array != self.weights for a in accesses(f)))


def chain_of(program: TensorProgram) -> ChainedProducts:
    """The products of a group of the kind `CHAINED`, in whose program one name is one axis."""
    keys = [(s.name, i.name) for s in program.statements for i in s.iterators]
    number = {name: n for n, name in enumerate(dict.fromkeys(name for _, name in keys))}
    found = _roles(program.statements, {key: number[key[1]] for key in keys})
    if isinstance(found, str):
        raise Unsupported("fuse", program.name, found)
    return found


def chained_shape(
    statements: Sequence[Statement], kept: frozenset[str], inlined: Collection[str], arrays: Mapping[str, Array],
    target: Target,
) -> Shape | str:  # fmt: skip
    """The loop space of two products in a row with what lies between and after them, or why they have none.

    statements: in an order that is legal to run.  kept: arrays needed outside.  inlined: statements that are computed
    again in their readers.
    """
    first = next((s for s in statements if is_contraction(s)), None)
    splits = group_splits(statements, first, kept) if first is not None else {}
    again = next((s for s in statements if s.name in inlined and any(s.name == name for name, _ in splits)), None)
    if again is not None:
        return f"{again.operator} is computed again where it is read, and its loops are cut in two"
    cut = [split(s, splits) for s in statements]
    own = inline([s for s in cut if s.name in inlined], cut)
    scores = [s for s in own if first is not None and s.name == first.name]
    axes = joined_axes(own, scores)
    if isinstance(axes, str):
        return axes
    found = _roles(own, axes)
    if isinstance(found, str):
        return found
    key = axes[found.scores.name, found.key.name]
    rows = tuple(axis for i in found.scores.parallel if (axis := axes[found.scores.name, i.name]) != key)
    refusal = _misfit(found, axes, set(rows), key) or _excess(found, arrays, target)
    if refusal:
        return refusal
    extents = {axes[s.name, i.name]: i.extent for s in own for i in s.iterators}
    return Shape(CHAINED, axes, rows, (key,), extents, tuple(inlined)).with_splits(splits)


def _roles(statements: Sequence[Statement], axes: Mapping[Key, int]) -> ChainedProducts | str:
    """What is what; or why they are not two products in a row.  axes: of every iterator."""
    products = [s for s in statements if is_contraction(s)]
    if len(products) != 2:
        return f"two products in a row are two, here are {len(products)}"
    scores, values = products
    after = _behind(values, statements)
    between = tuple(s for s in statements if s not in (scores, values, *after))
    weights = _weights(values, {s.write.array for s in between} | {scores.write.array})
    if weights is None:
        return f"{values.operator} does not weigh with what is made of the results of {scores.operator}"
    factors = product_operands(scores.expression)
    assert factors is not None
    reduced = {axes[values.name, i.name] for i in values.reduced}
    sides = own_iterators(scores, factors)
    side = next((n for n in (0, 1) if {axes[scores.name, i.name] for i in sides[n]} == reduced), None)
    if side is None or len(sides[side]) != 1:
        return f"{values.operator} does not sum over the columns of {scores.operator}"
    batch = tuple(i for i in scores.parallel if i not in (*sides[0], *sides[1]))
    return ChainedProducts(
        scores=scores, values=values, weights=weights, batch=batch, queries=sides[1 - side], key=sides[side][0],
        between=between, after=after,
    )  # fmt: skip


def _behind(values: Statement, statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """What is made of the results of the second product, in order."""
    made, found = {values.write.array}, []
    for statement in statements:
        if statement is not values and not made.isdisjoint(statement.sources):
            made.add(statement.write.array)
            found.append(statement)
    return tuple(found)


def _weights(values: Statement, made: Collection[str]) -> str | None:
    """The array that is one factor of the second product as it stands; None where none or both are made here."""
    factors = product_operands(values.expression)
    assert factors is not None
    inner = [without_casts(factor) for factor in factors]
    own = [one.array for one in inner if isinstance(one, Access) and one.array in made and not one.guards]
    is_alone = sum(array in made for array in values.sources) == 1
    return own[0] if len(own) == 1 and is_alone else None


def _misfit(found: ChainedProducts, axes: Mapping[Key, int], rows: set[int], key: int) -> str:
    """Why one kernel does not compute them, or ""."""
    scores, values = found.scores, found.values
    heads = {axes[values.name, i.name] for i in found.heads}
    weighing = {axes[values.name, i.name] for i in values.parallel} - heads
    if weighing != rows:
        return f"the rows of {values.operator} are not those of {scores.operator}"
    moved = {axes[values.name, name] for name in iterators_of(found.value_factor)}
    queries = {axes[scores.name, i.name] for i in found.queries}
    if not heads or not heads | {key} <= moved or moved & queries or not queries:
        return f"{values.operator} multiplies each row with values of its own"
    if not found.batch:
        return f"{values.operator} multiplies all rows with one matrix, which every block would copy"
    if any(is_of_codes(f) for product in (scores, values) for f in product_operands(product.expression) or ()):
        return "a factor of codes is unpacked in a kernel of one product"
    weightless = Apply("mul", (Literal(0.0, "float32"), found.value_factor), "float32")
    if not adds_nothing(scores) or not adds_nothing(replace(values, expression=weightless)):
        return "what is computed from the zeros that fill a tile would count"
    for statement in (*found.between, *found.after):
        if reason := _beside(statement, found, axes, (rows, heads, key)):
            return reason
    return ""


def _excess(found: ChainedProducts, arrays: Mapping[str, Array], target: Target) -> str:
    """Why not even the smallest tiles fit the registers and the shared memory of a block, or ""."""
    if found.has_whole_rows and found.key.extent > MOST_KEYS:
        return f"a row of {found.key.extent:,} scores is reduced before it is used, a block holds up to {MOST_KEYS}"
    depth, heads = (math.prod(i.extent for i in side) for side in (found.scores.reduced, found.heads))
    if depth > MOST_DEPTH or heads > MOST_HEADS:
        return f"rows of {max(depth, heads):,} elements do not fit the registers of a kernel"
    element = DTYPES[arrays[found.weights].dtype]
    keys = covering(found.key.extent) if found.has_whole_rows else TILES[-1]
    needed = shared_bytes((depth, heads), TILES[-1], keys, 1, element, element == DTYPES["float32"])
    if needed <= target.shared_limit:
        return ""
    what = f"{TILES[-1]} queries, {keys} keys and values of {depth} and {heads} elements"
    return f"{what} take {needed:,} bytes of shared memory, a block of {target.name} may have {target.shared_limit:,}"


def _beside(
    statement: Statement, found: ChainedProducts, axes: Mapping[Key, int], loops: tuple[set[int], set[int], int]
) -> str:
    """Why a statement beside the products does not run in their kernel, or ""."""
    rows, heads, key = loops
    mine = {axes[statement.name, i.name] for i in statement.iterators}
    if statement.guards or not statement.covers or looked_up(statement):
        return f"{statement.operator} writes a part or looks up places"
    array = statement.write.array
    if array != found.weights and array in (*found.scores.sources, *found.values.sources):
        return f"{statement.operator} makes what a product multiplies, which is copied to tiles as it stands"
    if statement in found.after:
        fits = statement.reduction is None and mine == rows | heads
        return "" if fits else f"{statement.operator} has another shape than the result of {found.values.operator}"
    if statement.reduction is None:
        fits = mine in (rows | {key}, rows)
        return "" if fits else f"{statement.operator} has another shape than the result of {found.scores.operator}"
    reduced = {axes[statement.name, name] for name in statement.reduction.iterators}
    if reduced != {key} or mine != rows | {key}:
        return f"{statement.operator} reduces other axes than {found.values.operator}"
    if not statement.reduction.associative or statement.reduction.operation not in SPREAD:
        return f"{statement.operator} takes its terms in order, and several threads would share them"
    return ""
