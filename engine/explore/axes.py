"""Axes of the picture of an iteration space: which dimensions, how many values, which tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.errors import BadInput
from engine.exploration import AxisDoc
from engine.explore.interchange import names_of
from engine.explore.situation import Situation
from engine.recipe import AUTHORS
from engine.schedule.address import Place
from engine.schedule.nodes import Mark, Member

SHOWN = (12, 6, 4)
"""Values drawn across, down and into the page, where no tile asks for more."""
_MOST = 12
_TILES = ("block", "thread", "vector", "tile", "split")
"""Marks that say how many values of a dimension belong together."""


def axes_of(now: Situation, names: Sequence[str]) -> tuple[AxisDoc, ...]:
    """The axes across, down and into the page; no names leave the choice here.

    BadInput for a name that is no dimension, one said twice, or more than three.
    """
    places = now.places
    known = names_of(places)
    unknown = [name for name in names if name not in known]
    if unknown:
        there = f"the schedule has {', '.join(known) or 'no dimension'}"
        raise BadInput("space", f"axis {unknown[0]}", "is no dimension of the schedule", there)
    if len(names) > len(SHOWN) or len(set(names)) < len(names):
        raise BadInput("space", f"axes {', '.join(names)}", "one to three different dimensions can be drawn")
    chosen = tuple(names) or _default(places, known)
    return tuple(_axis(name, limit, places) for name, limit in zip(chosen, SHOWN, strict=False))


def _default(places: Mapping[str, Place], known: Sequence[str]) -> tuple[str, ...]:
    """The two innermost dimensions; with the one that runs in order inside them into the page."""
    if len(known) >= 3 and not any(m.parallel for p in places.values() for m in p.members if m.name == known[-1]):
        return known[-2], known[-3], known[-1]
    return tuple(reversed(known[-2:]))


def _axis(name: str, limit: int, places: Mapping[str, Place]) -> AxisDoc:
    own = [m for place in places.values() for m in place.members if m.name == name]
    extent = max(member.extent for member in own)
    tile, because = tile_of(own, limit)
    seen = tile + max(1, tile // 2) if tile <= _MOST // 2 + 2 else 0
    return AxisDoc(name, extent, min(extent, max(limit, min(_MOST, seen))), tile, because)


def tile_of(members: Sequence[Member], limit: int) -> tuple[int, str]:
    """(values, "block 4") of the largest tile of which two can be seen, else of the smallest; (1, "") without one."""
    tiles: dict[str, int] = {}
    for mark in sorted((m for member in members for m in member.marks), key=_rank):
        if mark.name in _TILES and isinstance(mark.value, int):
            tiles.setdefault(mark.name, mark.value)
    wide = {name: size for name, size in tiles.items() if size > 1}
    if not wide:
        return 1, ""
    seen = {name: size for name, size in wide.items() if size < max(limit, _MOST)}
    name = max(seen, key=seen.__getitem__) if seen else min(wide, key=wide.__getitem__)
    return wide[name], f"{name} {wide[name]}"


def _rank(mark: Mark) -> int:
    return AUTHORS.index(mark.author)
