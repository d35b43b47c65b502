"""A schedule tree as one time stamp (list of components) for each statement."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from engine.scheduling.nodes import Band, Leaf, Member, Node, ScheduleTree, Sequence
from engine.support.errors import BadInput
from engine.support.values import value
from engine.tensor.index import Index, Quotient, Remainder
from engine.tensor.nodes import TensorProgram

AFFINE, TILE, PLACE, OTHER = "affine", "tile", "place", "other"
"""Kinds of rows: without division, floor(r / F), r mod F, and any other division."""


@value(frozen=True, slots=True)
class TimeComponent:
    """One component of a statement's time stamp: a row of a band, or a place in a sequence or leaf."""

    level: str
    """Name of the dimension, or "sequence"."""
    row: Index
    terms: tuple[tuple[int, int], ...]
    """The row as (position of the iterator, coefficient)."""
    member: Member | None = None
    """The band member; None for a place in a sequence."""
    opens: bool = False
    """Whether this is the first member of its band."""
    permutable: bool = False
    part: str = AFFINE
    """What the row is; `terms` and `origin` are those of the row that was split, for the two parts of it."""
    origin: Index | None = None
    """The affine row that was split, for a part of one."""

    @property
    def constant(self) -> int:
        """That of the affine row that `terms` belong to."""
        return (self.row if self.origin is None else self.origin).constant


Timeline = tuple[TimeComponent, ...]


def timelines(tree: ScheduleTree, program: TensorProgram) -> dict[str, Timeline]:
    """Statement name -> its steps, outermost first.

    Raises BadInput when the tree does not hold every statement exactly once with an affine row in each dimension.
    """
    statements = {s.name: {i.name: k for k, i in enumerate(s.iterators)} for s in program.statements}
    result: dict[str, Timeline] = {}
    for name, steps in _visit(tree.root, statements, ()):
        if name in result:
            raise BadInput("schedule", name, "stands twice in the schedule tree")
        result[name] = steps
    missing = [name for name in statements if name not in result]
    if missing:
        raise BadInput("schedule", ", ".join(missing), "missing in the schedule tree")
    return result


Positions = Mapping[str, int]
"""Iterator -> its position in the statement's box."""


def _visit(node: Node, statements: Mapping[str, Positions], above: Timeline) -> list[tuple[str, Timeline]]:
    """(statement, its steps) for every statement of the subtree; `above` are the steps on the way to it."""
    match node:
        case Leaf(listed):
            unknown = [n for n in listed if n not in statements]
            if unknown:
                raise BadInput("schedule", ", ".join(unknown), "in the schedule tree but not in the program")
            return [(name, (*above, _place(position))) for position, name in enumerate(listed)]
        case Sequence(children):
            return [
                found
                for position, child in enumerate(children)
                for found in _visit(child, statements, (*above, _place(position)))
            ]
        case Band(members, permutable, child):
            below = _visit(child, statements, ())
            rows = {name: _rows(members, permutable, name, statements[name]) for name, _ in below}
            return [(name, (*above, *rows[name], *rest)) for name, rest in below]


@lru_cache(maxsize=1024)
def _place(position: int) -> TimeComponent:
    return TimeComponent("sequence", Index((), position), ())


def _rows(members: tuple[Member, ...], permutable: bool, statement: str, position: Positions) -> Timeline:
    steps = []
    for number, member in enumerate(members):
        row = member.rows.get(statement)
        if row is None:
            raise BadInput("schedule", f"dimension {member.name}", f"has no row for {statement}")
        part, origin = unsplit(row)
        names = [atom for atom, _ in row.terms] if part == AFFINE else row.iterators()
        if row.is_indirect or not all(name in position for name in names):
            reason = f"row {row} of {statement} is not quasi-affine in its iterators"
            raise BadInput("schedule", f"dimension {member.name}", reason)
        terms = tuple((position[str(atom)], c) for atom, c in origin.terms)
        steps.append(TimeComponent(member.name, row, terms, member, number == 0, permutable, part, origin))
    return tuple(steps)


def unsplit(row: Index) -> tuple[str, Index]:
    """(kind of a row, the affine row that it is a part of; 0 for any other row with divisions)."""
    if row.is_affine:
        return AFFINE, row
    match row:
        case Index(((Quotient(of, _), 1),), 0):
            part = TILE
        case Index(((Remainder(of, _), 1),), 0):
            part = PLACE
        case _:
            return OTHER, Index()
    inner, origin = unsplit(of)
    return (part, origin) if inner in (AFFINE, PLACE) else (OTHER, Index())
