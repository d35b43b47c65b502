"""Build schedule trees that may be illegal, to ask the exact legality check what they break.

The solver never makes an illegal tree.  Here the requested change is applied to the tree in use: statements go on to
share the loops that they share now, and nothing else moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.explore.scheduled_group import dimension_names, members_of
from engine.poly.nodes import Dependence
from engine.recipe import Entry
from engine.scheduling.address import Address, locate, places
from engine.scheduling.attach import attach, replace_members
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import Band, Leaf, Member, Node, PlacedEntry, ScheduleTree, Witness, statements_of
from engine.scheduling.nodes import Sequence as Sequenced
from engine.scheduling.rules import cut_parts, pinned_iterators
from engine.scheduling.tiling import restrict
from engine.tensor.index import Index
from engine.tensor.nodes import TensorProgram
from engine.tensor.rewrite import plain_iterator

NOTHING = Index()
"""Row of a statement that does not iterate over the dimension: constant 0."""


@dataclass(slots=True)
class _NewRows:
    """New rows for the members of a tree."""

    of: dict[int, dict[str, Index]] = field(default_factory=dict)
    """Identity of a member -> statement -> its row there."""
    renamed: dict[int, Member] = field(default_factory=dict)
    """Identity of a member -> the member whose name and extent it takes."""
    below: dict[str, list[Member]] = field(default_factory=dict)
    """Statement -> dimensions to add inside all others."""

    def set(self, member: Member, statement: str, row: Index) -> None:
        self.of.setdefault(id(member), {})[statement] = row


def interchange_dimensions(tree: ScheduleTree, order: Sequence[str]) -> ScheduleTree:
    """The tree with the dimensions of `order` in this order, outermost first, in the places that they have now.

    A statement that lacks one of them stands at 0 of it.  Nothing in the result is said to be parallel.
    """
    where = places(tree.root)
    now = [name for name in dimension_names(where) if name in order]
    rows = _NewRows()
    for statement, place in where.items():
        own = {m.name: m for m in place.members}
        for slot, name in zip(now, order, strict=True):
            row = own[name].rows[statement] if name in own else NOTHING
            if slot in own:
                rows.set(own[slot], statement, row)
                owner = own.get(name)
                if owner is not None:
                    rows.renamed[id(own[slot])] = owner
            elif name in own:  # no loop of its own stands in this place: it walks the dimension inside all others
                rows.below.setdefault(statement, []).append(own[name])
    return ScheduleTree(_apply_rows(tree.root, rows))


def _apply_rows(node: Node, rows: _NewRows) -> Node:
    match node:
        case Sequenced(children):
            return Sequenced(tuple(_apply_rows(child, rows) for child in children))
        case Band(members, _, child):
            return Band(tuple(_apply_to_member(m, rows) for m in members), False, _apply_rows(child, rows))
        case Leaf(statements):
            needed = {id(m): m for s in statements for m in rows.below.get(s, ())}
            if not needed:
                return node
            inner = (
                replace(m, rows={s: m.rows[s] if m in rows.below.get(s, ()) else NOTHING for s in statements})
                for m in needed.values()
            )
            return Band(tuple(replace(m, parallel=False) for m in inner), False, node)


def _apply_to_member(member: Member, rows: _NewRows) -> Member:
    like = rows.renamed.get(id(member), member)
    own = {**member.rows, **rows.of.get(id(member), {})}
    return Member(like.name, own, False, like.extent, like.marks)


def force_entries(tree: ScheduleTree, entries: Iterable[Entry]) -> ScheduleTree:
    """Apply the pins and cuts among some entries one by one, whatever they break."""
    for entry in entries:
        if entry.field == "pin":
            tree = _force_pin(tree, entry)
        elif entry.field == "cut":
            tree = ScheduleTree(_force_cut(tree.root, entry))
    return tree


def force_parallel(tree: ScheduleTree, entries: Iterable[Entry]) -> ScheduleTree:
    """Mark every dimension parallel for which an entry asks."""
    names = statements_of(tree.root)
    for entry in entries:
        if entry.field == "parallel":
            tree = ScheduleTree(attach(tree.root, PlacedEntry(entry, "user", ()), names)[0])
    return tree


def _force_pin(tree: ScheduleTree, entry: Entry) -> ScheduleTree:
    """Every statement that the entry names has its pinned iterator at the dimension that it names."""
    rows = _NewRows()
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
    return ScheduleTree(_apply_rows(tree.root, rows))


def _force_cut(root: Node, entry: Entry) -> Node:
    """Distribute the parts of a cut, inside the dimensions that the cut leaves shared."""
    where = places(root)
    parts = [[s for s in part if s in where] for part in cut_parts(entry.value)]
    address = Address.of(entry.dimension)
    depths = [locate(s, where[s], address) for part in parts for s in part]
    depth = min((d for d in depths if d is not None), default=0)
    return _distribute(root, _complete_parts(parts, statements_of(root)), depth + (address.kind == "after"))


def _complete_parts(parts: Sequence[Sequence[str]], statements: Sequence[str]) -> dict[str, int]:
    """The part of every statement; one that the cut does not name goes with the statement before it."""
    number = {s: k for k, part in enumerate(parts) for s in part}
    last = 0
    for statement in statements:
        last = number.setdefault(statement, last)
    return number


def _distribute(node: Node, part: Mapping[str, int], depth: int) -> Node:
    """The node with the parts one after the other, below its first `depth` dimensions."""
    used = sorted({part[s] for s in statements_of(node)})
    if len(used) < 2:
        return node
    match node:
        case Band(members, permutable, child) if len(members) <= depth:
            return Band(members, permutable, _distribute(child, part, depth - len(members)))
        case Band(members, permutable, child) if depth:
            inner = _distribute(Band(members[depth:], permutable, child), part, 0)
            return Band(members[:depth], permutable, inner)
    kept = ({s for s in statements_of(node) if part[s] == number} for number in used)
    return Sequenced(tuple(n for names in kept if (n := restrict(node, names)) is not None))


def mark_parallel(program: TensorProgram, dependences: Sequence[Dependence], tree: ScheduleTree) -> ScheduleTree:
    """Mark every dimension parallel that is no reduction and breaks no dependence by it."""
    broken = len(check_schedule(program, dependences, tree))
    for member in members_of(places(tree.root)):
        if not member.parallel and not any(_reduces(program, s, row) for s, row in member.rows.items()):
            tried = ScheduleTree(replace_members(tree.root, {id(member): replace(member, parallel=True)}))
            if len(check_schedule(program, dependences, tried)) == broken:
                tree = tried
    return tree


def _reduces(program: TensorProgram, statement: str, row: Index) -> bool:
    reduced = {i.name for i in program.statement(statement).reduced}
    return any(name in reduced for name in row.iterators())


def why_loops_apart(
    program: TensorProgram, dependences: Sequence[Dependence], tree: ScheduleTree, first: Node, second: Node
) -> Witness | None:
    """Two instances in the wrong order if neighbours in a sequence of `tree` shared their loops.

    None where no dependence forbids it, or where they have no loops to share.
    """
    shared = _shared_loops(first, second)
    if shared is None:
        return None
    joined = ScheduleTree(_replace_nodes(tree.root, {id(first): shared, id(second): None}))
    broken = check_schedule(program, dependences, joined)
    return broken[0].witness if broken else None


def _shared_loops(first: Node, second: Node) -> Node | None:
    """One nest for the statements of two, their loops one by one; None where these differ."""
    match first, second:
        case Leaf(before), Leaf(after):
            return Leaf((*before, *after))
        case Band(ours, _, inner), Band(theirs, _, other):
            alike = len(ours) == len(theirs) and all(a.extent == b.extent for a, b in zip(ours, theirs, strict=True))
            child = _shared_loops(inner, other) if alike else None
            if child is None:
                return None
            return Band(tuple(_join(a, b) for a, b in zip(ours, theirs, strict=True)), False, child)
    return None


def _join(a: Member, b: Member) -> Member:
    return replace(a, rows={**a.rows, **b.rows}, parallel=False)


def _replace_nodes(node: Node, changed: Mapping[int, Node | None]) -> Node:
    """The tree with some nodes replaced, by their identity; None leaves one out."""
    match node:
        case Leaf():
            return node
        case Band(own, permutable, child):
            return Band(own, permutable, _replace_nodes(child, changed))
        case Sequenced(children):
            kept = (changed.get(id(c), c) if id(c) in changed else _replace_nodes(c, changed) for c in children)
            return Sequenced(tuple(c for c in kept if c is not None))
