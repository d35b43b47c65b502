"""The loop space of an attention kernel, or why there is none: its size, ragged tiles, other readers of its values."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from engine.fusion.attention import Attention, Finder, refusal
from engine.fusion.attention_cost import MOST_DEPTH, TILES, WHOLE, head_parts, query_tile, shared_bytes
from engine.fusion.grouped_queries import group_queries
from engine.fusion.kinds import ATTENTION
from engine.fusion.shape import Key, Shape, is_contraction, number_axes, product_operands
from engine.graph.nodes import DTYPES
from engine.support.errors import Unsupported
from engine.support.grouping import UnionFind
from engine.target import Target
from engine.tensor.nodes import Apply, Array, Literal, Statement, TensorProgram, accesses
from engine.tensor.padding import adds_nothing
from engine.tensor.rewrite import inline, plain_iterator


def attention_form(
    statements: Sequence[Statement], kept: Collection[str], arrays: Mapping[str, Array], target: Target
) -> Shape | str:
    """The loop space of statements that are one attention, with what lies between its products and after them.

    statements: in an order that is legal to run.  kept: arrays needed outside.  Why an attention has none; "" for what
    is no attention.
    """
    finder = Finder(TensorProgram("", arrays, tuple(statements), (), ()))
    found = None
    for statement in statements:
        with suppress(Unsupported):  # another product may weigh with the softmax
            found = found or finder.find(statement)
    if found is None:
        return ""
    own = (found.scores.name, found.values.name)
    more = [s.operator for s in statements if is_contraction(s) and s.name not in own]
    if more:
        return f"an attention has two matrix products, {more[0]} would be a third"
    try:
        check_closed(found, statements, dict.fromkeys(kept, "is needed elsewhere too"))
        reason = excess(found, arrays, target) or padding(found, statements, ())
        return reason or rows_of_groups(found, statements, (), arrays, kept, target) or loops(found, statements, ())
    except Unsupported as refused:
        return refused.reason


def excess(found: Attention, arrays: Mapping[str, Array], target: Target) -> str:
    """Why not even the smallest tiles fit the registers and the shared memory of a block; or ""."""
    depth, heads = (math.prod(i.extent for i in side) for side in (found.scores.reduced, found.heads))
    if depth > MOST_DEPTH:
        return f"queries of {depth} elements do not fit the registers of a kernel, {MOST_DEPTH} do"
    element = DTYPES[arrays[found.weights].dtype]
    sizes, is_wide = (depth, head_parts(heads)[0]), element == DTYPES["float32"]
    needed = shared_bytes(sizes, TILES[-1], TILES[-1], 1, element, on_cores=is_wide)
    if needed <= target.shared_limit:
        return ""
    what = f"{TILES[-1]} queries, keys and values of {depth} and {heads} elements"
    return f"{what} take {needed:,} bytes of shared memory, a block of {target.name} may have {target.shared_limit:,}"


def padding(found: Attention, statements: Sequence[Statement], inlined: Collection[str]) -> str:
    """Why zeros that fill ragged tiles count: depths in the scores, keys (of weight 0) in the results; or ""."""
    whole = {s.name: s for s in inline([s for s in statements if s.name in inlined], statements)}
    scores, values = whole[found.scores.name], whole[found.values.name]
    factors = product_operands(values.expression)
    assert factors is not None
    weighs = [any(a.array == found.weights for a in accesses(factor)) for factor in factors]
    weightless = Apply("mul", (Literal(0.0, "float32"), factors[weighs.index(False)]), "float32")
    is_ragged = math.prod(i.extent for i in scores.reduced) % WHOLE > 0
    counts = (is_ragged and not adds_nothing(scores)) or not adds_nothing(replace(values, expression=weightless))
    return "what is computed from the zeros that fill a tile would count" if counts else ""


def check_closed(found: Attention, statements: Sequence[Statement], needed: Mapping[str, str]) -> None:
    """Raise Unsupported where others need more than what follows the second product.

    needed: arrays that other kernels need -> how that is said.
    """
    after = {found.values.write.array}
    for statement in statements:
        if any(access.array in after for access in statement.reads()):
            after.add(statement.write.array)
    for array in (s.write.array for s in statements if s.write.array not in after):
        what = "the result of the softmax" if array == found.weights else f"{array}, between the products,"
        if array in needed:
            raise refusal(found.values, f"{what} {needed[array]}")
        for reader in statements if array == found.weights else ():
            if reader.name != found.values.name and any(access.array == array for access in reader.reads()):
                raise refusal(found.values, f"{what} is read elsewhere too, by {reader.operator}")


def loops(found: Attention, statements: Sequence[Statement], inlined: tuple[str, ...]) -> Shape:
    """The loops of an attention: rows are batches and queries, the one column is the keys.  Unsupported, saying why,
    where something has others.

    Beside its own statements there may be copies of them, which the softmax's parts compute again, and what follows.
    """
    axes = _axes(statements)
    scores = found.scores
    rows = tuple(axes[scores.name, i.name] for i in (*found.batch, *found.queries))
    key = axes[scores.name, found.key.name]
    heads = {axes[found.values.name, i.name] for i in found.heads}
    extents = {axes[s.name, i.name]: i.extent for s in statements for i in s.iterators}
    members = {s.name for s in found.members}
    for statement in statements:
        mine = {axes[statement.name, i.name] for i in statement.iterators}
        if statement.name not in members and mine not in ({*rows, *heads}, {*rows, key}):
            raise refusal(found.values, f"{statement.operator} has another shape than the result")
    return Shape(ATTENTION, axes, rows, (key,), extents, inlined)


def rows_of_groups(
    found: Attention, statements: Sequence[Statement], inlined: tuple[str, ...], arrays: Mapping[str, Array],
    kept: Collection[str], target: Target,
) -> Shape | None:  # fmt: skip
    """The loops with heads that share keys and values as rows of one tile, where fewer rows are empty then; else None.

    statements: with what is inlined into them.  Other arguments as those of `attention_form` and `loops`.
    """
    with suppress(Unsupported):
        for splits, after, cut in group_queries(found, statements, _axes(statements), arrays, kept):
            if _tile_rows(after, target) < _tile_rows(found, target):
                return loops(after, cut, inlined).with_splits(splits)
    return None


def _tile_rows(found: Attention, target: Target) -> int:
    """Rows of all tiles of queries, empty ones too: as often is each tile of keys multiplied."""
    return math.prod(query_tile(found, target.sm_count))


def _axes(statements: Sequence[Statement]) -> dict[Key, int]:
    """Iterators that walk the same axis, found over the reads of what the statements make."""
    axis_of = UnionFind((s.name, i.name) for s in statements for i in s.iterators)
    writer = {s.write.array: s for s in statements}
    for statement in statements:
        for access in statement.reads():
            source = writer.get(access.array)
            for written, read in zip(source.write.indices, access.indices, strict=True) if source else ():
                left, right = plain_iterator(written), plain_iterator(read)
                if source and left is not None and right is not None:
                    axis_of.union((source.name, left), (statement.name, right))
                elif written != read:
                    raise refusal(statement, f"{statement.operator} reads {access.array} in another arrangement")
    return number_axes(statements, axis_of)
