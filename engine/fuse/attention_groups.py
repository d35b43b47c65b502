"""The groups of an attention become one kernel, where nobody else needs what lies between and where it pays."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

from networkx.utils import UnionFind

from engine.errors import Unsupported
from engine.fuse.attention import ATTENTION, Attention, Finder, refusal
from engine.fuse.attention_cost import MOST_DEPTH, TILES, WHOLE, gain, head_parts, shared_bytes
from engine.fuse.build import inline
from engine.fuse.partition import Partition
from engine.fuse.pattern import likeness
from engine.fuse.shape import Key, Shape, product_operands
from engine.graph.nodes import DTYPES
from engine.stitch.nodes import Fixed
from engine.target.shared import SHARED_BYTES
from engine.tensor.nodes import Apply, Literal, Statement, TensorProgram, accesses
from engine.tensor.padding import adds_nothing
from engine.tensor.rewrite import plain_iterator

OPERANDS = "an attention takes in what lies between its products and after them, not what makes their operands"
"""Why what an attention reads is made in another kernel."""


def with_attention(partition: Partition, program: TensorProgram, fixed: Fixed) -> Partition:
    """The partition with the groups of each attention as one; the others say at their boundary why they are not.

    fixed: a person's groups take nothing in, and what is kept apart stays so.
    """
    joiner = _Joiner(partition, program, fixed)
    finder = Finder(program)
    for statement in program.statements:
        quotient = finder.quotient(statement) if statement.name in joiner.home else None
        if quotient is None:
            continue
        try:
            joiner.join(finder.found(statement, quotient))
        except Unsupported as refused:
            joiner.refusals[quotient.write.array, statement.operator] = refused.reason
    return joiner.partition()


class _Joiner:
    def __init__(self, partition: Partition, program: TensorProgram, fixed: Fixed) -> None:
        self.program, self._fixed = program, fixed
        self._before = partition
        self.groups = dict(enumerate(partition.groups))
        self.refusals = dict(partition.refusals)
        self.home = {s.name: n for n, (group, _) in enumerate(partition.groups) for s in group}
        self._known: dict[Hashable, tuple[tuple[str, ...], Shape | str]] = {}
        """Likeness -> names of the first statements, and their loops or why they stay several kernels."""
        self._readers: dict[str, list[Statement]] = {}
        for statement in program.statements:
            for access in statement.reads():
                self._readers.setdefault(access.array, []).append(statement)

    def partition(self) -> Partition:
        """The groups as they are now, in an order that respects data flow."""
        return self._before.with_groups(self.groups, self.refusals)

    def join(self, found: Attention) -> None:
        """One group for an attention, in the place of the last.  Unsupported, saying why, where it stays several."""
        numbers = sorted({self.home[s.name] for s in found.members})
        members = {s.name for s in found.members}
        # A statement that several of the groups compute again stands in each of them.
        statements = tuple({s.name: s for n in numbers for s in self.groups[n][0]}.values())
        inlined = tuple(name for n in numbers for name in self.groups[n][1].inlined if name not in members)
        self._check_wishes(found, statements)
        self._check_closed(found, statements)
        shape = self._loops(found, statements, inlined)
        for number in numbers:
            del self.groups[number]
        self.groups[numbers[-1]] = statements, shape
        for statement in statements:
            self.refusals |= {(a.array, statement.operator): OPERANDS for a in statement.reads()}
        self.home |= {s.name: numbers[-1] for s in statements}

    def _loops(self, found: Attention, statements: Sequence[Statement], inlined: tuple[str, ...]) -> Shape:
        """The loops of one kernel, found once for attentions that differ in names alone.  Unsupported, saying why,
        where it cannot be one or does not pay."""
        place = {s.name: n for n, s in enumerate(statements)}
        roles = tuple(place[s.name] for s in found.members), tuple(place[name] for name in inlined)
        alike = likeness(statements, ()), roles
        if alike not in self._known:
            shape = _shape(found, [s for s in statements if s.name not in inlined], inlined)
            self._known[alike] = tuple(place), self._drawback(found, statements, inlined) or shape
        first, known = self._known[alike]
        if isinstance(known, str):
            raise refusal(found.values, known)
        return known.renamed(dict(zip(first, place, strict=True)))

    def _drawback(self, found: Attention, statements: Sequence[Statement], inlined: tuple[str, ...]) -> str:
        """Why one kernel would be wrong or slow, in no names; or ""."""
        too_large = self._excess(found)
        if too_large:
            return too_large
        if _padding_counts(found, statements, inlined):
            return "what is computed from the zeros that fill a tile would count"
        saved = gain(self.program, found)
        return "" if saved.pays else f"one kernel would not be faster: {saved}"

    def _excess(self, found: Attention) -> str:
        """Why not even the smallest tiles fit the registers and the shared memory of a block; or ""."""
        depth, heads = (math.prod(i.extent for i in side) for side in (found.scores.reduced, found.heads))
        if depth > MOST_DEPTH:
            return f"queries of {depth} elements do not fit the registers of a kernel, {MOST_DEPTH} do"
        element = DTYPES[self.program.arrays[found.weights].dtype]
        sizes, is_wide = (depth, head_parts(heads)[0]), element == DTYPES["float32"]
        needed = shared_bytes(sizes, TILES[-1], TILES[-1], 1, element, on_cores=is_wide)
        if needed <= SHARED_BYTES:
            return ""
        what = f"{TILES[-1]} queries, keys and values of {depth} and {heads} elements"
        return f"{what} take {needed:,} bytes of shared memory, a block has {SHARED_BYTES:,}"

    def _check_wishes(self, found: Attention, statements: Sequence[Statement]) -> None:
        operators = {s.operator for s in statements}
        for producer, consumer in self._fixed.apart:
            if producer in operators and consumer in operators:
                raise refusal(found.values, f"you keep {producer} and {consumer} apart")
        for group in self._fixed.groups:
            if not operators.isdisjoint(group):
                raise refusal(found.values, f"you hold {' + '.join(group)} together, without the rest of the attention")

    def _check_closed(self, found: Attention, statements: Sequence[Statement]) -> None:
        """Nothing but what follows the second product may be needed elsewhere."""
        after, inside = {found.values.write.array}, {s.name for s in statements}
        for statement in statements:
            if any(access.array in after for access in statement.reads()):
                after.add(statement.write.array)
        for statement in statements:
            array = statement.write.array
            if array in after:
                continue
            what = "the result of the softmax" if array == found.weights else f"{array}, between the products,"
            if array in self.program.outputs:
                raise refusal(found.values, f"{what} is an output too")
            allowed = {found.values.name} if array == found.weights else inside
            others = [s for s in self._readers.get(array, []) if s.name not in allowed]
            if others:
                raise refusal(found.values, f"{what} is read elsewhere too, by {others[0].operator}")


def _padding_counts(found: Attention, statements: Sequence[Statement], inlined: tuple[str, ...]) -> bool:
    """Whether zeros that fill ragged tiles count: depths in the scores, keys (whose weights are 0) in the results."""
    whole = {s.name: s for s in inline([s for s in statements if s.name in inlined], statements)}
    scores, values = whole[found.scores.name], whole[found.values.name]
    factors = product_operands(values.expression)
    assert factors is not None
    weighs = [any(a.array == found.weights for a in accesses(factor)) for factor in factors]
    weightless = Apply("mul", (Literal(0.0, "float32"), factors[weighs.index(False)]), "float32")
    is_ragged = math.prod(i.extent for i in scores.reduced) % WHOLE > 0
    return (is_ragged and not adds_nothing(scores)) or not adds_nothing(replace(values, expression=weightless))


def _shape(found: Attention, statements: Sequence[Statement], inlined: tuple[str, ...]) -> Shape:
    """The loops of an attention: rows are batches and queries, the one column is the keys.

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
    numbers: dict[Key, int] = {}
    keys = [(s.name, i.name) for s in statements for i in s.iterators]
    return {key: numbers.setdefault(axis_of[key], len(numbers)) for key in keys}
