"""The dimensions around each statement of a schedule tree, and where rows of two statements are always equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from engine.poly.nodes import Dependence
from engine.scheduling.nodes import Band, Leaf, Member, Node, Sequence, statements_of
from engine.tensor.index import Index
from engine.tensor.nodes import Statement, TensorProgram


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """One dimension of a tree, with the values that its rows take together."""

    member: Member
    low: int
    """The smallest value."""
    extent: int
    """Values from the smallest to the largest."""

    @property
    def name(self) -> str:
        """As the schedule calls it."""
        return self.member.name

    def row(self, statement: Statement) -> Index:
        """Its row of a statement below it: an affine one, that of the whole dimension for a part of a split one.

        Where two instances have the same value of it, they have the same value of the part, too.
        """
        return _whole(self.member).rows[statement.name]

    @property
    def parts(self) -> tuple[tuple[bool, int], ...]:
        """(is a tile, factor) of each split that leads to it, innermost first; none for a whole dimension."""
        return tuple(_splits(self.member))


def _whole(member: Member) -> Member:
    while member.tiling is not None:
        member = member.tiling.whole
    return member


def _splits(member: Member) -> Iterator[tuple[bool, int]]:
    while member.tiling is not None:
        yield member.tiling.is_tile, member.tiling.factor
        member = member.tiling.whole


def whole_rows(
    statement: Statement, values: Iterable[tuple[Dimension, Index]]
) -> tuple[list[tuple[Index, Index]], list[Index]]:
    """((affine row, its value) of the dimensions that have values, what must be >= 0 for an instance to be there).

    The two parts of a split dimension together give the value of its row, one alone says nothing.  A place in a tile
    that is split again, by no divisor of the tile, must not leave it.

        i / 8 = i_tile, i % 8 = i_place    ->   i = 8 * i_tile + i_place
    """
    found: list[tuple[Index, Index]] = []
    conditions: list[Index] = []
    waiting = [(dimension.member, value) for dimension, value in values]
    halves: dict[int, tuple[bool, Index]] = {}
    for member, value in waiting:
        tiling = member.tiling
        if tiling is None:
            found.append((member.rows[statement.name], value))
        elif id(tiling.whole) not in halves:
            halves[id(tiling.whole)] = tiling.is_tile, value
        else:
            _, other = halves.pop(id(tiling.whole))
            tile, place = (value, other) if tiling.is_tile else (other, value)
            waiting.append((tiling.whole, tile * tiling.factor + place))
            outer = tiling.whole.tiling
            if outer is not None and not outer.is_tile and outer.factor % tiling.factor:
                conditions.append(Index((), outer.factor - 1) - waiting[-1][1])
    return found, conditions


def is_cyclic(around: Iterable[Dimension], statement: Statement) -> bool:
    """Whether the loop over the places in a tile of terms stands outside the loop over the tiles."""
    reduced = statement.reduction.iterators if statement.reduction else ()
    places: set[int] = set()
    for dimension in around:
        tiling = dimension.member.tiling
        if tiling is not None and moves(dimension.row(statement), reduced):
            if tiling.is_tile and id(tiling.whole) in places:
                return True
            if not tiling.is_tile:
                places.add(id(tiling.whole))
    return False


@dataclass(frozen=True, slots=True)
class NestLoop:
    """One dimension around a subtree."""

    dimension: Dimension
    statements: tuple[str, ...]
    body: Nest


@dataclass(frozen=True, slots=True)
class NestSequence:
    """Subtrees that run one after the other."""

    parts: tuple[Nest, ...]


Nest = NestLoop | NestSequence | Leaf
"""A schedule tree with its bands taken apart: one dimension a node."""


def loops_of(program: TensorProgram, node: Node) -> Nest:
    """A schedule tree with its bands taken apart."""
    match node:
        case Band(members, _, child):
            body = loops_of(program, child)
            for member in reversed(members):
                body = NestLoop(_dimension(program, member), statements_of(node), body)
            return body
        case Sequence(children):
            return NestSequence(tuple(loops_of(program, child) for child in children))
        case Leaf():
            return node


Paths = Mapping[str, tuple[Dimension, ...]]
"""Statement -> the dimensions around it, outermost first."""


def paths(nest: Nest) -> Paths:
    """The dimensions around each statement."""
    return dict(_paths(nest, ()))


def _paths(nest: Nest, above: tuple[Dimension, ...]) -> Iterator[tuple[str, tuple[Dimension, ...]]]:
    match nest:
        case Leaf(names):
            yield from ((name, above) for name in names)
        case NestSequence(parts):
            for part in parts:
                yield from _paths(part, above)
        case NestLoop(dimension, _, body):
            yield from _paths(body, (*above, dimension))


def _dimension(program: TensorProgram, member: Member) -> Dimension:
    ranges = [row.bounds(program.statement(name).extents) for name, row in member.rows.items()]
    low = min(low for low, _ in ranges)
    return Dimension(member, low, max(high for _, high in ranges) - low + 1)


def is_kept(dependence: Dependence, program: TensorProgram, source: Index, sink: Index) -> bool:
    """Whether two rows have the same value at every pair of instances of a dependence."""
    before = _coefficients(program.statement(dependence.source), source)
    after = _coefficients(program.statement(dependence.sink), sink)
    constant = sink.constant - source.constant
    return before is not None and after is not None and not any(
        sum(c * g.sink[k] for k, c in after) - sum(c * g.source[k] for k, c in before) + constant * g.one
        for g in dependence.generators
    )


def _coefficients(statement: Statement, row: Index) -> list[tuple[int, int]] | None:
    """(position of an iterator, its coefficient); None for a row with divisions."""
    if not row.is_affine:
        return None
    number = {iterator.name: k for k, iterator in enumerate(statement.iterators)}
    return [(number[str(atom)], coefficient) for atom, coefficient in row.terms]


def moves(row: Index, iterators: Iterable[str]) -> bool:
    """Whether a row changes with one of some iterators."""
    return not set(iterators).isdisjoint(row.iterators())
