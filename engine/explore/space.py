"""The iteration space of a group, drawn small: instances, the order in which they run, and the dependences among them.

The picture holds the first few values of one to three schedule dimensions; every other iterator is 0.  A statement that
does not have one of the axes stands at 0 along it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.compilation import default_recipe
from engine.documents.exploration import ArrowDoc, PointDoc, SpaceAxisDoc, SpaceDoc
from engine.documents.model import RepairDoc
from engine.explore.hypothetical_schedules import force_entries, force_parallel, interchange_dimensions, mark_parallel
from engine.explore.instances import Stamp, StatementInstance, in_turn, instances, pairs, runs_before, stamp
from engine.explore.interchange import pins
from engine.explore.recipe_trial import AdviceChange, apply_change
from engine.explore.scheduled_group import ScheduledGroup, dimension_names, holding_part, members_of, schedule_group
from engine.fusion.nodes import FusionGroup
from engine.poly.nodes import Dependence
from engine.present.model import repair_docs
from engine.recipe import AUTHORS, Recipe
from engine.scheduling.address import TreePosition
from engine.scheduling.nodes import Conflict, Mark, Member, ScheduleTree, Witness
from engine.scheduling.text import to_text
from engine.scheduling.timeline import Timeline, timelines
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
ARROWS = 400
"""Arrows drawn at most, the nearest of each dependence first."""
_WORDS = {
    "flow": "{0} writes {2}, {1} reads it",
    "anti": "{0} reads {2}, {1} overwrites it",
    "output": "{0} writes {2}, {1} writes it again",
    "reduction": "{0} adds to {2}, {1} adds the next term",
}


@dataclass(frozen=True, slots=True)
class _Picture:
    """What is drawn: a tree of the situation's statements, in use or asked for, with what it breaks."""

    now: ScheduledGroup
    tree: ScheduleTree
    broken: tuple[Witness, ...] = ()
    repairs: tuple[RepairDoc, ...] = ()
    refusal: str = ""
    """Why required entries cannot hold, where no dependence is broken: they contradict each other."""


def space(
    group: FusionGroup, recipe: Recipe | None = None, axes: Sequence[str] = (), order: Sequence[str] = ()
) -> SpaceDoc:
    """A group along some dimensions of its schedule.  axes: across, down, into the page; none: chosen here.

    order: dimensions in an order that is asked for, outermost first; the picture shows it whether it can hold or not.
    Where required entries of the recipe cannot hold together, it shows what they ask for.
    Raises BadInput for names that are no dimensions, Unsupported for a group without loops.
    """
    recipe = recipe or default_recipe(group)
    try:
        now = schedule_group(group, recipe)
    except Conflict as conflict:
        return _document(_picture_of_conflict(group, recipe, conflict), axes)
    if not order:
        return _document(_Picture(now, now.tree), axes)
    return _document(_picture_of_order(now, recipe, order), axes)


def _picture_of_order(now: ScheduledGroup, recipe: Recipe, order: Sequence[str]) -> _Picture:
    """The picture of an order of dimensions."""
    check_order(now, order)
    tree = mark_parallel(now.program, now.dependences, interchange_dimensions(now.tree, order))
    broken = now.broken_by(tree)
    if not broken:
        return _Picture(now, tree)
    change = AdviceChange(pins(now.places, order, required=True))
    advice, _ = apply_change(now.advice, change)
    try:
        schedule_group(now.group, recipe.with_group(now.group.name, advice))
    except Conflict as conflict:
        return _Picture(now, tree, broken, repair_docs(conflict, advice))
    return _Picture(now, tree, broken)


def _picture_of_conflict(group: FusionGroup, recipe: Recipe, conflict: Conflict) -> _Picture:
    """The picture of required entries that cannot hold together: the schedule without them, changed as they ask."""
    advice = recipe.groups.get(group.name, ())
    now = holding_part(group, recipe, conflict)
    entries = [placed.entry for placed in conflict.conflicting]
    tree = mark_parallel(now.program, now.dependences, force_entries(now.tree, entries))
    tree = force_parallel(tree, entries)
    refusal = f"{conflict.subject}: {conflict.reason}"
    return _Picture(replace(now, advice=advice), tree, now.broken_by(tree), repair_docs(conflict, advice), refusal)


def check_order(now: ScheduledGroup, order: Sequence[str]) -> None:
    """BadInput for names that are no dimensions of the schedule, or twice the same."""
    known = dimension_names(now.places)
    unknown = [name for name in order if name not in known]
    if unknown:
        raise BadInput("order", unknown[0], "is no dimension of the schedule", f"it has {', '.join(known)}")
    if len(set(order)) < len(order):
        raise BadInput("order", ", ".join(order), "names a dimension twice")


def _document(picture: _Picture, names: Sequence[str]) -> SpaceDoc:
    now, tree = picture.now, picture.tree
    program, places = now.program, now.places
    axes = axes_of(now, names)
    found: list[StatementInstance] = []
    for statement in program.statements:
        own = {m.name: m.rows[statement.name] for m in places[statement.name].members}
        found += instances(statement, [own.get(a.name) for a in axes], [a.shown for a in axes])
    times = timelines(tree, program)
    stamps = [stamp(point, times[point.statement.name]) for point in found]
    return SpaceDoc(
        now.group.name, to_text(now.advice), dimension_names(places), axes,
        order=_order(now, times, [a.name for a in axes]), requested=bool(picture.broken or picture.refusal),
        statements=tuple(s.name for s in program.statements), points=_points(found, stamps, times),
        arrows=_arrows(now, found, stamps, times), dependences=len(now.dependences), violated=len(picture.broken),
        verdict=picture.refusal if picture.refusal and not picture.broken else verdict(now, picture.broken),
        repairs=picture.repairs,
    )  # fmt: skip


def verdict(now: ScheduledGroup, broken: Sequence[Witness]) -> str:
    """Whether an order is legal, in one sentence."""
    count = len(now.dependences)
    if not broken:
        return f"legal, {count} of {count} dependences"
    return f"breaks {len(broken)} of {count} dependences: {broken[0].text}"


def _order(now: ScheduledGroup, times: Mapping[str, Timeline], axes: Sequence[str]) -> tuple[str, ...]:
    """The axes as a tree runs them, outermost first: as the statement with the most of them says."""
    found: list[str] = []
    for statement, place in now.places.items():
        rows = [step.row for step in times[statement] if step.member is not None]
        own = {m.name: m.rows[statement] for m in place.members if m.name in axes and m.rows[statement] in rows}
        if len(own) > len(found):
            found = sorted(own, key=lambda name: rows.index(own[name]))
    return tuple(found)


def _points(
    found: Sequence[StatementInstance], stamps: Sequence[Stamp], times: Mapping[str, Timeline]
) -> tuple[PointDoc, ...]:
    turns = [in_turn(s, times[p.statement.name]) for p, s in zip(found, stamps, strict=True)]
    rank = {turn: k for k, turn in enumerate(sorted(set(turns)))}
    return tuple(
        PointDoc(point.statement.name, point.position, rank[turn], str(point))
        for point, turn in zip(found, turns, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Arrow:
    source: int
    sink: int
    dependence: Dependence
    violated: bool
    far: int
    """Steps along the axes."""


def _arrows(
    now: ScheduledGroup, found: Sequence[StatementInstance], stamps: Sequence[Stamp], times: Mapping[str, Timeline]
) -> tuple[ArrowDoc, ...]:
    """The dependences among the points: violated ones first, then the nearest of each that follow from no others."""
    number = {id(point): k for k, point in enumerate(found)}
    points: dict[str, list[StatementInstance]] = {s.name: [] for s in now.program.statements}
    for point in found:
        points[point.statement.name].append(point)
    arrows: dict[tuple[int, int], _Arrow] = {}
    for dependence in now.dependences:
        timeline = times[dependence.source]
        for a, b in pairs(now.program, dependence, points):
            source, sink = number[id(a)], number[id(b)]
            violated = not runs_before(stamps[source], stamps[sink], timeline)
            far = sum(abs(x - y) for x, y in zip(a.position, b.position, strict=True))
            arrows.setdefault((source, sink), _Arrow(source, sink, dependence, violated, far))
    kept = _most_important(_direct(arrows))
    return tuple(
        ArrowDoc(
            a.source, a.sink, a.dependence.array, a.dependence.kind, a.violated,
            _WORDS[a.dependence.kind].format(found[a.source], found[a.sink], a.dependence.array),
        )
        for a in kept
    )  # fmt: skip


def _direct(arrows: Mapping[tuple[int, int], _Arrow]) -> list[_Arrow]:
    """Without arrows that two others imply; violated ones all stay."""
    after: dict[int, set[int]] = {}
    for source, sink in arrows:
        after.setdefault(source, set()).add(sink)
    return [
        arrow
        for (source, sink), arrow in arrows.items()
        if arrow.violated or not any(sink in after.get(between, ()) for between in after[source])
    ]


def _most_important(arrows: Sequence[_Arrow]) -> list[_Arrow]:
    """At most `ARROWS`: violated ones before others, and of every dependence as many as of the next."""
    seen: dict[int, int] = {}
    turns: list[tuple[bool, int, _Arrow]] = []
    for arrow in sorted(arrows, key=lambda a: (not a.violated, a.far, a.source, a.sink)):
        turn = seen[id(arrow.dependence)] = seen.get(id(arrow.dependence), 0) + 1
        turns.append((not arrow.violated, turn, arrow))
    turns.sort(key=lambda item: item[:2])
    return [arrow for _, _, arrow in turns[:ARROWS]]


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
    """The mark that tiles a dimension: the largest tile of which more than one can be drawn, else the smallest.

    A tile of one value is taken last: a drag makes it larger.
    """
    tiles: dict[str, Mark] = {}
    for mark in sorted((m for member in members for m in member.marks), key=lambda m: AUTHORS.index(m.author)):
        if mark.name in _TILES and isinstance(mark.value, int):
            tiles.setdefault(mark.name, mark)
    wide = sorted((int(mark.value), mark.name) for mark in tiles.values() if mark.value != 1)
    drawn = [name for size, name in wide if size <= _WHOLE]
    return tiles[(drawn or [name for _, name in wide[:1]])[-1]] if wide else next(iter(tiles.values()), None)
