"""The loop nest of a schedule tree, in the form that kernels are made from.

    band i, j (parallel)            ->   outer: i, j
      sequence                           phases: [k: S0] [: S1] [k: S2 S3]
        band k: S0
        S1
        band k: S2 S3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from engine.scheduling.nodes import Band, Leaf, Member, Node, ScheduleTree, Sequence, statements_of, walk
from engine.support.errors import Unsupported
from engine.tensor.index import Index
from engine.tensor.nodes import Statement, TensorProgram
from engine.tensor.rewrite import plain_iterator


@dataclass(frozen=True, slots=True)
class Phase:
    """Loops inside the outer band and the statements at their bottom, in order."""

    members: tuple[Member, ...]
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Nest:
    """Parallel outer dimensions and the phases that run one after the other inside."""

    outer: tuple[Member, ...]
    phases: tuple[Phase, ...]

    @property
    def members(self) -> tuple[Member, ...]:
        """Every dimension, outer ones first."""
        return (*self.outer, *(m for p in self.phases for m in p.members))

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Every statement in the order of the phases."""
        return tuple(s for p in self.phases for s in p.statements)


def loop_nest(program: TensorProgram, tree: ScheduleTree) -> Nest:
    """The nest of a schedule; Unsupported where it needs more than one kernel or loops that are not rectangular."""
    tree = with_plain_rows(program, tree)
    outer, node = _outer(program, tree)
    whole = any(s.reduction and not s.parallel for s in program.statements)
    if isinstance(node, Sequence) and not outer and not whole:
        parts = " | ".join(" ".join(statements_of(c)) for c in node.children)
        reason = f"it cuts the group at the outermost dimension ({parts}): its kernels keep one grid for all parts"
        raise _bad_schedule(program, reason, "cut after an outer parallel dimension, or split the group")
    phases = tuple(_phases(node, program))
    for phase in phases:
        for statement in phase.statements:
            _check_reduction_inside(statement, phase.members, program)
    return Nest(outer, phases)


def block_nest(program: TensorProgram, tree: ScheduleTree) -> Nest:
    """The nest of a stitched schedule: what a block does at its point of the outer dimensions, phase by phase.

    A loop around a sequence becomes a loop of each of its parts, which is legal where no part needs a later one.

        band j: S0 | k: S1    ->    [j: S0] [j, k: S1]
    """
    tree = with_plain_rows(program, tree)
    outer, node = _outer(program, tree)
    phases = tuple(_distribute(node, (), program))
    waiting = Counter(s.write.array for s in program.statements)  # parts of one array have writers of their own
    for statement in (s for phase in phases for s in phase.statements):
        early = [a.array for a in statement.reads() if waiting[a.array]]
        if early:
            both = f"{statement.name} runs among the iterations that make {early[0]}"
            reason = f"{both}, and a block makes all of it first"
            raise _bad_schedule(program, reason, "let no loop go around both in that order")
        waiting[statement.write.array] -= 1
    return Nest(outer, phases)


def _outer(program: TensorProgram, tree: ScheduleTree) -> tuple[tuple[Member, ...], Node]:
    """The dimensions that blocks are made of, and what is inside."""
    outer: tuple[Member, ...] = ()
    node = tree.root
    while isinstance(node, Band) and _is_outer(node, program):
        outer += node.members
        node = node.child
    return outer, node


def _distribute(node: Node, above: tuple[Member, ...], program: TensorProgram) -> Iterator[Phase]:
    match node:
        case Sequence(children):
            for child in children:
                yield from _distribute(child, above, program)
        case Band(members, _, child):
            yield from _distribute(child, (*above, *members), program)
        case Leaf(names):
            yield Phase(above, tuple(program.statement(n) for n in names))


def without_loops(nest: Nest, statements: Iterable[Statement]) -> None:
    """Unsupported unless each of `statements` has all its loops among the outer dimensions."""
    for phase in nest.phases:
        inside = [s.name for s in phase.statements if s in statements]
        if phase.members and inside:
            loop = f"loop {phase.members[0].name} of {' '.join(inside)}"
            reason = "is not shared with the other statements, so each thread would run it alone"
            raise Unsupported("codegen", loop, reason, "let the statements share all their loops")


def _check_reduction_inside(statement: Statement, members: tuple[Member, ...], program: TensorProgram) -> None:
    """A reduction's loops must be the reduced iterators alone: a sum for each element, not elements for each term."""
    for member in members:
        name = plain_iterator(member.rows[statement.name])
        if statement.reduction and name is not None and name not in statement.reduction.iterators:
            reason = f"{statement.name} has its loop {name} at or inside the loops it reduces"
            raise _bad_schedule(program, reason, f"pin {name} outside")


def _bad_schedule(program: TensorProgram, reason: str, hint: str) -> Unsupported:
    return Unsupported("codegen", f"schedule of {program.name}", reason, hint)


def with_plain_rows(program: TensorProgram, tree: ScheduleTree) -> ScheduleTree:
    """The same order as loops of one iterator each, as these families walk them: a loop whose rows are one multiple,
    shift or reversal of their iterators has the iterators themselves.

    Unsupported where an iterator does not run through the whole loop in each statement.
    """

    def plain(node: Node) -> Node:
        match node:
            case Leaf():
                return node
            case Sequence(children):
                return Sequence(tuple(map(plain, children)))
            case Band(members, _, child):
                return replace(node, members=tuple(_plain_member(m, program) for m in members), child=plain(child))

    if _misfit(program, tree.root) is None:
        return tree
    found = ScheduleTree(plain(tree.root))
    misfit = _misfit(program, found.root)
    if misfit is not None:
        raise misfit
    return found


def _plain_member(member: Member, program: TensorProgram) -> Member:
    """A dimension t = a * i + c of all its statements as i; as it is where they differ, or a reversal changes more than
    the order of independent points or of the terms of a sum."""
    moving = [row for row in member.rows.values() if row.terms]
    if any(len(row.terms) > 1 or not isinstance(row.terms[0][0], str) for row in moving):
        return member
    lines = {(row.terms[0][1], row.constant) for row in moving}
    if len(lines) != 1 or lines == {(1, 0)}:
        return member
    step, start = lines.pop()
    if step < 0 and not (member.parallel or _only_sums(member, program)):
        return member
    places = {name: (row.constant - start) / step for name, row in member.rows.items() if not row.terms}
    extent = (member.extent - 1 - start) // step + 1 if step > 0 else start // -step + 1
    if any(place not in range(extent) for place in places.values()):
        return member
    rows = {
        name: Index.of(row.iterators()[0]) if row.terms else Index((), int(places[name]))
        for name, row in member.rows.items()
    }
    return replace(member, rows=rows, extent=extent)


def _only_sums(member: Member, program: TensorProgram) -> bool:
    """Whether a loop walks the terms of one reduction alone, which these kernels take in any order."""
    (name, *others), row = member.rows, next(iter(member.rows.values()))
    reduction = program.statement(name).reduction
    return not others and reduction is not None and reduction.associative and row.iterators()[0] in reduction.iterators


def _misfit(program: TensorProgram, root: Node) -> Unsupported | None:
    """Why a loop is not one iterator, which runs through the whole loop in each statement; None where all are."""
    for band in walk(root):
        for member in band.members if isinstance(band, Band) else ():
            for statement, row in member.rows.items():
                iterator = plain_iterator(row)
                if not row.terms or _runs_through(program.statement(statement), iterator, member):
                    continue
                extents = program.statement(statement).extents
                what = f"over {row}" if iterator is None else f"{extents[iterator]} times"
                where = f"dimension {member.name} of {member.extent}"
                nearest = f"nearest is one iterator there: pin {' or '.join(row.iterators())}"
                return _bad_schedule(
                    program,
                    f"{statement} runs {what} in {where}, but a loop is one iterator",
                    f"{nearest} in place of the terms, equal or objective that asks for more",
                )
    return None


def _runs_through(statement: Statement, iterator: str | None, member: Member) -> bool:
    """Whether a statement's iterator takes every value of a dimension."""
    return iterator is not None and statement.extents[iterator] == member.extent


def _is_outer(band: Band, program: TensorProgram) -> bool:
    """Whether every dimension is parallel and moves every statement below."""
    parallel = {s: {i.name for i in program.statement(s).parallel} for s in statements_of(band)}
    return all(m.parallel and plain_iterator(m.rows[s]) in own for m in band.members for s, own in parallel.items())


def _phases(node: Node, program: TensorProgram) -> Iterator[Phase]:
    match node:
        case Sequence(children):
            for child in children:
                yield from _phases(child, program)
        case Leaf(names):
            yield Phase((), tuple(program.statement(n) for n in names))
        case Band():
            members = node.members
            below = node.child
            while isinstance(below, Band):
                members += below.members
                below = below.child
            if not isinstance(below, Leaf):
                reason = f"a sequence stands inside the loop {members[-1].name}, which each thread would run alone"
                raise _bad_schedule(program, reason, "let the statements share only outer parallel dimensions")
            inside = tuple(program.statement(n) for n in below.statements)
            single = tuple(s for s in inside if not _moves(s, members))
            if single:
                yield Phase((), single)
            yield Phase(members, tuple(s for s in inside if _moves(s, members)))


def _moves(statement: Statement, members: tuple[Member, ...]) -> bool:
    return any(plain_iterator(m.rows[statement.name]) is not None for m in members)
