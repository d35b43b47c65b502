"""Entries about the tiles that `split` entries make: marks, further splits, pins that move a dimension, and cuts.

    S0 @ j: split 8        S0 @ outermost: pin j_tile        S0 @ after j_tile: pin i        S0 @ j_tile: mark unroll 2
    all @ after j_tile: cut S0 | S1        every tile runs S0 at all its places, then S1

Dimensions are looked for before they are split first, so "outermost" of an entry that names no tile is a whole one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from engine.poly.nodes import Dependence
from engine.scheduling.address import Address, TreePosition, locate, places
from engine.scheduling.attach import address_text, attach, members_meant, replace_members
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import (
    HONOURED,
    INFEASIBLE,
    Band,
    Member,
    Node,
    PlacedEntry,
    ScheduleTree,
    Verdict,
    Witness,
    walk,
)
from engine.scheduling.rules import cut_parts, pinned_iterators
from engine.scheduling.tiling import distribute, move_member, split_members
from engine.tensor.nodes import TensorProgram

Claim = Callable[[PlacedEntry, Node, Node, Verdict], Verdict]
"""The verdict of an entry, from the tree before and after it and the verdict so far: it may exclude one before it."""


def attach_to_tiles(
    program: TensorProgram,
    dependences: Iterable[Dependence],
    node: Node,
    entries: Iterable[PlacedEntry],
    claim: Claim,
) -> tuple[Node, list[Verdict]]:
    """The tree, some dimensions of which are tiles, under entries that no whole dimension was meant by.

    As `attach`, but a pin moves its dimension, a cut parts loops inside a tile, and a split makes tiles of tiles.
    """
    statements = [s.name for s in program.statements]
    dependences = tuple(dependences)
    verdicts: list[Verdict] = []
    for placed in entries:
        change = {"pin": _move, "cut": _cut}.get(placed.entry.field)
        if change is not None:
            changed, finding = change(program, dependences, node, placed, statements)
        else:
            changed, finding = _attach(program, node, placed, statements)
        finding = claim(placed, node, changed, finding)
        if finding.outcome != INFEASIBLE:
            node = changed
        verdicts.append(finding)
    # A later pin may have moved a dimension again.
    return node, [
        attach(node, v.placed, statements)[1] if v.placed.entry.field == "pin" and v.outcome == HONOURED else v
        for v in verdicts
    ]


def _attach(
    program: TensorProgram, node: Node, placed: PlacedEntry, statements: Sequence[str]
) -> tuple[Node, Verdict]:
    """A mark, a claim, or a further split."""
    entry = placed.entry
    changed, finding = attach(node, placed, statements)
    if entry.field == "split" and isinstance(entry.value, int) and changed is not node:
        meant = members_meant(changed, entry, statements)
        changed = split_members(program, changed, {id(m): (entry.value,) for m in meant})
    return changed, finding


def _move(
    program: TensorProgram,
    dependences: Sequence[Dependence],
    node: Node,
    placed: PlacedEntry,
    statements: Sequence[str],
) -> tuple[Node, Verdict]:
    entry, address = placed.entry, Address.of(placed.entry.dimension)
    allowed = pinned_iterators(entry.value)
    named = [s for s in (entry.statements or statements) if s in statements]
    before = node
    for statement in named:
        place = places(node)[statement]
        moved = _find_pinned(statement, place, allowed)
        goal = _goal(statement, place, address)
        if moved is None or goal is None:
            continue
        outside, inside = goal
        if moved in (outside, inside) or place.members.index(moved) == _position(place, outside, inside):
            continue
        found = move_member(node, moved, outside, inside)
        if found is None:
            reason = f"a sequence stands between {moved.name} and {address_text(entry)}"
            return before, Verdict(placed, INFEASIBLE, reason)
        node = found
    if node is not before:
        kept = _without_false_claims(program, dependences, node)
        if isinstance(kept, Witness):
            return before, Verdict(placed, INFEASIBLE, kept.text, kept)
        node = kept
    return attach(node, placed, statements)


def _cut(
    program: TensorProgram,
    dependences: Sequence[Dependence],
    node: Node,
    placed: PlacedEntry,
    statements: Sequence[str],
) -> tuple[Node, Verdict]:
    """A cut inside a tile: each part gets the loops there for itself, parallel ones where it can."""
    entry, address = placed.entry, Address.of(placed.entry.dimension)
    parts = [tuple(s for s in part if s in statements) for part in cut_parts(entry.value)]
    first = next((s for part in parts for s in part), None)
    place = None if first is None else places(node)[first]
    around = None if first is None or place is None else locate(first, place, Address("name", address.name))
    if address.kind != "after" or place is None or around is None:
        return attach(node, placed, statements)
    cut = distribute(node, place.members[around], parts)
    if cut is None:
        reason = f"the statements of a part stand apart inside {address.name}"
        return node, Verdict(placed, INFEASIBLE, reason)
    kept = _without_false_claims(program, dependences, cut)
    if isinstance(kept, Witness):
        return node, Verdict(placed, INFEASIBLE, kept.text, kept)
    return kept, attach(kept, placed, statements)[1]


def _find_pinned(statement: str, place: TreePosition, allowed: Sequence[str]) -> Member | None:
    """The dimension that a pin's names mean: the one called so, or that of an iterator."""
    for name in allowed:
        position = locate(statement, place, Address("name", name))
        if position is not None:
            return place.members[position]
    return None


def _goal(statement: str, place: TreePosition, address: Address) -> tuple[Member | None, Member | None] | None:
    """(dimension to stand outside of, dimension to stand just inside of); neither for innermost, None for no place."""
    match address.kind:
        case "outermost":
            return (place.members[0], None) if place.members else None
        case "innermost":
            return None, None
        case "after":
            around = locate(statement, place, Address("name", address.name))
            return None if around is None else (None, place.members[around])
        case _:
            return None


def _position(place: TreePosition, outside: Member | None, inside: Member | None) -> int:
    """Where a goal is among the dimensions around a statement."""
    if outside is not None:
        return place.members.index(outside)
    return place.members.index(inside) + 1 if inside is not None else len(place.members) - 1


def _without_false_claims(
    program: TensorProgram, dependences: Sequence[Dependence], node: Node
) -> Node | Witness:
    """The tree without claims of parallelism that a move made false; two instances where its order is wrong."""
    while True:
        broken = check_schedule(program, dependences, ScheduleTree(node))
        if not broken:
            return node
        claims = [(v.level.removesuffix(_FALSE), v.witness.dependence) for v in broken if v.level.endswith(_FALSE)]
        if not claims:
            return broken[0].witness
        false = {
            id(m): replace(m, parallel=False)
            for band in walk(node) if isinstance(band, Band) for m in band.members
            if any(name == m.name and d.source in m.rows and d.sink in m.rows for name, d in claims)
        }  # fmt: skip
        node = replace_members(node, false)


_FALSE = " is not parallel"
