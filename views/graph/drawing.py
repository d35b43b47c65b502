"""Where every box and edge of the graph goes, given which boxes are open.  No Qt: plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.documents.model import EdgeDoc, LinkDoc, ModelDoc
from views.graph.hull import Inside, placed_inside
from views.graph.layout import Edge, LevelLayout, Point, Size, lay_out_layers
from views.hierarchy import GraphBox

NODE = Size(264.0, 44.0)
NARROW = Size(188.0, 44.0)
"""For levels that hold three launches or more side by side."""
CROWDED = 3
HEADER = 30.0
MARGIN = 18.0
ENTRY, EXIT = "entry", "exit"
PORT = Size(0.0, 0.0)
OPEN_AT_FIRST = 24
"""A layer with at most so many boxes starts open."""


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """A box with its rectangle (left, top, width, height)."""

    box: GraphBox
    left: float
    top: float
    width: float
    height: float
    opened: bool
    depth: int


@dataclass(frozen=True, slots=True)
class EdgeLine:
    """An edge's corners; `tensors` are the edges of the model that it stands for."""

    source: str
    target: str
    points: tuple[Point, ...]
    arrow: bool
    tensors: tuple[EdgeDoc, ...]
    links: tuple[LinkDoc, ...] = ()
    """Inside a launch: what the operator at its source hands to the one at its target."""

    @property
    def is_fixed(self) -> bool:
        """Whether the user keeps its ends apart."""
        return any(tensor.fixed for tensor in self.tensors)


@dataclass(frozen=True, slots=True)
class Drawing:
    """Everything to paint, outer boxes first, and its extent (left, top, right, bottom)."""

    placed: tuple[PlacedBox, ...]
    lines: tuple[EdgeLine, ...]
    extent: tuple[float, float, float, float]


Link = tuple[str, str, EdgeDoc]
"""Source and target launch ("" outside of the level) and the model's edge."""


def first_open(model: ModelDoc, top: Sequence[GraphBox]) -> frozenset[str]:
    """The layers of the top level that start open: the longest-running one, if it is small enough to read."""
    times = {group.name: group.share / max(group.instances, 1) for group in model.groups}
    layers = [box for box in top if box.count > 1 and 0 < len(box.children) <= OPEN_AT_FIRST]
    dearest = max(layers, key=lambda box: sum(times.get(node.group, 0.0) for node in box.nodes), default=None)
    return frozenset([dearest.key] if dearest else [])


@dataclass(frozen=True, slots=True)
class LevelDrawing:
    """One level of boxes with the tensors between them."""

    boxes: tuple[GraphBox, ...]
    tensors: Mapping[Edge, tuple[EdgeDoc, ...]]
    touching: Mapping[str, Sequence[Link]]
    """Box that can be opened -> the links with an end in it."""


class GraphDrawing:
    """A model's levels; each is worked out when it is drawn first, and kept."""

    def __init__(self, model: ModelDoc, top: tuple[GraphBox, ...]) -> None:
        links = [(edge.source, edge.target, edge) for edge in model.edges if edge.source and edge.target]
        self._top = _make_level(top, links)
        self._inside_launches = Inside(model)
        self._inner: dict[str, LevelDrawing] = {}

    @property
    def top(self) -> tuple[GraphBox, ...]:
        """The boxes of the outermost level."""
        return self._top.boxes

    def draw(self, opened: Collection[str]) -> Drawing:
        """Draws the model with the boxes whose keys are in `opened` opened."""
        return self._draw(self._top, opened, 0)

    def path_to(self, node: str) -> tuple[str, ...]:
        """Keys of the boxes that hold a launch, the outermost first; of copies the place in the first one."""
        path: list[str] = []
        level = self._top.boxes
        while level:
            box, place = next(
                ((box, place) for box in level for place, each in enumerate(box.nodes) if each.id == node), (None, 0)
            )
            if box is None:
                break
            path.append(box.key)
            level, node = box.children, box.nodes[place % box.period].id
        return tuple(path)

    def _draw(self, level: LevelDrawing, opened: Collection[str], depth: int) -> Drawing:
        inner = {
            box.key: self._draw(self._inside(box, level), opened, depth + 1)
            if box.children
            else self._hull(box, depth + 1)
            for box in level.boxes
            if box.key in opened
        }
        return _draw_level(level.boxes, level.tensors, inner, depth)

    def _hull(self, box: GraphBox, depth: int) -> Drawing:
        """The operators of a launch."""
        boxes, links = self._inside_launches.boxes(box), self._inside_launches.links(box)
        plan, size = placed_inside(boxes, links)
        placed = tuple(
            PlacedBox(each, x - size.width / 2, y, size.width, size.height, False, depth)
            for each in boxes
            for x, y in (plan.places[each.key],)
        )
        lines = tuple(EdgeLine(*edge, route, True, (), links[edge]) for edge, route in plan.routes.items())
        return Drawing(placed, lines, (plan.left, 0.0, plan.right, plan.height))

    def _inside(self, box: GraphBox, level: LevelDrawing) -> LevelDrawing:
        """The first copy of a box, with what enters the first copy and leaves the last one at its border."""
        if box.key not in self._inner:
            place = {node.id: index for index, node in enumerate(box.nodes)}
            inside: list[Link] = []
            for source, target, edge in level.touching.get(box.key, ()):
                inside += _seen_inside(place.get(source), place.get(target), edge, box)
            self._inner[box.key] = _make_level(box.children, inside)
        return self._inner[box.key]


def _draw_level(
    level: Sequence[GraphBox], tensors: Mapping[Edge, tuple[EdgeDoc, ...]], inner: dict[str, Drawing], depth: int
) -> Drawing:
    sizes = _sizes(level, inner, tensors, NODE)
    plan = lay_out_layers(sizes, tensors, ENTRY, EXIT)
    if plan.columns >= CROWDED:
        sizes = _sizes(level, inner, tensors, NARROW)
        plan = lay_out_layers(sizes, tensors, ENTRY, EXIT)
    placed: list[PlacedBox] = []
    lines = [_line(edge, route, tensors[edge], inner, plan) for edge, route in plan.routes.items()]
    for box in level:
        (x, y), size = plan.places[box.key], sizes[box.key]
        placed.append(PlacedBox(box, x - size.width / 2, y, size.width, size.height, box.key in inner, depth))
        if box.key in inner:
            content = inner[box.key]
            shift = _shift(content, x, y + HEADER)
            placed += shift.placed
            lines += shift.lines
    return Drawing(tuple(placed), tuple(lines), (plan.left, 0.0, plan.right, plan.height))


def _sizes(
    level: Sequence[GraphBox], inner: Mapping[str, Drawing], edges: Iterable[Edge], node: Size
) -> dict[str, Size]:
    """Sizes in topological order; ports at the border where edges cross it."""
    ends = {end for edge in edges for end in edge}
    sizes = {ENTRY: PORT} if ENTRY in ends else {}
    sizes |= {box.key: _size(inner[box.key]) if box.key in inner else node for box in level}
    return sizes | ({EXIT: PORT} if EXIT in ends else {})


def _seen_inside(source: int | None, target: int | None, edge: EdgeDoc, box: GraphBox) -> Iterable[Link]:
    """An edge between launches (numbered within the box, None outside) as the first copy sees it."""
    period, first = box.period, box.nodes
    if source is not None and target is not None and source // period == target // period:
        if source < period:
            yield first[source].id, first[target].id, edge
        return
    if source is not None and (target is not None or source // period == box.count - 1):
        yield first[source % period].id, "", edge
    if target is not None and (source is not None or target // period == 0):
        yield "", first[target % period].id, edge


def _make_level(level: tuple[GraphBox, ...], links: Iterable[Link]) -> LevelDrawing:
    owner = {node.id: box.key for box in level for node in box.nodes}
    touching: dict[str, list[Link]] = {box.key: [] for box in level if box.children}
    found: dict[Edge, list[EdgeDoc]] = {}
    for link in links:
        source, target, edge = link
        ends = (owner.get(source, ENTRY), owner.get(target, EXIT))
        for end in set(ends) & touching.keys():
            touching[end].append(link)
        if ends[0] != ends[1] and ends != (ENTRY, EXIT):
            found.setdefault(ends, []).append(edge)
    return LevelDrawing(level, {ends: tuple(edges) for ends, edges in found.items()}, touching)


def _size(content: Drawing) -> Size:
    left, _, right, bottom = content.extent
    return Size(2 * max(-left, right) + 2 * MARGIN, bottom + HEADER + MARGIN)


def _line(
    edge: Edge, route: Sequence[Point], tensors: tuple[EdgeDoc, ...], inner: dict[str, Drawing], plan: LevelLayout
) -> EdgeLine:
    """Edges from and to the border are prolonged to it; an edge that goes on inside an open box has no head."""
    source, target = edge
    points = list(route)
    if source == ENTRY:
        points.insert(0, (points[0][0], -HEADER))
    if target == EXIT:
        x, y = points[-1]
        points += [(0.0, y), (0.0, y + MARGIN)] if abs(x) > 0.5 else [(0.0, y + MARGIN)]
    goes_on = target == EXIT or (target in inner and any(line.tensors for line in inner[target].lines))
    return EdgeLine(source, target, tuple(points), not goes_on, tensors)


def _shift(content: Drawing, x: float, y: float) -> Drawing:
    def move(point: Point) -> Point:
        return point[0] + x, point[1] + y

    placed = tuple(replace(each, left=each.left + x, top=each.top + y) for each in content.placed)
    lines = tuple(replace(line, points=tuple(map(move, line.points))) for line in content.lines)
    return Drawing(placed, lines, content.extent)


def keys_to_reopen(before: Iterable[GraphBox], top: Iterable[GraphBox]) -> frozenset[str]:
    """Keys of the boxes of another plan's levels that hold what opened boxes held `before`: layers most of it, launches
    any of it."""
    old = [(frozenset(_operators(box)), bool(box.children)) for box in before]

    def holds_opened(box: GraphBox) -> bool:
        inside = _operators(box)
        if not box.children:
            return any(not inside.isdisjoint(each) for each, is_layer in old if not is_layer)
        return any(2 * len(inside & each) >= len(inside | each) for each, is_layer in old if is_layer)

    found: set[str] = set()
    waiting = list(top)
    while waiting and old:
        box = waiting.pop()
        if holds_opened(box):
            found.add(box.key)
            waiting += box.children
    return frozenset(found)


def _operators(box: GraphBox) -> frozenset[str]:
    """Operators of the first copy."""
    return frozenset(op for node in box.copy for op in node.operators)


def visible_box(drawing: Drawing, belongs: Callable[[GraphBox], bool]) -> list[PlacedBox]:
    """The innermost drawn boxes for which `belongs` holds."""
    hits = [each for each in drawing.placed if belongs(each.box)]
    closed = [each for each in hits if not each.opened]
    return closed or hits
