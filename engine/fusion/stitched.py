"""The loop space of a stitched kernel: statements of different shapes whose blocks each own a point of common axes.

    m[i] = max(j) x[i,j];  p[i,k] = sum(j) x[i,j] * w[k,j];  y[i,k] = p[i,k] - m[i]     common: i; own: j, k

Every statement runs over (common axes) x (own axes).  What one statement hands to another must stay in its block: the
common axes of producer and consumer are the same iterators at the same places of the intermediate.  Own axes may be
reduced, read in another arrangement, or missing: within a block any thread can hand a value to any other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from engine.fusion.axis_splitting import digits, split, wanted_splits
from engine.fusion.disjoint_writes import disjointly_written
from engine.fusion.kinds import STITCHED
from engine.fusion.recompute import find_recomputable, find_repeatable
from engine.fusion.shape import ONE_BLOCK, Key, Shape, is_contraction, own_iterators, product_operands
from engine.tensor.nodes import Access, Statement
from engine.tensor.rewrite import plain_iterator

Uses = Mapping[str, Sequence[tuple[Statement, Access]]]
"""Array -> who writes and reads it, and how."""

FEWEST_BLOCKS = 32
"""Blocks below which more of them are worth that each computes something for itself that others do, too."""
FEW_BLOCKS = 512
"""Blocks that run at once: what each of them computes for itself costs no more than what one does."""
FEW_VECTORS, MOST_VECTORS = 8, 32
"""Vectors that a matrix is multiplied with up to which a block for each of its rows is no slower than tiles, and up to
which it may be faster, as its results are used where they are made."""
MOST_AXES = 16
"""Axes that the loops of one kernel have names for."""


def stitched_shape(
    statements: Sequence[Statement], kept: frozenset[str] = frozenset(), vectors: int = FEW_VECTORS
) -> Shape | str:
    """The loop space of a stitched kernel (`rows`: common axes, `columns`: own axes), or why there is none.

    statements: in an order that is legal to run.  kept: arrays needed outside, whose statements cannot be computed
    again inside their readers.  vectors: that a matrix may be multiplied with.
    """
    for statement in statements:
        if is_contraction(statement) and fewest_vectors(statement) > vectors:
            return f"{statement.operator} is a matrix product: its tiles fill a kernel of their own"
    shape = _with_splits(statements, kept, frozenset())
    # Copies that every block computes cost as much as there are blocks: only worth it where the GPU is nearly empty.
    few = isinstance(shape, str) or shape.row_points < FEWEST_BLOCKS
    everywhere = find_repeatable(statements, kept) if few else frozenset()
    copying = _with_splits(statements, kept, everywhere) if everywhere else shape
    if isinstance(copying, str) or (isinstance(shape, Shape) and copying.row_points <= shape.row_points):
        return shape
    return copying


def _with_splits(statements: Sequence[Statement], kept: frozenset[str], everywhere: frozenset[str]) -> Shape | str:
    """The loop space of statements, loops cut in two where that makes more blocks.

    everywhere: those that every block may compute for itself.
    """
    whole = _shape(statements, kept, everywhere)
    splits = wanted_splits(statements)
    if not splits:
        return whole
    cut = _shape([split(s, splits) for s in statements], kept, everywhere)
    if isinstance(cut, str) or (isinstance(whole, Shape) and whole.row_points >= cut.row_points):
        return whole
    return cut.with_splits(splits)


def _shape(statements: Sequence[Statement], kept: frozenset[str], everywhere: frozenset[str]) -> Shape | str:
    """The loop space of statements with their loops as they are."""
    reason = _unfit(statements)
    if reason:
        return reason
    found = _common(statements, find_recomputable(statements, kept, everywhere) | everywhere)
    again = found.again - everywhere
    own = [s for s in statements if s.name not in found.again]
    copied = [s for s in statements if s.name in found.again & everywhere]
    common = _worth_copying(own, copied, found.axes)
    axes = _axis_numbers(own, common)
    extents = {axes[s.name, i.name]: i.extent for s in own for i in s.iterators}
    for statement in copied:
        for iterator in statement.iterators:
            axes[statement.name, iterator.name] = len(extents)
            extents[len(extents)] = iterator.extent
    rows, columns = tuple(range(len(common))), tuple(range(len(common), len(extents)))
    if len(extents) > MOST_AXES:
        return f"its statements have {len(extents)} different loops, a kernel names at most {MOST_AXES}"
    points = max(s.points for s in own)
    if not rows and points > ONE_BLOCK:
        return f"{found.because}: one block would walk all {points} elements"
    inlined = tuple(s.name for s in statements if s.name in again)
    return _update_conflict(statements) or Shape(STITCHED, axes, rows, columns, extents, inlined)


def _worth_copying(
    own: Sequence[Statement], copied: Sequence[Statement], common: Sequence[Mapping[str, str]]
) -> Sequence[Mapping[str, str]]:
    """The common axes, outermost first, as far as a block has more to do than what every block computes for itself."""
    widest = max(own, key=lambda s: s.points)
    again = sum(s.points for s in copied)
    rows = math.prod(widest.extents[axis[widest.name]] for axis in common)
    while rows > FEW_BLOCKS and rows * again > widest.points:
        *common, axis = common
        rows //= widest.extents[axis[widest.name]]
    return common


def _unfit(statements: Sequence[Statement]) -> str:
    """Why no block can run these statements at all, or ""."""
    in_parts = {s.write.array for s in statements if not s.covers}
    for statement in statements:
        for array in statement.sources:
            if array in in_parts:
                return f"{statement.operator} reads {array}, which several loops write in parts"
        if statement.reduction is not None and not statement.reduction.associative:
            return f"{statement.operator} takes its terms in order: threads cannot share them"
        if statement.guards:
            return f"{statement.operator} writes only where a condition holds"
        where = (index - index.constant for index in statement.write.indices)
        if any(digits(index, statement.extents).keys() < set(index.iterators()) for index in where):
            return f"{statement.operator} writes {statement.write}, not one element for each of its points"
    return ""


def fewest_vectors(product: Statement) -> int:
    """How many vectors a product multiplies a matrix with, of its two sides the one that has fewer.

    z[b, n] = sum(k) x[b, k] * w[n, k]  with b < 4     a block for each n reads a row of w, as memory-bound kernels do
    """
    factors = product_operands(product.expression)
    assert factors is not None, product.name
    return min(math.prod(i.extent for i in own) for own in own_iterators(product, factors))


def _update_conflict(statements: Sequence[Statement]) -> str:
    """Why an update in place is no part of a block's work, or "": threads do not wait for those that read before."""
    used: dict[str, Statement] = {}
    apart = disjointly_written(statements)
    for statement in statements:
        for access in statement.reads():
            used.setdefault(access.array, statement)
        array = statement.write.array
        if array in used and array not in apart:
            return f"{statement.operator} overwrites {array} where {used[array].operator} may still need it"
        used[array] = statement
    return ""


@dataclass(frozen=True, slots=True)
class _Common:
    """Axes of which every block owns a point: statement -> iterator, for each; outermost first."""

    axes: tuple[Mapping[str, str], ...]
    again: frozenset[str]
    """Statements without such an axis, which are computed again inside their readers."""
    because: str
    """Why the first axis that is not common is none."""


def _common(statements: Sequence[Statement], cheap: frozenset[str]) -> _Common:
    """Every axis that all statements have, but for `cheap` ones, and that no value crosses."""
    rigid = [s for s in statements if s.name not in cheap]  # the last one at least: nothing here reads it
    anchor = min(rigid, key=lambda s: len(s.parallel))
    widest = max(rigid, key=lambda s: s.points)
    uses = _uses(statements)
    axes: list[Mapping[str, str]] = []
    again: frozenset[str] = frozenset()
    because = f"{anchor.operator} has one value for all"
    for iterator in anchor.parallel:
        axis = _CommonAxis(statements, uses, cheap, again, axes)
        if axis.grow(anchor, iterator.name):
            axes.append(axis.iterators)
            again = frozenset(axis.again)
        elif not axes:
            because = axis.because
    place = {i.name: n for n, i in enumerate(widest.iterators)}
    ordered = sorted(axes, key=lambda axis: place[axis[widest.name]])
    return _Common(tuple({n: a for n, a in axis.items() if n not in again} for axis in ordered), again, because)


@dataclass(slots=True)
class _CommonAxis:
    """One axis in the making: from one statement's iterator along the intermediates to all others."""

    statements: Sequence[Statement]
    uses: Uses
    cheap: frozenset[str]
    before: frozenset[str]
    """Statements that earlier axes left to be computed again."""
    others: Sequence[Mapping[str, str]]
    """The axes found so far, whose iterators are taken."""
    iterators: dict[str, str] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)
    because: str = ""

    def grow(self, start: Statement, iterator: str) -> bool:
        """Whether the axis reaches every statement without a value that crosses it."""
        self.again |= self.before
        if not self._assign(start, iterator):
            return False
        waiting = [s for s in self.statements if s.name not in self.iterators]
        while waiting:
            statement = waiting[0]
            if statement.name not in self.again:
                partner = self._matching_iterator(statement)
                if partner is None or not self._assign(statement, partner):
                    if statement.name not in self.cheap:
                        self.because = self.because or f"{statement.operator} has no loop like {iterator}"
                        return False
                    self._recompute_in_readers(statement)
            waiting = [s for s in waiting if s.name not in self.iterators and s.name not in self.again]
        return True

    def _assign(self, first: Statement, iterator: str) -> bool:
        """Give a statement its iterator, and all those that follow from it theirs."""
        extent = first.extents[iterator]
        pending = [(first, iterator, "")]
        while pending:
            statement, name, through = pending.pop()
            known = self.iterators.get(statement.name)
            if known == name or statement.name in self.again:
                continue
            reason = self._objection(statement, name, extent, through)
            if reason:
                if statement.name not in self.cheap:
                    self.because = reason
                    return False
                self._recompute_in_readers(statement)
                continue
            self.iterators[statement.name] = name
            for array, place, factor in _places(statement, name):
                for other, access in self.uses.get(array, ()):
                    partners = digits(access.indices[place], other.extents)
                    pending.append((other, next((n for n, by in partners.items() if by == factor), ""), array))
        return True

    def _objection(self, statement: Statement, name: str, extent: int, through: str) -> str:
        """Why an iterator (none: "") of a statement cannot walk the axis, or ""."""
        is_taken = statement.name in self.iterators or name in {axis.get(statement.name) for axis in self.others}
        if not name or is_taken:
            return f"{statement.operator} uses {through or 'the loop'} of other blocks"
        if name not in {i.name for i in statement.parallel}:
            return f"{statement.operator} reduces over what blocks would share out"
        if statement.extents[name] != extent:
            return f"{statement.operator} uses part of {through}"
        for access in statement.reads():
            # What is made in this group must be read at the point of the block alone.
            uses = self.uses.get(access.array)
            if not uses or any(name in digits(i, statement.extents) for i in access.indices):
                continue
            if uses[0][0].name not in self.cheap:
                return f"{statement.operator} uses {access.array} of other blocks"
            self._recompute_in_readers(uses[0][0])
        return ""

    def _recompute_in_readers(self, statement: Statement) -> None:
        """Have a statement computed again where it is read, and with it what it reads."""
        self.again.add(statement.name)
        for access in statement.reads():
            uses = self.uses.get(access.array)
            if uses and uses[0][0].name not in self.again:
                self._recompute_in_readers(uses[0][0])

    def _matching_iterator(self, statement: Statement) -> str | None:
        """The iterator of a statement that nothing ties to the axis yet: by an input that both read, else by size."""
        taken = {axis.get(statement.name) for axis in self.others}
        free = [i for i in statement.parallel if i.name not in taken]
        known = [s for s in self.statements if s.name in self.iterators]
        extent = known[0].extents[self.iterators[known[0].name]]
        where = {
            (a.array, place)
            for s in known for a in s.reads() for place, i in enumerate(a.indices)
            if plain_iterator(i) == self.iterators[s.name]
        }  # fmt: skip
        for access in statement.reads():
            for place, index in enumerate(access.indices):
                name = plain_iterator(index)
                if (access.array, place) in where and any(i.name == name and i.extent == extent for i in free):
                    return name
        return next((i.name for i in free if i.extent == extent), None)


def _places(statement: Statement, iterator: str) -> list[tuple[str, int, int]]:
    """(array, dimension, points) of the axes that the iterator of a statement walks in steps of so many points."""
    return [
        (access.array, n, by)
        for access in (statement.write, *statement.reads())
        for n, index in enumerate(access.indices)
        if (by := digits(index, statement.extents).get(iterator))
    ]


def _uses(statements: Sequence[Statement]) -> Uses:
    """Of every array that is made and read here: its write, then its reads."""
    read = {array for statement in statements for array in statement.sources}
    uses = {s.write.array: [(s, s.write)] for s in statements if s.write.array in read}
    for statement in statements:
        for access in statement.reads():
            if access.array in uses:
                uses[access.array].append((statement, access))
    return uses


def _axis_numbers(statements: Sequence[Statement], common: Sequence[Mapping[str, str]]) -> dict[Key, int]:
    """A number for every axis: the common ones first, then own ones in the order of the statements.

    Own axes of two statements are one where both index an array at the same place with them, and no statement has it
    twice.
    """
    classes: dict[Key, list[Key]] = {}
    for axis in common:
        members = list(axis.items())
        classes.update(dict.fromkeys(members, members))
    for statement in statements:
        for iterator in statement.iterators:
            key = (statement.name, iterator.name)
            classes.setdefault(key, [key])
    first: dict[tuple[str, int, int], tuple[Statement, str]] = {}
    for statement in sorted(statements, key=lambda s: s.reduction is None):
        for access in (statement.write, *statement.reads()):
            for place, index in enumerate(access.indices):
                for atom, factor in index.terms if not index.constant else ():
                    if isinstance(atom, str):
                        other, theirs = first.setdefault((access.array, place, factor), (statement, atom))
                        if other.extents[theirs] == statement.extents[atom]:
                            _unite(classes, (other.name, theirs), (statement.name, atom))
    _unite_alike(statements, classes)
    numbers: dict[int, int] = {id(classes[next(iter(axis.items()))]): n for n, axis in enumerate(common)}
    widest_first = sorted(statements, key=lambda s: -s.points)
    keys = [(s.name, i.name) for s in widest_first for i in s.iterators]
    return {key: numbers.setdefault(id(classes[key]), len(numbers)) for key in keys}


def _unite(classes: dict[Key, list[Key]], one: Key, other: Key) -> None:
    """Make one axis of two, unless a statement would walk it twice."""
    first, second = classes[one], classes[other]
    if first is second or {s for s, _ in first} & {s for s, _ in second}:
        return
    first += second
    classes.update(dict.fromkeys(second, first))


def _unite_alike(statements: Sequence[Statement], classes: dict[Key, list[Key]]) -> None:
    """Own axes that nothing ties together get one name where they have the place and extent of the widest one's."""
    anchor = max(statements, key=lambda s: s.points)
    for statement in statements:
        for mine, theirs in zip(reversed(statement.iterators), reversed(anchor.iterators), strict=False):
            if mine.extent == theirs.extent and len(classes[statement.name, mine.name]) == 1:
                _unite(classes, (anchor.name, theirs.name), (statement.name, mine.name))


def own_axes(statement: Statement, shape: Shape) -> tuple[int, ...]:
    """The axes of a statement that its block walks, in the statement's order."""
    rows: Collection[int] = shape.rows
    return tuple(a for i in statement.iterators if (a := shape.axes[statement.name, i.name]) not in rows)
