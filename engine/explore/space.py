"""The iteration space of a group, drawn small: instances, the order in which they run, and the dependences among them.

The picture holds the first few values of one to three schedule dimensions; every other iterator is 0.  A statement that
does not have one of the axes stands at 0 along it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.documents import RepairDoc
from engine.exploration import ArrowDoc, AxisDoc, PointDoc, SpaceDoc
from engine.explore.axes import axes_of
from engine.explore.instances import Instance, Stamp, in_turn, instances, pairs, runs_before, stamp
from engine.explore.interchange import names_of
from engine.explore.situation import Situation
from engine.poly.nodes import Dependence
from engine.schedule.legality import check_schedule
from engine.schedule.nodes import ScheduleTree
from engine.schedule.text import to_text
from engine.schedule.timeline import Timeline, timelines

ARROWS = 400
"""Arrows drawn at most, the nearest of each dependence first."""
_WORDS = {
    "flow": "{0} writes {2}, {1} reads it",
    "anti": "{0} reads {2}, {1} overwrites it",
    "output": "{0} writes {2}, {1} writes it again",
    "reduction": "{0} adds to {2}, {1} adds the next term",
}


def space(now: Situation, axes: Sequence[str] = ()) -> SpaceDoc:
    """The schedule in use along some of its dimensions.  axes: across, down, into the page; none: chosen here.

    Raises BadInput for axes that are no dimensions.
    """
    drawn = axes_of(now, axes)
    return _document(now, drawn, now.tree, tuple(a.name for a in drawn), ())


def _document(
    now: Situation, axes: tuple[AxisDoc, ...], tree: ScheduleTree, order: Sequence[str], repairs: tuple[RepairDoc, ...]
) -> SpaceDoc:
    """The picture of `tree`, which may be one that cannot hold."""
    program, places = now.program, now.places
    dimensions = names_of(places)
    found: list[Instance] = []
    for statement in program.statements:
        own = {m.name: m.rows[statement.name] for m in places[statement.name].members}
        found += instances(statement, [own.get(a.name) for a in axes], [a.shown for a in axes])
    times = timelines(tree, program)
    stamps = [stamp(point, times[point.statement.name]) for point in found]
    arrows = _arrows(now, found, stamps, times)
    broken = {id(v.witness.dependence): v for v in check_schedule(program, now.dependences, tree)}
    count = len(now.dependences)
    verdict = f"legal, {count} of {count} dependences"
    if broken:
        first = next(iter(broken.values())).witness.text
        verdict = f"breaks {len(broken)} of {count} dependences: {first}"
    return SpaceDoc(
        group=now.group.name,
        recipe=to_text(now.advice),
        dimensions=dimensions,
        axes=axes,
        order=tuple(sorted(order, key=dimensions.index)) if tree is now.tree else tuple(order),
        requested=bool(broken),
        statements=tuple(s.name for s in program.statements),
        points=_points(found, stamps, times),
        arrows=arrows,
        dependences=count,
        violated=len(broken),
        verdict=verdict,
        repairs=repairs,
    )


def _points(found: Sequence[Instance], stamps: Sequence[Stamp], times: Mapping[str, Timeline]) -> tuple[PointDoc, ...]:
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
    now: Situation, found: Sequence[Instance], stamps: Sequence[Stamp], times: Mapping[str, Timeline]
) -> tuple[ArrowDoc, ...]:
    """The dependences among the points: violated ones first, then the nearest of each that follow from no others."""
    number = {id(point): k for k, point in enumerate(found)}
    points: dict[str, list[Instance]] = {s.name: [] for s in now.program.statements}
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
    kept = _bounded(_direct(arrows))
    return tuple(
        ArrowDoc(
            a.source,
            a.sink,
            a.dependence.array,
            a.dependence.kind,
            a.violated,
            _WORDS[a.dependence.kind].format(found[a.source], found[a.sink], a.dependence.array),
        )
        for a in kept
    )


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


def _bounded(arrows: Sequence[_Arrow]) -> list[_Arrow]:
    """At most `ARROWS`: violated ones before others, and of every dependence as many as of the next."""
    seen: dict[int, int] = {}
    turns: list[tuple[bool, int, _Arrow]] = []
    for arrow in sorted(arrows, key=lambda a: (not a.violated, a.far, a.source, a.sink)):
        turn = seen[id(arrow.dependence)] = seen.get(id(arrow.dependence), 0) + 1
        turns.append((not arrow.violated, turn, arrow))
    turns.sort(key=lambda item: item[:2])
    return [arrow for _, _, arrow in turns[:ARROWS]]
