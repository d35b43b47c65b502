"""Two products of the same rows, whose results meet element by element, in one main loop: gate and up of a SwiGLU.

    g = x w;  u = x v;  y = silu(g) * u    ->    a block multiplies a tile of x with one of w and with one of v

A thread has the sums of both at the same places: y is made in registers, and x is read once.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.fusion.shape import Shape, is_contraction, is_of_codes, product_operands, shape_around
from engine.tensor.nodes import Access, Statement, accesses
from engine.tensor.rewrite import plain_iterator

NO_PAIR = "they are no two products of the same rows"


def pair_of(statements: Sequence[Statement]) -> tuple[Statement, Statement] | None:
    """The two products of a group that share their main loop; None where it has not two."""
    found = [s for s in statements if is_contraction(s)]
    return (found[0], found[1]) if len(found) == 2 else None


def products_first(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements with their products before all others, which nobody here makes a factor of: nothing then stands
    between the two in a schedule."""
    return tuple(sorted(statements, key=lambda s: not is_contraction(s)))


def paired_shape(statements: Sequence[Statement], kept: frozenset[str] = frozenset()) -> Shape | str:
    """The loop space of two products and what is made of both, or why they do not share a main loop."""
    pair = pair_of(statements)
    if pair is None:
        return NO_PAIR
    first, second = pair
    if refusal := _why_apart(first, second):
        return refusal
    read = {*first.sources, *second.sources}
    maker = next((s for s in statements if s.write.array in read), None)
    if maker is not None:
        return f"{maker.operator} makes what {first.operator} or {second.operator} multiplies"
    reducing = next((s for s in statements if s.reduction is not None and s not in pair), None)
    if reducing is not None:
        return f"{reducing.operator} reduces rows of a product, which takes a kernel of its own"
    return shape_around(statements, kept, pair)


def _why_apart(first: Statement, second: Statement) -> str:
    """Why two products do not share their rows and their loops, or ""."""
    both = f"{first.operator} and {second.operator}"
    if first.reduction is None or second.reduction is None or first.guards or second.guards:
        return NO_PAIR
    mine, others = product_operands(first.expression), product_operands(second.expression)
    assert mine is not None and others is not None
    rows, others_rows = (accesses(factors[0])[-1].array for factors in (mine, others))
    if rows != others_rows:
        return NO_PAIR
    if [i.extent for i in first.iterators] != [i.extent for i in second.iterators]:
        return f"{both} have other sizes"
    if first.reduction.accumulate != second.reduction.accumulate:
        return f"{both} sum in different types"
    if _form(first) != _form(second):
        return f"{both} read their factors in different ways"
    if any(map(is_of_codes, (*mine, *others))):
        return f"{both} have a factor of codes, whose tiles are written one after the other"
    return ""


def _form(product: Statement) -> tuple[object, ...]:
    """How a product reads its factors and writes its result, whatever its arrays and iterators are called."""
    number = {i.name: n for n, i in enumerate(product.iterators)}
    reduced = [number[i.name] for i in product.reduced]
    return (*(_places(access, number) for access in (*product.reads(), product.write)), tuple(reduced))


def _places(access: Access, number: dict[str, int]) -> tuple[object, ...]:
    return tuple(number.get(plain_iterator(i) or "", str(i)) for i in access.indices)
