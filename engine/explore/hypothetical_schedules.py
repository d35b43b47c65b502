"""Schedule trees as somebody asks for them, whether they can hold or not: what exact legality is asked about.

The solver never makes an illegal tree.  To show what an order would break, the tree in use is changed in place: loops
stay shared by the statements that share them now, and only what was asked for moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.explore.scheduled_group import dimension_names
from engine.poly.nodes import Dependence
from engine.recipe import Entry
from engine.scheduling.address import Address, locate, places
from engine.scheduling.attach import attach, rebuilt
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import Band, Leaf, Member, Node, PlacedEntry, ScheduleTree, statements_of
from engine.scheduling.nodes import Sequence as Sequenced
from engine.scheduling.rules import cut_parts, pinned_iterators
from engine.tensor.index import Index
from engine.tensor.nodes import TensorProgram
from engine.tensor.rewrite import plain_iterator

NOTHING = Index()
"""The row of a statement in a dimension that it does not have."""


@dataclass(slots=True)
class _Rows:
    """New rows for the members of a tree."""

    of: dict[int, dict[str, Index]] = field(default_factory=dict)
    """Identity of a member -> statement -> its row there."""
    renamed: dict[int, Member] = field(default_factory=dict)
    """Identity of a member -> the one whose name and extent it takes."""
    below: dict[str, list[Member]] = field(default_factory=dict)
    """Statement -> the dimensions that it still needs inside all others."""

    def set(self, member: Member, statement: str, row: Index) -> None:
        self.of.setdefault(id(member), {})[statement] = row


def interchanged(tree: ScheduleTree, order: Sequence[str]) -> ScheduleTree:
    """The tree with the dimensions of `order` in this order, outermost first, in the places that they have now.

    A statement that lacks one of them stands at 0 of it.  Nothing in the result is said to be parallel.
    """
    where = places(tree.root)
    now = [name for name in dimension_names(where) if name in order]
    rows = _Rows()
    for statement, place in where.items():
        own = {m.name: m for m in place.members}
        for slot, name in zip(now, order, strict=True):
            row = own[name].rows[statement] if name in own else NOTHING
            if slot in own:
                rows.set(own[slot], statement, row)
                owner = own.get(name)
                if owner is not None:
                    rows.renamed[id(own[slot])] = owner
            elif name in own:
                rows.below.setdefault(statement, []).append(own[name])
    return ScheduleTree(_moved(tree.root, rows))


def _moved(node: Node, rows: _Rows) -> Node:
    match node:
        case Sequenced(children):
            return Sequenced(tuple(_moved(child, rows) for child in children))
        case Band(members, _, child):
            return Band(tuple(_changed(m, rows) for m in members), False, _moved(child, rows))
        case Leaf(statements):
            needed = {id(m): m for s in statements for m in rows.below.get(s, ())}
            if not needed:
                return node
            inner = (
                replace(m, rows={s: m.rows[s] if m in rows.below.get(s, ()) else NOTHING for s in statements})
                for m in needed.values()
            )
            return Band(tuple(replace(m, parallel=False) for m in inner), False, node)


def _changed(member: Member, rows: _Rows) -> Member:
    like = rows.renamed.get(id(member), member)
    own = {**member.rows, **rows.of.get(id(member), {})}
    return Member(like.name, own, False, like.extent, like.marks)


def demanded(tree: ScheduleTree, entries: Iterable[Entry]) -> ScheduleTree:
    """The tree with the pins and cuts among some entries obeyed, one after the other, whatever they break."""
    for entry in entries:
        if entry.field == "pin":
            tree = _pinned(tree, entry)
        elif entry.field == "cut":
            tree = ScheduleTree(_cut(tree.root, entry))
    return tree


def claimed(tree: ScheduleTree, entries: Iterable[Entry]) -> ScheduleTree:
    """The tree with every dimension parallel that an entry says is."""
    names = statements_of(tree.root)
    for entry in entries:
        if entry.field == "parallel":
            tree = ScheduleTree(attach(tree.root, PlacedEntry(entry, "user", ()), names)[0])
    return tree


def _pinned(tree: ScheduleTree, entry: Entry) -> ScheduleTree:
    """Every statement that the entry names has its pinned iterator at the dimension that it names."""
    rows = _Rows()
    where = places(tree.root)
    for statement in entry.statements or tuple(where):
        members = where[statement].members
        now = [m.rows[statement] for m in members]
        moving = next((row for row in now if plain_iterator(row) in pinned_iterators(entry.value)), None)
        to = locate(statement, where[statement], Address.of(entry.dimension))
        if moving is None or to is None:
            continue
        then = [row for row in now if row is not moving]
        then.insert(to, moving)
        for member, row in zip(members, then, strict=True):
            rows.set(member, statement, row)
    return ScheduleTree(_moved(tree.root, rows))


def _cut(root: Node, entry: Entry) -> Node:
    """The parts of a cut one after the other, inside the dimensions that the cut leaves shared."""
    where = places(root)
    parts = [[s for s in part if s in where] for part in cut_parts(entry.value)]
    address = Address.of(entry.dimension)
    depths = [locate(s, where[s], address) for part in parts for s in part]
    depth = min((d for d in depths if d is not None), default=0)
    return _distributed(root, _whole(parts, statements_of(root)), depth + (address.kind == "after"))


def _whole(parts: Sequence[Sequence[str]], statements: Sequence[str]) -> dict[str, int]:
    """The part of every statement; one that the cut does not name goes with the statement before it."""
    number = {s: k for k, part in enumerate(parts) for s in part}
    last = 0
    for statement in statements:
        last = number.setdefault(statement, last)
    return number


def _distributed(node: Node, part: Mapping[str, int], depth: int) -> Node:
    """The node with the parts one after the other, below its first `depth` dimensions."""
    used = sorted({part[s] for s in statements_of(node)})
    if len(used) < 2:
        return node
    match node:
        case Band(members, permutable, child) if len(members) <= depth:
            return Band(members, permutable, _distributed(child, part, depth - len(members)))
        case Band(members, permutable, child) if depth:
            inner = _distributed(Band(members[depth:], permutable, child), part, 0)
            return Band(members[:depth], permutable, inner)
    kept = ({s for s in statements_of(node) if part[s] == number} for number in used)
    return Sequenced(tuple(n for names in kept if (n := _restricted(node, names)) is not None))


def _restricted(node: Node, names: set[str]) -> Node | None:
    """The node for some of its statements; None for none of them."""
    match node:
        case Leaf(statements):
            left = tuple(s for s in statements if s in names)
            return Leaf(left) if left else None
        case Sequenced(children):
            nodes = tuple(n for child in children if (n := _restricted(child, names)) is not None)
            return Sequenced(nodes) if nodes else None
        case Band(members, permutable, child):
            below = _restricted(child, names)
            if below is None:
                return None
            own = (replace(m, rows={s: row for s, row in m.rows.items() if s in names}) for m in members)
            return Band(tuple(own), permutable, below)


def with_parallel(program: TensorProgram, dependences: Sequence[Dependence], tree: ScheduleTree) -> ScheduleTree:
    """The tree with every dimension parallel that breaks nothing by it and moves no reduction."""
    broken = len(check_schedule(program, dependences, tree))
    members = {id(m): m for place in places(tree.root).values() for m in place.members}
    for member in members.values():
        if not member.parallel and not any(_reduces(program, s, row) for s, row in member.rows.items()):
            tried = ScheduleTree(rebuilt(tree.root, {id(member): replace(member, parallel=True)}))
            if len(check_schedule(program, dependences, tried)) == broken:
                tree = tried
    return tree


def _reduces(program: TensorProgram, statement: str, row: Index) -> bool:
    reduced = {i.name for i in program.statement(statement).reduced}
    return any(name in reduced for name in row.iterators())
