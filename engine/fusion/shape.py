"""Whether statements can share one kernel, and the loop space they share.

Iterators of different statements that walk the same axis are found by union over the reads of intermediates: if T reads
`x[i, k]` where S wrote `x[i, j]`, then T's `k` and S's `j` are one axis.  Everything else follows from the axes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from engine.fusion.axis_splitting import inner_of, split, wanted_splits
from engine.fusion.kinds import (
    COLUMN_REDUCTION,
    CONTRACTION,
    ELEMENTWISE,
    LAYOUT,
    REDUCTION,
    ROW_REDUCTION,
    Kind,
)
from engine.fusion.operator_folding import is_layout
from engine.fusion.product_axis_splitting import group_splits, iterator_pairs
from engine.fusion.row_epilogue import cut_rows
from engine.support.grouping import UnionFind
from engine.support.values import value
from engine.tensor.nodes import Access, Apply, Iterator, Position, Scalar, Statement, iterators_of, without_casts
from engine.tensor.rewrite import plain_iterator

Key = tuple[str, str]
"""(statement, iterator)."""

ONE_BLOCK = 32 * 1024
"""Elements that one block walks repeatedly without keeping the rest of the GPU waiting: 32 for each of 1024 threads."""

TWO_PRODUCTS = "two matrix products need two main loops"


@value(frozen=True, slots=True)
class Shape:
    """The common loop space of a group."""

    kind: Kind
    axes: Mapping[Key, int]
    """Axis of each iterator; statements that are computed again inside their readers have none."""
    rows: tuple[int, ...]
    """Parallel axes all statements share, in the order of the widest statement."""
    columns: tuple[int, ...]
    """Axes that some statement reduces; of stitched and packed groups all that not every statement shares."""
    extents: Mapping[int, int]
    inlined: tuple[str, ...]
    """Statements put into their readers: computed again for each element instead of stored."""
    splits: Mapping[Key, int] = field(default_factory=dict)
    """Iterators that are cut in two -> points of the inner one; `axes` has both, named as in `axis_splitting`."""

    @property
    def row_points(self) -> int:
        """Points of the axes that all statements share: what blocks divide among them."""
        return math.prod(self.extents[axis] for axis in self.rows)

    @property
    def column_points(self) -> int:
        """Points of the other axes."""
        return math.prod(self.extents[axis] for axis in self.columns)

    def with_splits(self, splits: Mapping[Key, int]) -> Shape:
        """The loop space of statements that were cut: an iterator as it was walks the axis of its inner loop."""
        inner = {key: self.axes[key[0], inner_of(key[1])] for key in splits if key[0] not in self.inlined}
        return replace(self, axes={**self.axes, **inner}, splits=splits) if splits else self

    def with_names(self, names: Mapping[str, str]) -> Shape:
        """The loop space of statements under other names."""
        axes = {(names[statement], iterator): axis for (statement, iterator), axis in self.axes.items()}
        inlined = tuple(names[statement] for statement in self.inlined)
        splits = {(names[statement], iterator): by for (statement, iterator), by in self.splits.items()}
        return replace(self, axes=axes, inlined=inlined, splits=splits)


def reduction_kind(statements: Sequence[Statement]) -> Kind:
    """ROW_REDUCTION when the reduced iterator is the contiguous one of the largest read, else COLUMN_REDUCTION."""
    for statement in statements:
        if statement.reduction is None:
            continue
        # The read with most axes moves most bytes: its layout decides which loop threads should walk together.
        for access in sorted(statement.reads(), key=lambda a: -len(a.indices)):
            innermost = next((n for i in reversed(access.indices) for n in reversed(i.iterators())), None)
            if innermost is not None:
                return ROW_REDUCTION if innermost in statement.reduction.iterators else COLUMN_REDUCTION
    return ROW_REDUCTION


def is_contraction(statement: Statement) -> bool:
    """A sum of products of two arrays, each with a parallel iterator of its own: what a matrix product's tiles need.

    A factor that is computed from several arrays cannot be copied to a tile as it stands; one of codes is computed
    from copies of them.
    """
    form = statement.form
    if form.is_contraction is None:
        form.is_contraction = _multiplies(statement)
    return form.is_contraction


def _multiplies(statement: Statement) -> bool:
    factors = summed_factors(statement)
    if factors is None or any(len(_arrays(factor)) > 1 and not is_of_codes(factor) for factor in factors):
        return False
    reduced = {i.name for i in statement.reduced}
    return all(reduced & iterators_of(factor) for factor in factors) and all(own_iterators(statement, factors))


def is_of_codes(factor: Scalar) -> bool:
    """Whether a number is computed from codes: integers that are widened, then shifted, scaled or taken apart.

        float16((float32(int32(w[k, j]) - int32(z[j])) * float32(s[j])))   is,   float32(x[i, k])   is not
    """
    inner = without_casts(factor)
    return isinstance(inner, Apply) and "float" in inner.dtype and any(map(_widens_code, inner.operands))


def _widens_code(value: Scalar) -> bool:
    if not isinstance(value, Apply):
        return False
    is_widened = value.function == "cast" and value.dtype == "int32" and isinstance(value.operands[0], Access)
    return is_widened or any(map(_widens_code, value.operands))


def own_iterators(product: Statement, factors: tuple[Scalar, Scalar]) -> tuple[tuple[Iterator, ...], ...]:
    """Parallel iterators of a product that only its first and that only its second factor moves with."""
    first, second = map(iterators_of, factors)
    return tuple(tuple(i for i in product.parallel if i.name in own) for own in (first - second, second - first))


def summed_factors(statement: Statement) -> tuple[Scalar, Scalar] | None:
    """The factors of a sum of products; None for every other statement."""
    is_sum = statement.reduction is not None and statement.reduction.operation == "sum"
    return product_operands(statement.expression) if is_sum else None


def product_operands(expression: Scalar) -> tuple[Scalar, Scalar] | None:
    """The two factors of a product, casts around it ignored."""
    expression = without_casts(expression)
    if isinstance(expression, Apply) and expression.function == "mul":
        left, right = expression.operands
        if _arrays(left) and _arrays(right):
            return left, right
    return None


def _arrays(value: Scalar) -> list[Access]:
    if isinstance(value, Access):
        return [value]
    return [a for o in value.operands for a in _arrays(o)] if isinstance(value, Apply) else []


def _asks_position(value: Scalar) -> bool:
    """Whether the value depends on where it stands, as a triangle of a matrix does."""
    return isinstance(value, Position) or (isinstance(value, Apply) and any(map(_asks_position, value.operands)))


def common_shape(statements: Sequence[Statement], kept: frozenset[str] = frozenset()) -> Shape | str:
    """The loop space of `statements` (in an order that is legal to run), or why they are not one kernel.

    kept: arrays needed outside, whose statements cannot be put into their readers.
    """
    if len(statements) == 1:
        return _single_shape(statements[0])
    anchors = [s for s in statements if is_contraction(s)]
    if len(anchors) > 1:
        names = dict.fromkeys(s.operator for s in anchors)
        return f"{TWO_PRODUCTS}: {' and '.join(names)}"
    splits = group_splits(statements, anchors[0], kept) if anchors else wanted_splits(statements)
    cut = [split(s, splits) for s in statements]
    shape = shape_around(cut, kept, [s for s, before in zip(cut, statements, strict=True) if before in anchors])
    return shape if isinstance(shape, str) else shape.with_splits(splits)


def shape_around(statements: Sequence[Statement], kept: frozenset[str], anchors: Sequence[Statement]) -> Shape | str:
    """The loop space of statements with their loops as they are, around one product, two with the same loops, or
    none."""
    anchor = anchors[0] if anchors else None
    reductions = [s for s in statements if s.reduction is not None]
    axes = joined_axes(statements, anchors)
    if isinstance(axes, str):
        return axes
    if anchor is not None and len(reductions) > len(anchors):
        factors = product_operands(anchor.expression)
        assert factors is not None, anchor
        sides = [{axes[anchor.name, i.name] for i in side} for side in own_iterators(anchor, factors)]
        cut = cut_rows(statements, anchor, axes, sides)
        if cut:
            return cut
    widest = anchor or max(statements, key=lambda s: len(s.iterators))
    reduced = {axes[s.name, n] for s in reductions if s.reduction for n in s.reduction.iterators}
    own = widest.parallel if anchor else widest.iterators
    rows = tuple(axes[widest.name, i.name] for i in own if axes[widest.name, i.name] not in reduced)
    columns = tuple(axes[widest.name, i.name] for i in widest.iterators if axes[widest.name, i.name] in reduced)
    extents = {axes[s.name, i.name]: i.extent for s in statements for i in s.iterators}
    inlined: list[str] = []
    for statement in statements:
        reason = "" if statement in anchors else _misfit(statement, axes, set(rows), set(columns), anchor)
        if reason and not _can_inline(statement, statements, kept, anchor):
            return reason
        if reason:
            inlined.append(statement.name)
    size = math.prod(extents[axis] for axis in columns)
    again = _walks_again(statements, axes, set(columns))
    # Without rows there is one block, and the value that it reduces is needed before its second walk can begin.
    if not rows and again is not None and size > ONE_BLOCK:
        return f"{again.operator} needs a value reduced from all {size} elements: one block would walk them all twice"
    kind = CONTRACTION if anchor else REDUCTION if reductions else ELEMENTWISE
    found = {key: axis for key, axis in axes.items() if key[0] not in inlined}
    return Shape(kind, found, rows, columns, extents, tuple(inlined))


def _single_shape(statement: Statement) -> Shape:
    """The loop space of one statement is its own."""
    number = {i.name: axis for axis, i in enumerate(statement.iterators)}
    kind = LAYOUT if is_layout(statement) else ELEMENTWISE
    if statement.reduction is not None:
        kind = CONTRACTION if is_contraction(statement) else REDUCTION
    axes = {(statement.name, name): axis for name, axis in number.items()}
    rows, columns = (tuple(number[i.name] for i in side) for side in (statement.parallel, statement.reduced))
    return Shape(kind, axes, rows, columns, {axis: i.extent for axis, i in enumerate(statement.iterators)}, ())


def joined_axes(statements: Sequence[Statement], anchors: Sequence[Statement]) -> dict[Key, int] | str:
    """Union of iterators over the reads of intermediates; a reason when a read is not element by element."""
    axis_of = UnionFind((s.name, i.name) for s in statements for i in s.iterators)
    writer: dict[str, Statement] = {}
    partly = {s.write.array for s in statements if not s.covers}
    for statement in statements:
        if statement.guards or (statement.covers and statement.write.array in partly):
            return f"{statement.operator} writes its result in parts, each in a loop of its own"
        for access in statement.reads():
            if access.array in partly:
                return f"{statement.operator} reads {access.array}, which several loops write in parts"
            source = writer.get(access.array)
            if source is None:
                continue
            for written, read in zip(source.write.indices, access.indices, strict=True):
                pairs = None if access.guards else iterator_pairs(written, read, source, statement)
                for left, right in pairs or ():
                    axis_of.union((source.name, left), (statement.name, right))
                if access.guards or (pairs is None and written != read):
                    return f"{statement.operator} reads {access.array} in another arrangement than it is written"
        writer[statement.write.array] = statement
    # Tiles of a product know rows from columns by its factors: axes that nothing ties to it must stay apart.
    if not anchors:
        _join_by_position(statements, axis_of)
    for other in anchors[1:]:
        for first, second in zip(anchors[0].iterators, other.iterators, strict=True):
            axis_of.union((anchors[0].name, first.name), (other.name, second.name))
    axes = number_axes(statements, axis_of)
    extents: dict[int, int] = {}
    for statement in statements:
        mine = [axes[statement.name, i.name] for i in statement.iterators]
        if len(set(mine)) < len(mine):
            return f"{statement.operator} pairs different elements of one intermediate"
        for iterator, axis in zip(statement.iterators, mine, strict=True):
            if extents.setdefault(axis, iterator.extent) != iterator.extent:
                return f"{statement.operator} reads part of an intermediate"
    return _update_conflict(statements, axes) or axes


def number_axes(statements: Sequence[Statement], axis_of: UnionFind[Key]) -> dict[Key, int]:
    """The axis of every iterator as a number.  axis_of: equal for iterators that walk the same axis."""
    numbers: dict[Key, int] = {}
    keys = [(s.name, i.name) for s in statements for i in s.iterators]
    return {key: numbers.setdefault(axis_of[key], len(numbers)) for key in keys}


def _update_conflict(statements: Sequence[Statement], axes: Mapping[Key, int]) -> str:
    """Why a buffer cannot be updated in the kernel that reads it: another thread would read what one overwrites."""

    def places(statement: Statement, access: Access) -> list[int | str]:
        names = [plain_iterator(i) for i in access.indices]
        return [axes[statement.name, n] if n else str(i) for n, i in zip(names, access.indices, strict=True)]

    before: dict[str, list[tuple[Statement, Access]]] = {}
    for statement in statements:
        for reader, access in before.get(statement.write.array, ()):
            if access.guards or places(reader, access) != places(statement, statement.write):
                return f"{statement.operator} overwrites {access.array}, which {reader.operator} reads elsewhere"
        for access in statement.reads():
            before.setdefault(access.array, []).append((statement, access))
    return ""


def _join_by_position(statements: Sequence[Statement], axis_of: UnionFind[Key]) -> None:
    """Axes that no intermediate ties together but that have the place and extent of an axis of the widest statement."""
    anchor = max(statements, key=lambda s: len(s.iterators))
    taken = {axis_of[anchor.name, i.name] for i in anchor.iterators}
    for statement in statements:
        if statement is anchor or len(statement.iterators) != len(anchor.iterators):
            continue
        for mine, theirs in zip(statement.iterators, anchor.iterators, strict=True):
            other = axis_of[anchor.name, theirs.name]
            used = {axis_of[statement.name, i.name] for i in statement.iterators}
            if axis_of[statement.name, mine.name] not in taken and other not in used and mine.extent == theirs.extent:
                axis_of.union((anchor.name, theirs.name), (statement.name, mine.name))


def _walks_again(statements: Sequence[Statement], axes: Mapping[Key, int], columns: set[int]) -> Statement | None:
    """The first statement that visits every reduced element and needs what was reduced from them."""
    derived: set[str] = set()
    for statement in statements:
        needs = any(a.array in derived for a in statement.reads())
        if needs and columns & {axes[statement.name, i.name] for i in statement.iterators}:
            return statement
        if needs or statement.reduction is not None:
            derived.add(statement.write.array)
    return None


def _misfit(
    statement: Statement, axes: Mapping[Key, int], rows: set[int], columns: set[int], anchor: Statement | None
) -> str:
    """Why a statement does not run in the common loop space, or ""."""
    mine = {axes[statement.name, i.name] for i in statement.iterators}
    if anchor is not None:
        if statement.write.array in anchor.sources:
            made = f"{statement.operator} makes what {anchor.operator} multiplies"
            return f"{made}, which is copied to tiles as it stands"
        walked = columns - {axes[anchor.name, i.name] for i in anchor.reduced}
        if _is_of_rows(statement, axes, rows, walked):
            return ""
        return f"{statement.operator} has another shape than the result of {anchor.operator}"
    if statement.reduction is not None:
        reduced = {axes[statement.name, n] for n in statement.reduction.iterators}
        if reduced != columns or mine - reduced != rows:
            return f"{statement.operator} reduces other axes"
        return ""
    if mine == rows | columns or (columns and mine == rows):
        return ""
    return f"{statement.operator} has another shape"


def _is_of_rows(statement: Statement, axes: Mapping[Key, int], rows: set[int], columns: set[int]) -> bool:
    """Whether a statement after a product is about single results, their rows, or makes a value of each row.

    columns: axes of a result that are reduced; none where a tile may hold a part of each row.
    """
    mine = {axes[statement.name, i.name] for i in statement.iterators}
    if statement.reduction is not None:
        return mine == rows | columns
    return mine in (rows | columns, rows)


def _can_inline(
    statement: Statement, statements: Sequence[Statement], kept: frozenset[str], anchor: Statement | None
) -> bool:
    """Cheap to compute again: element-wise, reads nothing made here, and nobody outside wants it."""
    if statement.reduction is not None or statement.write.array in kept:
        return False
    made = {s.write.array for s in statements}
    if not made.isdisjoint(statement.sources):
        return False
    readers = [s for s in statements if statement.write.array in s.sources]
    if anchor is not None and anchor in readers:
        # A tile is copied as it stands, before anyone knows where its elements will be used: a factor reads one array,
        # no number beside it, and may not ask for its position.  Codes are taken apart between copy and use.
        is_one = len(statement.reads()) == 1 and not _asks_position(statement.expression)
        return len(readers) == 1 and (is_one or is_of_codes(statement.expression))
    return bool(readers)
