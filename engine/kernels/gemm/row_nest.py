"""The nest of a product whose kernel reduces rows of its results: the columns count as outer loops of all statements.

    band i                                           ->   outer: i, j
      sequence                                            phases: [k: S0] [: S1 S2 S3]
        band j, k: S0  |  band j: S1  |  S2  |  band j: S3

A block has whole rows, and its kernel walks them as the sums lie in registers: the loops over columns below the rows
may be cut, joined and ordered in any way that keeps the dependences.
"""

from __future__ import annotations

from dataclasses import replace

from engine.kernels.loop_nest import Nest, Phase, block_nest
from engine.scheduling.nodes import Mark, Member, ScheduleTree
from engine.support.errors import Unsupported
from engine.tensor.index import Index
from engine.tensor.nodes import Statement, TensorProgram
from engine.tensor.rewrite import plain_iterator


def row_nest(program: TensorProgram, tree: ScheduleTree, anchor: Statement) -> Nest:
    """The nest of a schedule with `anchor` in the middle of its rows; Unsupported where rows are not walked whole."""
    nest = block_nest(program, tree)
    members = members_by_iterator(nest, anchor)
    marks = marks_by_iterator(nest, anchor)
    missing = [i.name for i in anchor.iterators if i.name not in members]
    if missing:
        reason = f"{anchor.name} has no loop {missing[0]}"
        raise Unsupported("codegen", f"schedule of {program.name}", reason, "let each iterator have a loop")
    whole = {name: replace(member, marks=marks.get(name, ())) for name, member in members.items()}
    rows = [m for name, m in whole.items() if name in {i.name for i in anchor.parallel}]
    depth = tuple(whole[name] for name in whole if name not in {i.name for i in anchor.parallel})
    after = tuple(s for phase in nest.phases for s in phase.statements if s is not anchor)
    outer = tuple(member_of_all(m, anchor, program) for m in rows)
    return Nest(outer, (Phase(depth, (anchor,)), Phase((), after)))


def members_by_iterator(nest: Nest, anchor: Statement) -> dict[str, Member]:
    """The dimensions that move the product, outermost first, by its iterator."""
    own = next(phase.members for phase in nest.phases if anchor in phase.statements)
    found = ((plain_iterator(m.rows[anchor.name]), m) for m in (*nest.outer, *own))
    return {name: member for name, member in found if name is not None}


def marks_by_iterator(nest: Nest, anchor: Statement) -> dict[str, tuple[Mark, ...]]:
    """The marks on all loops over an axis, which have the name of its iterator in every statement."""
    found: dict[str, dict[Mark, None]] = {}
    for member in sorted(nest.members, key=lambda m: anchor.name not in m.rows):
        for name in dict.fromkeys(filter(None, map(plain_iterator, member.rows.values()))):
            found.setdefault(name, {}).update(dict.fromkeys(member.marks))
    return {name: tuple(marks) for name, marks in found.items()}


def member_of_all(member: Member, anchor: Statement, program: TensorProgram) -> Member:
    """A dimension as one of all statements: those without its iterator stand still along it."""
    name = plain_iterator(member.rows[anchor.name])
    assert name is not None
    rows = {s.name: Index.of(name) if name in s.extents else Index() for s in program.statements}
    return replace(member, rows=rows)
