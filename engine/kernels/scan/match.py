"""Statements whose elements are running sums: y[j] = sum(r) t[j - r], where t depends on j - r alone.

Written so, n elements cost n * n terms; a prefix sum joins every term once.
"""

from __future__ import annotations

from collections.abc import Iterator as Generator
from dataclasses import dataclass

from engine.tensor.element_wise import follows, is_element_wise
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Iterator, Literal, Position, Scalar, Statement, TensorProgram

OPERATIONS = ("sum", "prod", "max", "min")
"""Reductions that may be joined in any grouping."""


@dataclass(frozen=True, slots=True)
class PrefixScan:
    """A running sum along one axis, and what is computed from each of its elements."""

    statement: Statement
    axis: int
    """Of the written array, which runs along the sum."""
    step: Iterator
    """The reduced iterator: the distance to the term."""
    is_reversed: bool
    """Whether an element is joined with those behind it."""
    followers: tuple[Statement, ...]
    """Element-wise statements over the same points, in order."""

    @property
    def length(self) -> int:
        """Elements along the axis."""
        return self.step.extent

    def at(self, statement: Statement, point: tuple[Index, ...]) -> dict[str, Index]:
        """The iterators of a statement at a point of the array."""
        return dict(zip((i.name for i in statement.parallel), point, strict=True))

    def term(self, point: tuple[Index, ...]) -> dict[str, Index]:
        """The iterators of the running sum at which its expression is the term that lies at a point."""
        found = self.at(self.statement, point)
        place = found[self.statement.parallel[self.axis].name]
        found[self.statement.parallel[self.axis].name] = Index()
        return found | {self.step.name: place if self.is_reversed else place * -1}


def match_scan(program: TensorProgram) -> PrefixScan | None:
    """The running sum that a program computes; None for other programs."""
    first, *rest = program.statements
    reduction = first.reduction
    if reduction is None or reduction.operation not in OPERATIONS or not reduction.associative:
        return None
    if len(first.reduced) != 1 or not is_element_wise(first) or first.guards:
        return None
    step = first.reduced[0]
    found = [
        PrefixScan(first, axis, step, is_reversed, tuple(rest))
        for axis, iterator in enumerate(first.parallel)
        for is_reversed in (False, True)
        if iterator.extent == step.extent > 1 and _runs_along(first.expression, iterator.name, step.name, is_reversed)
    ]
    return found[0] if found and all(follows(program, first, s) for s in rest) else None


def _runs_along(value: Scalar, place: str, step: str, is_reversed: bool) -> bool:
    """Whether an expression depends on place - step (place + step) alone, and leaves out what lies before the axis."""
    indices = list(_indices(value))
    moving = [i for i in indices if not {place, step}.isdisjoint(i.iterators())]
    sign = 1 if is_reversed else -1
    return bool(moving) and all(i.is_affine and i.coefficient(step) == sign * i.coefficient(place) for i in moving)


def _indices(value: Scalar) -> Generator[Index]:
    match value:
        case Access(_, indices, guards, _):
            yield from indices
            yield from (guard.index for guard in guards)
        case Apply(operands=operands):
            for operand in operands:
                yield from _indices(operand)
        case Position(index, _):
            yield index
        case Literal():
            pass
