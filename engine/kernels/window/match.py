"""Statements that reduce a window which slides over an image.

    y[n, c, i, j] = sum(r, s) x[n, c, 2 i + r - 1, 2 j + s - 1] * w[c, r, s]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.tensor.element_wise import follows, is_element_wise
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Iterator, Statement, TensorProgram, accesses
from engine.tensor.rewrite import looked_up, plain_iterator

OPERATIONS = ("sum", "prod", "max", "min")
MOST_TAPS = 64
"""Of a window: a thread takes all of them."""


@dataclass(frozen=True, slots=True)
class Slide:
    """An axis of the image along which the window slides."""

    axis: int
    """Of the image."""
    kept: Iterator
    """Along the results."""
    tap: Iterator
    """Inside the window."""
    step: int
    """In the image, from one result to the next."""
    apart: int
    """In the image, from one tap to the next."""

    def reach(self, results: int) -> int:
        """Places of the image from the first tap of the first of some neighbouring results to the last of the last."""
        return (results - 1) * self.step + (self.tap.extent - 1) * self.apart + 1

    def pair(self, place: int, results: int) -> tuple[int, int] | None:
        """A result among some and a tap that meet at a place of their reach; None where none does."""
        for tap in range(self.tap.extent):
            result, rest = divmod(place - tap * self.apart, self.step)
            if not rest and 0 <= result < results:
                return result, tap
        return None


@dataclass(frozen=True, slots=True)
class Windows:
    """A reduction of windows, and what is computed from each result."""

    statement: Statement
    image: Access
    slides: tuple[Slide, ...]
    """One or two, the last along the image's later axis."""
    followers: tuple[Statement, ...]
    """Element-wise statements over the same points, in order."""

    @property
    def along(self) -> Slide:
        """The slide that strips run along."""
        return self.slides[-1]

    @property
    def down(self) -> Slide | None:
        """The other one."""
        return self.slides[0] if len(self.slides) > 1 else None

    @property
    def lane(self) -> Iterator | None:
        """The iterator of neighbours in the image's memory, where the window does not slide along them; None where it
        does."""
        name = plain_iterator(self.image.indices[-1])
        return next((i for i in self.statement.parallel if i.name == name and i != self.along.kept), None)

    @property
    def neighbours(self) -> int:
        """The place among the loops of the results, of every statement, of the one along the image's memory."""
        return self.statement.parallel.index(self.lane or self.along.kept)


def match_windows(program: TensorProgram) -> Windows | None:
    """The windows that a program reduces; None for other programs."""
    first, *rest = program.statements
    reduction = first.reduction
    if reduction is None or reduction.operation not in OPERATIONS or first.guards or not is_element_wise(first):
        return None
    if not set(program.inputs).isdisjoint(program.outputs) or math.prod(i.extent for i in first.reduced) > MOST_TAPS:
        return None
    if looked_up(first) or not all(follows(program, first, s) or _is_in_place(program, first, s) for s in rest):
        return None
    images = {access for access in accesses(first.expression) if _slides(access, first)}
    if len(images) != 1:
        return None
    (image,) = images
    slides = _slides(image, first)
    if len(slides) > 2 or {s.tap for s in slides} != set(first.reduced) or image.array in program.outputs:
        return None
    if len([a for a in accesses(first.expression) if a.array == image.array]) > 1 or not _are_guards_of(image, slides):
        return None
    found = Windows(first, image, slides, tuple(rest))
    is_along = slides[-1].axis == len(image.indices) - 1
    return found if is_along or (found.lane is not None and found.lane not in [s.kept for s in slides]) else None


def _is_in_place(program: TensorProgram, first: Statement, statement: Statement) -> bool:
    """Whether a statement with the loops of the first one reads others at its own point, whatever the order of axes."""
    written = {s.write.array: s.write.indices for s in program.statements}
    names = [plain_iterator(index) for index in statement.write.indices]
    return (
        statement.reduction is None and not statement.guards and statement.parallel == first.parallel
        and sorted(filter(None, names)) == sorted(i.name for i in first.parallel) and None not in names
        and all(not i.is_indirect for a in statement.reads() for i in a.indices)
        and all(a.indices == written[a.array] and not a.guards for a in statement.reads() if a.array in written)
    )  # fmt: skip


def _slides(access: Access, statement: Statement) -> tuple[Slide, ...]:
    """The axes along which an access slides; none where an index is moved otherwise by what is reduced."""
    reduced, found = {i.name: i for i in statement.reduced}, list[Slide]()
    for axis, index in enumerate(access.indices):
        taps = [name for name in index.iterators() if name in reduced]
        if not taps:
            continue
        kept = [i for i in statement.parallel if i.name in index.iterators()]
        if not index.is_affine or len(taps) != 1 or len(kept) != 1:
            return ()
        step, apart = index.coefficient(kept[0].name), index.coefficient(taps[0])
        if step < 1 or apart < 1 or any(s.kept == kept[0] or s.tap.name == taps[0] for s in found):
            return ()
        found.append(Slide(axis, kept[0], reduced[taps[0]], step, apart))
    return tuple(found)


def _are_guards_of(image: Access, slides: tuple[Slide, ...]) -> bool:
    """Whether every guard asks for the place along one slide, so that it holds for all results that share the place."""
    places = [image.indices[slide.axis] for slide in slides]

    def asks(guard: Index) -> bool:
        return any(not (guard - place).terms or not (guard + place).terms for place in places)

    return all(asks(guard.index) for guard in image.guards)
