"""The vector width a nest can really use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.codegen.nest import Nest
from engine.schedule.nodes import Member
from engine.tensor.access import vector_limit
from engine.tensor.nodes import Statement, TensorProgram
from engine.tensor.rewrite import plain_iterator


@dataclass(frozen=True, slots=True)
class Width:
    """Elements of one vector, and notes for the entries that asked for another width."""

    elements: int
    notes: Mapping[tuple[int, ...], str] = field(default_factory=dict)


def vector_width(
    program: TensorProgram, statements: Sequence[Statement], nest: Nest, along: Member | None = None
) -> Width:
    """The width asked for by the `vector` mark, halved until the accesses allow it.

    along: the dimension that vectors run along; by default the last one.
    """
    member = along or (nest.outer[-1] if nest.outer else None)
    asked = [(mark.path, int(mark.value)) for _, mark in nest.marks("vector")]
    if member is None or not asked:
        return Width(1)
    iterators = {s: n for s, row in member.rows.items() if (n := plain_iterator(row)) is not None}
    outside = {a: program.arrays[a] for a in (*program.inputs, *program.outputs)}
    limit = vector_limit(statements, outside, iterators)
    chosen = nest.chosen("vector")
    users = chosen is not None and chosen[1].author == "user"
    wanted = int(chosen[1].value) if chosen and users else max(width for _, width in asked)
    width = 1
    while width * 2 <= min(wanted, limit):
        width *= 2
    reason = f"vector {width}: along {member.name} the accesses allow no more (extent {member.extent}, alignment, type)"
    if users and width == wanted:
        reason = f"vector {width}: the user asks for no more"
    return Width(width, {path: reason for path, value in asked if value != width})
