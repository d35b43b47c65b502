"""Addresses: which schedule dimension an entry means.

"outermost" is the first dimension around a statement, "innermost" its last, "after NAME" the one inside NAME, "depth N"
the one with N others around it.  NAME is the dimension where the statement uses its iterator NAME, alone or else in a
sum, or as its place in a tile, or else the one of that name.  No dimension ("" or "any") means the outermost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.recipe import DEPTH
from engine.scheduling.nodes import Band, Leaf, Member, Node, Sequence
from engine.support.values import value
from engine.tensor.index import Index


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed dimension: kind "outermost", "innermost", "after", "depth" or "name", with the name or the depth."""

    kind: str
    name: str = ""
    depth: int = 0

    @staticmethod
    def of(dimension: str) -> Address:
        if dimension in ("", "any", "outermost"):
            return Address("outermost")
        if dimension == "innermost":
            return Address("innermost")
        if dimension.startswith("after "):
            return Address("after", dimension.removeprefix("after ").strip())
        if (found := DEPTH.fullmatch(dimension)) is not None:
            return Address("depth", depth=int(found[1]))
        return Address("name", dimension)


@value(frozen=True, slots=True)
class TreePosition:
    """Position of a statement in a schedule tree."""

    members: tuple[Member, ...]
    """The dimensions around it, outermost first."""
    position: tuple[int, ...]
    """Its number in each sequence and in the leaf on the way; together with the members' identity this gives the
    execution order."""
    depths: tuple[int, ...]
    """Number of members outside each entry of `position`."""


def places(
    node: Node, members: tuple[Member, ...] = (), position: tuple[int, ...] = (), depths: tuple[int, ...] = ()
) -> dict[str, TreePosition]:
    """Statement -> its position, for the statements below `node`."""
    match node:
        case Leaf(statements):
            depths = (*depths, len(members))
            return {s: TreePosition(members, (*position, k), depths) for k, s in enumerate(statements)}
        case Sequence(children):
            depths = (*depths, len(members))
            found: dict[str, TreePosition] = {}
            for k, child in enumerate(children):
                found.update(places(child, members, (*position, k), depths))
            return found
        case Band(inner, _, child):
            return places(child, members + inner, position, depths)


def locate(statement: str, place: TreePosition, address: Address) -> int | None:
    """Position in `place.members` of the dimension that an address means for a statement; None when there is none."""
    last = len(place.members) - 1
    match address.kind:
        case "outermost":
            return 0 if last >= 0 else None
        case "innermost":
            return last if last >= 0 else None
        case "depth":
            return address.depth if address.depth <= last else None
        case "after":
            before = _find_by_name(statement, place, address.name)
            return before + 1 if before is not None and before < last else None
        case _:
            return _find_by_name(statement, place, address.name)


def _find_by_name(statement: str, place: TreePosition, name: str) -> int | None:
    own = Index.of(name)
    for k, member in enumerate(place.members):
        if member.rows[statement] == own:
            return k
    for k, member in enumerate(place.members):
        if member.rows[statement].coefficient(name):
            return k
    for k, member in enumerate(place.members):
        if member.tiling and not member.tiling.is_tile and member.rows[statement].iterators() == (name,):
            return k
    return next((k for k, member in enumerate(place.members) if member.name == name), None)


def members_at(statements: Iterable[str], where: Mapping[str, TreePosition], address: Address) -> tuple[Member, ...]:
    """The distinct dimensions that an address selects for some statements, outermost first.

    Of "innermost" dimensions only those with no other inside: a loop around another loop of these statements is not
    innermost, even if some statement has no further loop.
    """
    found: dict[int, Member] = {}
    outer: set[int] = set()
    for statement in statements:
        place = where[statement]
        position = locate(statement, place, address)
        if position is not None:
            found[id(place.members[position])] = place.members[position]
        outer.update(id(member) for member in place.members[:-1])
    if address.kind == "innermost":
        return tuple(member for key, member in found.items() if key not in outer)
    return tuple(found.values())
