"""The graph panel's drawing as SVG, laid out by the same code."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from engine.documents.model import GroupDoc, ModelDoc
from views.format import compact_shape, duration
from views.graph.drawing import HEADER, Drawing, GraphDrawing, PlacedBox
from views.graph.layout import Point
from views.hierarchy import GraphBox, boxes, groups_by_name
from views.report.markup import Markup, tag

BORDER = 14.0
LETTER = 6.3
"""Mean width of a character of 11 pixels, for cutting names that would leave their box."""
SMALL = 5.8
"""The same of 10.5 pixels."""
BAR = 40.0
RADIUS = 4.0
HEAD = 7.0
"""Pixels of an arrow head."""
SHADOWS = (8.0, 4.0)
"""Offsets of the outlines behind a box that stands for several copies."""
COSTS = 7
"""Classes of the cost scale."""
MOST_BOXES = 64
"""Boxes of a picture, where there are not more on the top level already: nobody can open one on paper."""


def graph_picture(model: ModelDoc, links: Mapping[str, str]) -> Markup:
    """The model's kernels as boxes with times and arrows.  links: group -> where a click on its box leads to."""
    top = boxes(model)
    drawing = GraphDrawing(model, top).draw(_choose_open(top))
    picture = _BoxPainter(model, links)
    left, upper, right, bottom = drawing.extent
    width, height = right - left + 2 * BORDER, bottom - upper + 2 * BORDER
    content = [*picture.boxes(drawing), *_lines(drawing)]
    return tag(
        "svg", tag("title", f"Graph of {model.name}"), content, class_="graph", role="img", width=width, height=height,
        viewBox=f"{left - BORDER:g} {upper - BORDER:g} {width:g} {height:g}",
    )  # fmt: skip


def _choose_open(top: Sequence[GraphBox]) -> frozenset[str]:
    """Keys of the boxes that are drawn open: level by level, as long as the picture does not grow too long."""
    opened: set[str] = set()
    waiting, shown = deque(top), len(top)
    while waiting:
        box = waiting.popleft()
        if box.children and shown + len(box.children) <= MOST_BOXES:
            opened.add(box.key)
            shown += len(box.children)
            waiting.extend(box.children)
    return frozenset(opened)


def elide(text: str, width: float, letter: float = LETTER) -> str:
    """As much of a text as about fits into a width."""
    most = max(int(width / letter), 1)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _lines(drawing: Drawing) -> Iterator[Markup]:
    for line in drawing.lines:
        points = " ".join(f"{x:g},{y:g}" for x, y in line.points)
        yield tag("polyline", points=points, class_="edge")
        if line.arrow:
            yield _head(*line.points[-2:])


def _head(before: Point, tip: Point) -> Markup:
    """An arrow head along the last stretch of an edge, which is horizontal or vertical."""
    (x0, y0), (x, y) = before, tip
    across, down = (x > x0) - (x < x0), (y > y0) - (y < y0)
    back_x, back_y = x - HEAD * across, y - HEAD * down
    wide_x, wide_y = HEAD * 0.5 * abs(down), HEAD * 0.5 * abs(across)
    corners = ((back_x - wide_x, back_y - wide_y), (x, y), (back_x + wide_x, back_y + wide_y))
    return tag("polyline", points=" ".join(f"{left:g},{top:g}" for left, top in corners), class_="edge")


class _BoxPainter:
    """Paints boxes; knows the times of groups."""

    def __init__(self, model: ModelDoc, links: Mapping[str, str]) -> None:
        self._groups = groups_by_name(model)
        self._links = links
        times = [group.time.microseconds for group in model.groups if group.time]
        self._dearest = max(times, default=0.0) or 1.0

    def boxes(self, drawing: Drawing) -> Iterator[Markup]:
        """Outer boxes first."""
        for placed in drawing.placed:
            group = None if placed.box.children else self._groups.get(placed.box.nodes[0].group)
            content = [*_outlines(placed), *(self._frame(placed) if placed.opened else self._box(placed, group))]
            link = self._links.get(group.name) if group else None
            moved = f"translate({placed.left:g} {placed.top:g})"
            drawn = tag("g", content, transform=moved)
            yield tag("a", drawn, href=link) if link else drawn

    def _time(self, box: GraphBox) -> float:
        """Microseconds of one copy."""
        known = (self._groups[node.group].time for node in box.copy if node.group in self._groups)
        return sum(time.microseconds for time in known if time)

    def _frame(self, placed: PlacedBox) -> Iterator[Markup]:
        yield from _row(placed, 19.0, placed.box.title, _copies(placed.box), self._figure(placed.box))

    def _box(self, placed: PlacedBox, group: GroupDoc | None) -> Iterator[Markup]:
        yield from _row(placed, 18.0, placed.box.title, _copies(placed.box), self._figure(placed.box))
        width = placed.width - 24
        if group is None:
            inside = placed.box.contents + " each" * (placed.box.count > 1)
            inside = "no kernel" if placed.box.is_uncompiled else inside
            yield tag("text", elide(inside, width), x=12.0, y=34.0, class_="dim")
            return
        cost = group.time.microseconds / self._dearest if group.time else 0.0
        shape = elide(compact_shape(group.shape), width - BAR - 14 - SMALL * len(group.bound), SMALL)
        yield tag("text", shape, x=12.0, y=34.0, class_="dim")
        yield tag("text", group.bound, x=placed.width - 18 - BAR, y=34.0, class_="dim end")
        bar = {"x": placed.width - 12 - BAR, "y": 27.0, "height": 7.0, "rx": 2.0}
        yield tag("rect", width=BAR, class_="track", **bar)
        if group.time:
            yield tag("rect", width=max(BAR * cost, 1.5), class_=f"bar cost-{min(int(cost * COSTS), COSTS - 1)}", **bar)

    def _figure(self, box: GraphBox) -> str:
        time = self._time(box)
        return f"{duration(time)}{' each' if box.count > 1 else ''}" if time else "" if box.is_uncompiled else "no time"


def _row(placed: PlacedBox, y: float, title: str, copies: str, figure: str) -> Iterator[Markup]:
    room = placed.width - 32 - LETTER * (len(figure) + len(copies))
    yield tag("text", tag("tspan", elide(title, room, 6.8), class_="name"), copies, x=12.0, y=y)
    yield tag("text", figure, x=placed.width - 12, y=y, class_="end name")


def _copies(box: GraphBox) -> str:
    return f"  × {box.count}" if box.count > 1 else ""


def _outlines(placed: PlacedBox) -> Iterator[Markup]:
    size = {"width": placed.width, "height": placed.height, "rx": RADIUS}
    if placed.box.count > 1:
        for shift in SHADOWS:
            yield tag("rect", x=shift, y=-shift, class_="shadow", **size)
    yield tag("rect", class_="frame" if placed.opened else "box", **size)
    if placed.opened:
        yield tag("line", x1=0.0, x2=placed.width, y1=HEADER, y2=HEADER, class_="rule")
