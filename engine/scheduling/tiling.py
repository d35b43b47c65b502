"""Tile bands: `split F @ d` makes a dimension of row r two, the tile floor(r / F) and the place r mod F in it.

    band i            ->   band i_tile        strip-mined in place: always legal
                             band i
    band t, i         ->   band t_tile, i_tile   a permutable band of which every member is split
                             band t, i

A member that `pin` names is moved along the bands around its statements; exact legality decides about that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, count

from engine.recipe import AUTHORS
from engine.scheduling.nodes import (
    Band,
    Leaf,
    Mark,
    Member,
    Node,
    ScheduleTree,
    Sequence,
    TilePart,
    statements_of,
    walk,
)
from engine.tensor.index import Index, Quotient, Remainder
from engine.tensor.nodes import TensorProgram

Factors = Mapping[int, tuple[int, ...]]
"""Identity of a member -> sizes of the tiles that it is split into, outermost first."""


MOST_LEVELS = 4
"""Tiles in tiles of one dimension that marks make; what more of them ask for is left to a kernel that reads them."""


def split_marked(program: TensorProgram, tree: ScheduleTree) -> ScheduleTree:
    """The tree with a tile band wherever a `split` mark stands on a dimension."""
    bands = [node for node in walk(tree.root) if isinstance(node, Band)]
    factors = {id(m): found for band in bands for m in band.members if (found := _factors(m))}
    return ScheduleTree(split_members(program, tree.root, factors)) if factors else tree


def _factors(member: Member) -> tuple[int, ...]:
    """What the first author's and all required `split` marks ask for; others are left to a kernel that reads them."""
    marks = [mark for mark in member.marks if mark.name == "split" and isinstance(mark.value, int)]
    first = min(marks, key=_rank, default=None)
    kept = {int(mark.value) for mark in marks if first and (mark.required or mark.author == first.author)}
    return tuple(sorted(kept - {1}, reverse=True))[:MOST_LEVELS]


def _rank(mark: Mark) -> tuple[bool, int]:
    return not mark.required, AUTHORS.index(mark.author)


def split_members(program: TensorProgram, node: Node, factors: Factors, above: tuple[str, ...] = ()) -> Node:
    """The tree with some members split; all tiles stand outside where every member of a permutable band is split."""
    match node:
        case Leaf():
            return node
        case Sequence(children):
            return Sequence(tuple(split_members(program, child, factors, above) for child in children))
        case Band(members, permutable, child):
            names = [*above, *(m.name for m in members)]
            parts = [_parts(program, member, factors.get(id(member), ()), names) for member in members]
            below = split_members(program, child, factors, tuple(names))
            if all(len(own) == 1 for own in parts):
                return Band(members, permutable, below)
            ordered = list(chain(*parts))
            if permutable and all(len(own) > 1 for own in parts):
                levels = max(map(len, parts)) - 1
                tiles = [own[k] for k in range(levels) for own in parts if k < len(own) - 1]
                ordered = [*tiles, *(own[-1] for own in parts)]
            return _band_chain(ordered, permutable, below)


def _parts(program: TensorProgram, member: Member, factors: tuple[int, ...], taken: list[str]) -> list[Member]:
    """The tiles of a member, outermost first, and the place in the innermost."""
    made: list[Member] = []
    for factor in factors:
        stem = f"{member.name}_tile"
        name = next(n for n in chain([stem], (f"{stem}{k}" for k in count(2))) if n not in taken)
        taken.append(name)
        tile = {s: _divide(row, factor, Quotient) for s, row in member.rows.items()}
        place = {s: _divide(row, factor, Remainder) for s, row in member.rows.items()}
        outer = Member(name, tile, member.parallel, _extent(program, tile), (), TilePart(member, factor, True))
        made.append(outer)
        inner = _extent(program, place)
        member = replace(member, rows=place, extent=inner, tiling=TilePart(member, factor, False))
    return [*made, member]


def _divide(row: Index, factor: int, part: type[Quotient] | type[Remainder]) -> Index:
    if not row.terms:
        return Index((), row.constant // factor if part is Quotient else row.constant % factor)
    return Index.of(part(row, factor))


def _extent(program: TensorProgram, rows: Mapping[str, Index]) -> int:
    """Values from the smallest, or 0, to the largest."""
    ranges = [row.bounds(program.statement(name).extents) for name, row in rows.items()]
    return max(high for _, high in ranges) - min(0, *(low for low, _ in ranges)) + 1


def _band_chain(members: Iterable[Member], permutable: bool, child: Node) -> Node:
    """Members as nested bands.  What lies in a tile begins a band inside it, where the tile is the same for all."""
    groups: list[list[Member]] = [[]]
    for member in members:
        if any(_is_tile_of(outer, member) for outer in groups[-1]):
            groups.append([])
        groups[-1].append(member)
    for group in reversed(groups):
        child = Band(tuple(group), permutable, child)
    return child


def _is_tile_of(tile: Member, member: Member) -> bool:
    return tile.tiling is not None and tile.tiling.is_tile and any(
        part.whole is tile.tiling.whole for part in _tilings(member)
    )


def _tilings(member: Member) -> Iterator[TilePart]:
    """The splits that lead to a member and leave it in a tile, innermost first."""
    tiling = member.tiling
    while tiling is not None:
        if not tiling.is_tile:
            yield tiling
        tiling = tiling.whole.tiling


def fold_tiles(tree: ScheduleTree) -> ScheduleTree:
    """The tree with `split` marks alone where dimensions were made two in place, as families want it that make tiles of
    loops themselves.  Tiles that were moved, marked or split again stay."""
    return ScheduleTree(_fold(tree.root))


def _fold(node: Node) -> Node:
    match node:
        case Leaf():
            return node
        case Sequence(children):
            return Sequence(tuple(map(_fold, children)))
        case Band():
            return _fold_chain(node)


def _fold_chain(band: Band) -> Node:
    """A chain of bands, folded as far as possible: the members of one band that was tiled are one band again."""
    bands, below = [band], band.child
    while isinstance(below, Band):
        bands.append(below)
        below = below.child
    folded: list[Band] = []
    position = 0
    while position < len(bands):
        found = _unsplit_bands(bands[position:])
        if found is None:
            folded.append(bands[position])
            position += 1
        else:
            members, used = found
            folded.append(Band(members, bands[position].permutable, Leaf(())))
            position += used
    return _rechain(folded, _fold(below))


def _rechain(bands: Iterable[Band], child: Node) -> Node:
    for one in reversed(list(bands)):
        child = replace(one, child=child)
    return child


def _unsplit_bands(bands: list[Band]) -> tuple[tuple[Member, ...], int] | None:
    """(members, number of bands) of the band that the first bands are the tiles of; None if they are of none.

    Every tile is directly around its place, or a permutable band of tiles around a band of their places.
    """
    tiled = _members_of_tiles(bands)
    if tiled is None:
        return None
    found, used = tiled
    tiles, places = bands[0].members, found[len(bands[0].members) :]
    alike = used == 2 and bands[0].permutable and len(tiles) == len(places)
    if alike and all(map(_is_place_in, places, tiles)):
        return tuple(map(_unsplit, places)), used
    outer: tuple[Member | None, ...] = (None, *found)
    inner = [(a, b) for a, b in zip(outer, found, strict=False) if b.tiling is None or not b.tiling.is_tile]
    if all(b.tiling is None or (a is not None and _is_place_in(b, a)) for a, b in inner):
        return tuple(_unsplit(member) for _, member in inner), used
    return None


def _members_of_tiles(bands: list[Band]) -> tuple[list[Member], int] | None:
    """(members, number of bands) up to where all tiles have their places; None for tiles marked or split again."""
    found: list[Member] = []
    waiting: set[int] = set()
    for used, band in enumerate(bands, 1):
        for member in band.members:
            found.append(member)
            tiling = member.tiling
            if tiling is not None and (tiling.whole.tiling is not None or (tiling.is_tile and member.marks)):
                return None
            if tiling is not None:
                waiting ^= {id(tiling.whole)}
        if not waiting:
            return (found, used) if used > 1 else None
    return None


def _unsplit(member: Member) -> Member:
    return member if member.tiling is None else replace(member.tiling.whole, marks=member.marks)


def _is_place_in(place: Member, tile: Member) -> bool:
    a, b = place.tiling, tile.tiling
    return a is not None and b is not None and a.whole is b.whole and b.is_tile and not a.is_tile


def move_member(node: Node, moved: Member, before: Member | None, inside: Member | None) -> Node | None:
    """The tree with a member moved among the bands around it: outside `before`, just inside `inside`, or innermost
    where both are None.  None where a sequence stands between."""
    match node:
        case Leaf():
            return None
        case Sequence(children):
            made = [move_member(child, moved, before, inside) for child in children]
            if all(child is None for child in made):
                return None
            return Sequence(tuple(new or old for new, old in zip(made, children, strict=True)))
        case Band():
            members: list[Member] = []
            below: Node = node
            permutable: list[bool] = []
            while isinstance(below, Band):
                members += below.members
                permutable += [below.permutable] * len(below.members)
                below = below.child
            if not any(m is moved for m in members):
                child = move_member(below, moved, before, inside)
                return None if child is None else _replace_below(node, child)
            rest = [m for m in members if m is not moved]
            if before is not None:
                place = next((k for k, m in enumerate(rest) if m is before), None)
            elif inside is not None:
                place = next((k + 1 for k, m in enumerate(rest) if m is inside), None)
            else:
                place = len(rest)
            if place is None:
                return None
            for member in reversed([*rest[:place], moved, *rest[place:]]):
                below = Band((member,), True, below)
            return below


def _replace_below(band: Band, child: Node) -> Node:
    """A chain of bands with another node at its end."""
    inner = _replace_below(band.child, child) if isinstance(band.child, Band) else child
    return replace(band, child=inner)


def distribute(node: Node, inside: Member, parts: list[tuple[str, ...]]) -> Node | None:
    """The tree with what stands in a dimension cut into a sequence of parts, each with the loops there for itself.

    All of its loops claim to be parallel: who checks the order takes back what is false.  Statements that no part names
    go with the named one before them.  None where the dimension is not around all parts.
    """
    match node:
        case Leaf():
            return None
        case Sequence(children):
            made = [distribute(child, inside, parts) for child in children]
            if all(child is None for child in made):
                return None
            return Sequence(tuple(new or old for new, old in zip(made, children, strict=True)))
        case Band(members, permutable, child):
            place = next((k for k, m in enumerate(members) if m is inside), None)
            if place is None:
                below = distribute(child, inside, parts)
                return None if below is None else replace(node, child=below)
            rest: Node = Band(members[place + 1 :], permutable, child) if members[place + 1 :] else child
            if not {s for part in parts for s in part} <= inside.rows.keys():
                return None
            owner = 0
            groups: list[set[str]] = [set() for _ in parts]
            for statement in statements_of(rest):
                owner = next((k for k, part in enumerate(parts) if statement in part), owner)
                groups[owner].add(statement)
            cut = [one for group in groups if (one := restrict(rest, group, parallel=True)) is not None]
            flat = chain(*(one.children if isinstance(one, Sequence) else (one,) for one in cut))
            return Band(members[: place + 1], permutable, Sequence(tuple(flat)))


def restrict(node: Node, names: set[str], parallel: bool = False) -> Node | None:
    """A tree for some of its statements; None for none of them.  parallel: whether all its loops claim to be that."""
    match node:
        case Leaf(statements):
            kept = tuple(s for s in statements if s in names)
            return Leaf(kept) if kept else None
        case Sequence(children):
            parts = [part for child in children if (part := restrict(child, names, parallel)) is not None]
            return (parts[0] if len(parts) == 1 else Sequence(tuple(parts))) if parts else None
        case Band(members, permutable, child):
            below = restrict(child, names, parallel)
            if below is None:
                return None
            rows = [{s: row for s, row in m.rows.items() if s in names} for m in members]
            own = (replace(m, rows=r, parallel=parallel or m.parallel) for m, r in zip(members, rows, strict=True))
            return Band(tuple(own), permutable, below)
