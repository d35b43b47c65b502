"""Legality of fusion: whether statements have a loop space of a known kind, within registers and shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.fusion.concat_fusion import lookups
from engine.fusion.packing import packed_shape, part_shape, parts_of
from engine.fusion.recompute import MOST_DIVISIONS, cost, divisions
from engine.fusion.shape import Shape, common_shape, is_contraction, reduction_kind
from engine.fusion.stitched import own_axes, stitched_shape
from engine.fusion.stitching.nodes import Fit
from engine.fusion.stitching.shared_memory import degradation_order, stitched_limit
from engine.target import Target
from engine.target.hardware import MAX_WARPS, WARP
from engine.target.registers import MAX_PRIVATE, VALUE_REGISTERS
from engine.tensor.index import Index
from engine.tensor.live_values import most_alive, overwritten_before
from engine.tensor.nodes import Access, Array, Statement
from engine.tensor.rewrite import inline, is_plain, looked_up, rewrite_index

MOST_INLINED = 96
"""Instructions of an element of which every producer is computed in place."""


class KernelLegality:
    """The legality of kernels of one program: no value crosses blocks, and the code generator has a form for them."""

    def __init__(self, arrays: Mapping[str, Array], target: Target) -> None:
        self._arrays, self.target = arrays, target

    def __call__(self, statements: Sequence[Statement], kept: frozenset[str]) -> Fit | str:
        """How they fit, or why they do not.  Simple kernels come first: one loop space, then everything in one
        statement, statements of different shapes, at last parts that nothing connects."""
        reason = ""
        stitchable = any(s.reduction is not None for s in statements) and not any(map(is_contraction, statements))
        for form in (common_shape, inlined_shape, stitched_shape, packed_shape):
            shape = form(statements, kept)
            if form is stitched_shape and isinstance(shape, Shape) and not _is_worth_a_block(shape, statements):
                packed = packed_shape(statements, kept)
                shape = packed if isinstance(packed, Shape) and not self._too_large(packed, statements, kept) else shape
            if isinstance(shape, str):
                # A person is told of the first form; where rows are reduced, stitching is the form that they meant.
                reason = shape if not reason or (stitchable and form is stitched_shape) else reason
            elif lost := _not_in_place(shape, statements):
                reason = lost
            elif crowded := self._too_large(shape, statements, kept):
                reason = crowded
            else:
                return self.of(shape, statements)
        return reason

    def because(self, statements: Sequence[Statement], kept: frozenset[str], reason: str) -> str:
        """Why statements do not fit, which `reason` says of all of them: about those of them that are connected and do
        not, else why parts share no launch."""
        parts = parts_of(statements)
        if len(parts) < 2:
            return reason
        for part in parts:
            fit = self(part, kept)
            if isinstance(fit, str):
                return fit
        packed = packed_shape(statements, kept)
        return packed if isinstance(packed, str) else reason

    def of(self, shape: Shape, statements: Sequence[Statement]) -> Fit:
        """What costs need to know of a loop space."""
        own = [s for s in statements if s.name not in shape.inlined]
        if shape.kind.has_parts:
            points = sum(max(s.points for s in part) for part in parts_of(own))
            return Fit(shape, points, 1, inlined=frozenset(shape.inlined))
        rows = shape.row_points
        if not shape.kind.hands_over:
            return Fit(shape, rows, shape.column_points, inlined=frozenset(shape.inlined))
        columns = max(s.points for s in own) // max(1, rows)
        sizes = row_bytes(shape, own, self._arrays)
        return Fit(shape, rows, columns, sum(sizes.values()), frozenset(sizes), frozenset(shape.inlined))

    def _too_large(self, shape: Shape, statements: Sequence[Statement], kept: frozenset[str]) -> str:
        """Why a thread does not have the registers, or a block not the shared memory, or "".

        No bytes are counted on for two values, one after the other: which meet, the schedule decides.
        """
        if shape.kind.has_parts:
            parts = ((part, part_shape(part, kept)) for part in parts_of(statements))
            reasons = (self._too_large(its, part, kept) for part, its in parts if isinstance(its, Shape))
            return next(filter(None, reasons), "")
        fit, limit = self.of(shape, statements), stitched_limit(self.target)
        if len(statements) > VALUE_REGISTERS and (crowded := self._too_many_alive(statements, fit)):
            return crowded
        if shape.kind.keeps_rows and fit.columns > MAX_PRIVATE * MAX_WARPS:
            return _too_long(statements, shape, fit.columns)
        if fit.shared_bytes <= limit:  # only stitched kernels hand anything over
            return ""
        operators = {s.write.array: s.operator for s in statements}
        largest = max(fit.shared_arrays, key=lambda a: self._arrays[a].bytes)
        giving_way = degradation_order(statements, sorted(fit.shared_arrays))
        first = f"; {operators[giving_way[0]]} is the cheapest to leave out" if giving_way else ""
        return (
            f"the rows that {operators[largest]} and others hand over take {fit.shared_bytes:,} bytes of shared "
            f"memory; a block of {self.target.name} may have {limit:,}{first}"
        )

    def _too_many_alive(self, statements: Sequence[Statement], fit: Fit) -> str:
        """Why the registers of a thread do not hold one element of each value that is alive, or ""."""
        peak = most_alive(statements, fit.shared_arrays)
        if peak.values <= VALUE_REGISTERS:
            return ""
        most = int(self.target.registers_per_thread.value)
        return (
            f"{peak.values} values are alive at once when {peak.operator} is computed, by an estimate of their life "
            f"times; a thread of {self.target.name} may have {most} registers, {most - VALUE_REGISTERS} of them for "
            "addresses"
        )


def _too_long(statements: Sequence[Statement], shape: Shape, columns: int) -> str:
    """Why threads cannot keep their elements of a long row, or "": what is made from old values that the kernel
    overwrites is needed again."""
    sharers = MAX_WARPS if reduction_kind(statements).combines_warps else MAX_WARPS * WARP
    own = [s for s in statements if s.name not in shape.inlined]
    read: set[str] = set()
    updated: set[str] = set()
    for statement in own:
        read.update(statement.sources)
        updated.update({statement.write.array} & read)
    loops = [((s,), any(shape.axes[s.name, i.name] in shape.columns for i in s.iterators)) for s in own]
    lost = overwritten_before(loops, updated)
    if not lost or columns <= MAX_PRIVATE * sharers:
        return ""
    maker = next(s for s in statements if s.write.array in lost)
    return (
        f"{maker.operator} makes {columns:,} elements of a row from values that are overwritten before these are used; "
        f"the threads that share one keep {MAX_PRIVATE * sharers:,} at most"
    )


def inlined_shape(statements: Sequence[Statement], kept: frozenset[str]) -> Shape | str:
    """The loop space of one statement that computes all others in place, for each of its elements; or why not.

    The last statement may write a part of its array, and read in any arrangement.
    """
    *producers, last = statements
    if is_contraction(last):
        return f"{last.operator} copies its factors to tiles as they stand"
    expanded: dict[str, int] = {}
    divided: dict[str, int] = {}
    for statement in statements:
        divided[statement.write.array] = divisions(statement, divided)
        inside = sum(expanded.get(access.array, 0) for access in statement.reads())
        expanded[statement.write.array] = cost(statement.expression) + inside
    for producer in producers:
        if producer.reduction is not None or producer.guards or not producer.covers or not is_plain(producer.write):
            return f"{producer.operator} does not give single elements"
        if producer.write.array in kept:
            return f"{producer.operator} is needed elsewhere"
    if expanded[last.write.array] > MOST_INLINED:
        return f"{last.operator} would compute {expanded[last.write.array]} instructions for each element"
    if divided[last.write.array] > MOST_DIVISIONS:
        return f"{last.operator} would find its elements by {divided[last.write.array]} divisions of indices"
    alone = common_shape([last])
    assert isinstance(alone, Shape), alone
    return replace(alone, inlined=tuple(p.name for p in producers))


def _is_worth_a_block(shape: Shape, statements: Sequence[Statement]) -> bool:
    """Whether a stitched kernel may be better than parts with blocks of their own: not where it has no common axis and
    is one block, and not where nothing is reduced and blocks share out the axis that elements lie along in memory."""
    if not shape.rows or any(s.reduction is not None for s in statements):
        return bool(shape.rows)
    widest = max((s for s in statements if s.name not in shape.inlined), key=lambda s: s.points)
    along = (shape.axes[widest.name, name] for index in widest.write.indices[-1:] for name in index.iterators())
    return not any(axis in shape.rows for axis in along)


def handed_over(shape: Shape, statements: Sequence[Statement]) -> frozenset[str]:
    """Intermediates of a stitched kernel that one thread makes and another uses.

    One value for a row needs no room to speak of; rows do, unless maker and reader walk them alike.
    """
    left = inline([s for s in statements if s.name in shape.inlined], statements)
    makers = {s.write.array: s for s in left}
    found = set()
    for reader in left:
        for array in makers.keys() & set(reader.sources):
            maker = makers[array]
            kept = {shape.axes[maker.name, i.name] for i in maker.parallel} - set(shape.rows)
            alike = maker.reduction is None and own_axes(maker, shape) == own_axes(reader, shape)
            if kept and not (alike and _where_made(maker, reader, shape)):
                found.add(array)
    return frozenset(found)


def _where_made(maker: Statement, reader: Statement, shape: Shape) -> bool:
    """Whether a statement reads another's array at the points that it is at, and no neighbours of them."""

    def place(statement: Statement, access: Access) -> tuple[Index, ...]:
        axes = {i.name: f"axis {shape.axes[statement.name, i.name]}" for i in statement.iterators}
        values = {name: Index.of(axis) for name, axis in axes.items()}
        extents = {axes[i.name]: i.extent for i in statement.iterators}
        return tuple(rewrite_index(index, values, lambda inner: inner, extents) for index in access.indices)

    made = place(maker, maker.write)
    reads = [a for a in reader.reads() if a.array == maker.write.array]
    return all(not a.guards and place(reader, a) == made for a in reads)


def row_bytes(shape: Shape, statements: Sequence[Statement], arrays: Mapping[str, Array]) -> dict[str, int]:
    """What a block that owns one row of a stitched kernel hands over in shared memory: array -> bytes."""
    rows = max(1, shape.row_points)
    divided = {statement for (statement, _), axis in shape.axes.items() if axis in shape.rows}
    copies = {s.write.array: rows if s.name in divided else 1 for s in statements}
    return {array: -(-arrays[array].bytes // copies[array]) for array in handed_over(shape, statements)}


def _not_in_place(shape: Shape, statements: Sequence[Statement]) -> str:
    """Why a value cannot be computed in place, though its loops could be: an index that is looked up in memory, or what
    is read under a condition alone; or ""."""
    if not shape.inlined and not shape.kind.hands_over:
        return ""
    wanted = {array for statement in statements for array in looked_up(statement)}
    for statement in statements:
        if statement.write.array in wanted and (statement.name in shape.inlined or shape.kind.hands_over):
            return f"{statement.operator} computes indices that are looked up in memory"
    in_place = {s.write.array: s.operator for s in statements if s.name in shape.inlined}
    conditional = [a for s in statements for a in s.reads() if a.guards and a.array in in_place]
    behind = lookups(statements) if conditional else frozenset()
    for access in conditional:
        if access.otherwise is None or access.array in behind:
            return f"{in_place[access.array]} is read under a condition"
    return ""
