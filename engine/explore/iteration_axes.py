"""Axes of the picture of an iteration space: dimensions, drawn values and tile sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.documents.exploration import SpaceAxisDoc
from engine.explore.scheduled_group import ScheduledGroup, dimension_names, members_of
from engine.recipe import AUTHORS
from engine.scheduling.address import TreePosition
from engine.scheduling.nodes import Mark, Member
from engine.support.errors import BadInput, Unsupported

SHOWN = (12, 6, 4)
"""Values drawn across, down and into the page, where no tile asks for more."""
POINTS = 1500
"""Instances drawn at most, while every axis has `_FEWEST` values."""
_FEWEST = 3
_WHOLE = 8
"""Largest tile that is drawn completely, with half of the next one."""
_TILES = ("block", "thread", "vector", "tile", "split")
"""Marks that say how many values of a dimension belong together."""


def axes_of(now: ScheduledGroup, names: Sequence[str]) -> tuple[SpaceAxisDoc, ...]:
    """The axes across, down and into the page; no names leave the choice here.

    BadInput for a name that is no dimension, one said twice, or more than three; Unsupported for a group without loops.
    """
    places = now.places
    known = dimension_names(places)
    if not known:
        raise Unsupported("space", now.group.name, "has no loops: each of its statements runs once")
    unknown = [name for name in names if name not in known]
    if unknown:
        there = f"the schedule has {', '.join(known) or 'no dimension'}"
        raise BadInput("space", f"axis {unknown[0]}", "is no dimension of the schedule", there)
    if len(names) > len(SHOWN) or len(set(names)) < len(names):
        raise BadInput("space", f"axes {', '.join(names)}", "one to three different dimensions can be drawn")
    chosen = tuple(names) or _default(places, known)
    return _limit_points([_axis(name, limit, places) for name, limit in zip(chosen, SHOWN, strict=False)], places)


def _limit_points(axes: list[SpaceAxisDoc], places: Mapping[str, TreePosition]) -> tuple[SpaceAxisDoc, ...]:
    """The axes with fewer values drawn, the longest first, until all statements together have few enough points."""
    own = [{m.name for m in place.members} for place in places.values()]
    while sum(math.prod(a.shown for a in axes if a.name in names) for names in own) > POINTS:
        longest = max(range(len(axes)), key=lambda k: axes[k].shown)
        if axes[longest].shown <= _FEWEST:
            break
        axes[longest] = replace(axes[longest], shown=axes[longest].shown - 1)
    return tuple(axes)


def _default(places: Mapping[str, TreePosition], known: Sequence[str]) -> tuple[str, ...]:
    """The two innermost dimensions; with the one that runs in order inside them into the page."""
    if len(known) >= 3 and not any(m.parallel for m in members_of(places, known[-1])):
        return known[-2], known[-3], known[-1]
    return tuple(reversed(known[-2:]))


def _axis(name: str, limit: int, places: Mapping[str, TreePosition]) -> SpaceAxisDoc:
    own = members_of(places, name)
    extent = max(member.extent for member in own)
    mark = tile_mark(own)
    tile = mark.value if mark and isinstance(mark.value, int) else 1
    seen = tile + tile // 2 if tile <= _WHOLE else 0
    because = f"{mark.name} {mark.value}" if mark else ""
    return SpaceAxisDoc(name, extent, min(extent, max(limit, seen)), tile, because)


def tile_mark(members: Sequence[Member]) -> Mark | None:
    """The mark that tiles a dimension: the largest tile of which more than one can be drawn, else the smallest."""
    tiles: dict[str, Mark] = {}
    for mark in sorted((m for member in members for m in member.marks), key=lambda m: AUTHORS.index(m.author)):
        if mark.name in _TILES and isinstance(mark.value, int):
            tiles.setdefault(mark.name, mark)
    wide = sorted((int(mark.value), mark.name) for mark in tiles.values() if mark.value != 1)
    drawn = [name for size, name in wide if size <= _WHOLE]
    return tiles[(drawn or [name for _, name in wide[:1]])[-1]] if wide else None
