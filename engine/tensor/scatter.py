"""Statements that search all updates for those of each element: y[k, d] = sum(u) (index[u] == k ? update[u, d] : 0).

Written so, n elements and u updates cost n * u comparisons; sorted by their destination, every update is joined once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator as Generator
from dataclasses import dataclass

from engine.tensor.element_wise import follows, is_element_wise
from engine.tensor.index import Index
from engine.tensor.nodes import (
    Apply,
    Iterator,
    Literal,
    Position,
    Reduction,
    Scalar,
    Statement,
    TensorProgram,
    indices_in,
    leaves,
)

OPERATIONS = ("sum", "prod", "max", "min")
WORTH_SORTING = 2**20
"""Comparisons of a search below which it takes less time than a second launch does."""


Places = tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True, slots=True)
class Scatter:
    """A search for updates, and what is computed from each of its results."""

    statement: Statement
    places: Places
    """(iterator of the result, the integer that names its value) of each comparison."""
    columns: tuple[Iterator, ...]
    """Other iterators of the result on which these integers depend: each of their points has updates of its own."""
    features: tuple[Iterator, ...]
    """The others: an update has an element for each of their points."""
    update: Scalar
    """What an update is joined as."""
    neutral: Literal
    """What elements without updates are joined with."""
    followers: tuple[Statement, ...]
    """Element-wise statements over the same points, in order."""

    @property
    def keys(self) -> tuple[Iterator, ...]:
        """Iterators that the indices name values of."""
        named = {name for name, _ in self.places}
        return tuple(i for i in self.statement.parallel if i.name in named)

    @property
    def destinations(self) -> tuple[Iterator, ...]:
        """Iterators whose points have updates of their own, in the order of the result."""
        own = {i.name for i in (*self.keys, *self.columns)}
        return tuple(i for i in self.statement.parallel if i.name in own)

    @property
    def updates(self) -> int:
        """Of each point of `columns`."""
        return math.prod(i.extent for i in self.statement.reduced)

    @property
    def in_order(self) -> bool:
        """Whether the sum of several updates depends on their order: of floats, that is rounded."""
        reduction = self.statement.reduction
        assert reduction is not None
        return "float" in reduction.accumulate and reduction.operation in ("sum", "prod")


def is_scatter(statement: Statement) -> bool:
    """Whether a statement searches for updates, many enough to be sorted."""
    return _search_of(statement) is not None


def match_scatter(program: TensorProgram) -> Scatter | None:
    """The scatter that a program computes by search; None for other programs, and where the search is short."""
    first, *rest = program.statements
    found = _search_of(first)
    if found is None or not all(follows(program, first, statement) for statement in rest):
        return None
    places, update, neutral = found
    keys, used = {name for name, _ in places}, _indexed_by(first, places)
    columns = tuple(i for i in first.parallel if i.name in used)
    features = tuple(i for i in first.parallel if i.name not in keys | used)
    return Scatter(first, places, columns, features, update, neutral, tuple(rest))


def _search_of(statement: Statement) -> tuple[Places, Scalar, Literal] | None:
    """(places, update, neutral) of a statement that searches for updates, as `Scatter` has them."""
    reduction = statement.reduction
    if reduction is None or reduction.operation not in OPERATIONS or statement.guards or not is_element_wise(statement):
        return None
    found = _choice(statement.expression, reduction)
    if found is None or math.prod(i.extent for i in statement.iterators) < WORTH_SORTING:
        return None
    condition, update, neutral = found
    places = tuple(_places(condition, {i.name: i for i in statement.parallel}))
    keys = {name for name, _ in places}
    if not places or len(keys) < len(places) or len(places) != _comparisons(condition):
        return None
    if keys & (_indexed_by(statement, places) | _iterators(update)):
        return None
    return places, update, neutral


def _indexed_by(statement: Statement, places: Places) -> set[str]:
    """Iterators of the result that the indices depend on."""
    return {n for _, place in places for n in _iterators(place)} - {i.name for i in statement.reduced}


def _choice(value: Scalar, reduction: Reduction) -> tuple[Scalar, Scalar, Literal] | None:
    """(condition, update, neutral) of a term that changes nothing where the condition fails."""
    match value:
        case Apply("cast", (inner,), dtype) if found := _choice(inner, reduction):
            condition, update, neutral = found
            return condition, Apply("cast", (update,), dtype), Literal(neutral.value, dtype)
        case Apply("select", (condition, update, Literal(other, _) as neutral)):
            # The largest number of an update, -1 where there is none: no number is below 0.
            counts = reduction.operation == "max" and isinstance(update, Position) and other == -1
            return (condition, update, neutral) if other == reduction.identity or counts else None
    return None


def _iterators(value: Scalar) -> set[str]:
    """Every iterator that an expression depends on."""
    return {n for leaf in leaves(value) for index in indices_in(leaf) for n in index.iterators()}


def _comparisons(condition: Scalar) -> int:
    match condition:
        case Apply("and", (first, second)):
            return _comparisons(first) + _comparisons(second)
    return 1


def _places(condition: Scalar, parallel: dict[str, Iterator]) -> Generator[tuple[str, Scalar]]:
    """Each integer that must equal an iterator of the result."""
    match condition:
        case Apply("and", (first, second)):
            yield from _places(first, parallel)
            yield from _places(second, parallel)
        case Apply("equal", (place, Position(index, _))) if str(index) in parallel and index == Index.of(str(index)):
            yield str(index), place
