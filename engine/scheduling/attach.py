"""Attach marks and flags to a finished tree, and check whether each entry holds in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.recipe import Entry
from engine.scheduling.address import Address, TreePosition, locate, members_at, places
from engine.scheduling.nodes import HONOURED, NO_MATCH, RELAXED, Band, Leaf, Mark, Member, Node, PlacedEntry, Verdict
from engine.scheduling.nodes import Sequence as SequenceNode
from engine.scheduling.rules import cut_parts, pinned_iterators


def attach(node: Node, placed: PlacedEntry, statements: Sequence[str]) -> tuple[Node, Verdict]:
    """The tree with an entry's mark or flag, and whether the entry holds.

    Entries about coefficients add nothing; `held` looks whether they hold.
    statements: the statements of the group; the entry may name others, which match nothing.
    """
    entry = placed.entry
    named = [s for s in (entry.statements or statements) if s in statements]
    where = places(node)
    if entry.field == "pin":
        return node, _pin(placed, named, where)
    if entry.field == "cut":
        return node, _cut(placed, where)
    members = members_at(named, where, Address.of(entry.dimension))
    if not members:
        return node, Verdict(placed, NO_MATCH, no_match(entry, named))
    changed = {id(m): _change_member(m, placed) for m in members}
    because = f"on {', '.join(f'{m.name} ({m.extent})' for m in members)}"
    return replace_members(node, changed), Verdict(placed, HONOURED, because)


def members_meant(node: Node, entry: Entry, statements: Sequence[str]) -> tuple[Member, ...]:
    """The dimensions of a tree that an entry addresses."""
    named = [s for s in (entry.statements or statements) if s in statements]
    return members_at(named, places(node), Address.of(entry.dimension))


def replace_members(node: Node, members: Mapping[int, Member]) -> Node:
    """The tree with some members replaced; `members` maps the identity of the old one to the new one."""
    match node:
        case Leaf():
            return node
        case SequenceNode(children):
            return SequenceNode(tuple(replace_members(child, members) for child in children))
        case Band(own, permutable, child):
            return Band(tuple(members.get(id(m), m) for m in own), permutable, replace_members(child, members))


def _change_member(member: Member, placed: PlacedEntry) -> Member:
    entry = placed.entry
    if entry.field == "parallel":
        return replace(member, parallel=entry.value is True)
    name, value = entry.value if isinstance(entry.value, tuple) else ("split", entry.value)
    plain = value if isinstance(value, int | str) else str(value)
    mark = Mark(str(name), plain, placed.author, placed.path, entry.required, entry.statements)
    return replace(member, marks=(*member.marks, mark))


def no_match(entry: Entry, named: Sequence[str]) -> str:
    """Why an entry for the statements `named` finds no dimension."""
    if not named:
        return f"the group has no statement {', '.join(entry.statements)}"
    return f"{', '.join(named)} {'has' if len(named) == 1 else 'have'} no dimension {entry.dimension or 'outermost'}"


def _pin(placed: PlacedEntry, named: Sequence[str], where: Mapping[str, TreePosition]) -> Verdict:
    entry = placed.entry
    allowed = pinned_iterators(entry.value)
    address = Address.of(entry.dimension)
    held: list[str] = []
    missed: list[str] = []
    for statement in named:
        position = locate(statement, where[statement], address)
        if position is None or not any(_uses(m, statement, allowed) for m in where[statement].members):
            continue
        right = _uses(where[statement].members[position], statement, allowed)
        (held if right else missed).append(statement)
    if not held and not missed:
        missing = f"no iterator {' or '.join(allowed)} at {address_text(entry)}" if named else no_match(entry, named)
        return Verdict(placed, NO_MATCH, missing)
    if missed:
        but = f", but for {', '.join(held)}" if held else ""
        return Verdict(placed, RELAXED, f"not for {', '.join(missed)}{but}")
    return Verdict(placed, HONOURED, f"for {', '.join(held)}")


def address_text(entry: Entry) -> str:
    """The dimension of an entry in words."""
    return entry.dimension or "outermost"


def _uses(member: Member, statement: str, names: Sequence[str]) -> bool:
    if member.tiling is not None and member.name in names:
        return True
    used = member.rows[statement].iterators()
    is_tile = member.tiling is not None and member.tiling.is_tile
    return bool(used) and not is_tile and all(name in names for name in used)


def _cut(placed: PlacedEntry, where: Mapping[str, TreePosition]) -> Verdict:
    """Whether a cut holds: statements of different parts run in order and share no dimension from the addressed one
    inwards."""
    entry, address = placed.entry, Address.of(placed.entry.dimension)
    parts = [[s for s in part if s in where] for part in cut_parts(entry.value)]
    pairs = [(a, b) for k, part in enumerate(parts) for later in parts[k + 1 :] for a in part for b in later]
    if not pairs:
        return Verdict(placed, NO_MATCH, "it names fewer than two parts of this group")
    limits = {s: _limit(s, where[s], address) for part in parts for s in part}
    if all(limit is None for limit in limits.values()):
        return Verdict(placed, NO_MATCH, f"no dimension {address_text(entry)}")
    for a, b in pairs:
        shared, before = _common_loops(where[a], where[b])
        allowed = min((limit for limit in (limits[a], limits[b]) if limit is not None), default=shared)
        if shared > allowed or not before:
            return Verdict(placed, RELAXED, f"{a} and {b} are not cut")
    return Verdict(placed, HONOURED, " | ".join(" ".join(part) for part in parts))


def _limit(statement: str, place: TreePosition, address: Address) -> int | None:
    """Largest number of dimensions that a cut lets two statements share."""
    if address.kind == "outermost":
        return 0
    if address.kind == "after":
        outside = locate(statement, place, Address("name", address.name))
        return None if outside is None else outside + 1
    return locate(statement, place, address)


def _common_loops(a: TreePosition, b: TreePosition) -> tuple[int, bool]:
    """Number of dimensions around both statements, and whether the first precedes the second."""
    for x, y, depth in zip(a.position, b.position, a.depths, strict=False):
        if x != y:
            return depth, x < y
    return len(a.members), False
