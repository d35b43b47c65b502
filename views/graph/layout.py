"""Layered drawing of one level: longest-path layers, barycentre order, orthogonal edges with side lanes.

Long edges run in vertical lanes beside the rows that they pass, so that no edge crosses a box.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ROW_GAP = 22.0
COLUMN_GAP = 20.0
LANE_OFFSET = 18.0
LANE_GAP = 10.0
SWEEPS = 3
BOXES_A_ROW = 3
"""Boxes side by side at most: a graph is read downwards, so a wider row is broken into several."""

Point = tuple[float, float]
Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Size:
    """Width and height of a box."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class LevelLayout:
    """Centres of boxes (x) with their tops (y), the edges' corners, and the extent of everything."""

    places: Mapping[str, Point]
    routes: Mapping[Edge, tuple[Point, ...]]
    left: float
    right: float
    height: float
    columns: int
    """Boxes in the widest row."""


def lay_out_layers(sizes: Mapping[str, Size], edges: Iterable[Edge], entry: str = "", leave: str = "") -> LevelLayout:
    """Draws the boxes of `sizes` (in topological order) and `edges`; edges against that order are left out.

    `entry` and `leave` name the ports, if there are any: the first stands alone above all boxes, the last below.
    """
    position = {key: index for index, key in enumerate(sizes)}
    forward = [edge for edge in dict.fromkeys(edges) if position[edge[0]] < position[edge[1]]]
    rows = _rows(sizes, forward, (entry, leave))
    places = _places(rows, sizes, forward)
    router = _Router(sizes, rows, places)
    routes = {edge: router.route(*edge) for edge in sorted(forward, key=lambda edge: router.span(*edge))}
    corners = [point for route in routes.values() for point in route]
    left = min([places[key][0] - size.width / 2 for key, size in sizes.items()] + [x for x, _ in corners], default=0.0)
    right = max([places[key][0] + size.width / 2 for key, size in sizes.items()] + [x for x, _ in corners], default=0.0)
    height = max((places[key][1] + size.height for key, size in sizes.items()), default=0.0)
    return LevelLayout(places, routes, left, right, height, max(map(len, rows), default=0))


def _rows(sizes: Mapping[str, Size], edges: Sequence[Edge], ports: tuple[str, str]) -> list[list[str]]:
    """Boxes by their longest path from a source, each row ordered by the mean place of its neighbours."""
    before: dict[str, list[str]] = defaultdict(list)
    after: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    layer: dict[str, int] = {}
    for key in sizes:
        layer[key] = max((layer[source] + 1 for source in before[key]), default=0)
    for key in reversed(list(sizes)):  # a source stands next to its first reader, not at the top
        if after[key] and not before[key]:
            layer[key] = min(layer[target] for target in after[key]) - 1
    _separate(layer, *ports)
    rows: list[list[str]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for key in sizes:
        rows[layer[key]].append(key)
    for sweep in range(SWEEPS):
        neighbours = before if sweep % 2 == 0 else after
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _order(row, neighbours, rows, layer)
    return [row[start : start + BOXES_A_ROW] for row in rows for start in range(0, len(row), BOXES_A_ROW)]


def _separate(layer: dict[str, int], entry: str, leave: str) -> None:
    """Gives each port a row of its own."""
    if entry in layer and any(row == 0 for key, row in layer.items() if key != entry):
        for key in layer.keys() - {entry}:
            layer[key] += 1
    if leave in layer:
        layer[leave] = 1 + max(row for key, row in layer.items() if key != leave)


def _order(
    row: list[str], neighbours: Mapping[str, list[str]], rows: list[list[str]], layer: Mapping[str, int]
) -> None:
    if len(row) < 2:
        return

    def centre(key: str) -> float:
        near = [
            rows[layer[other]].index(other) / max(len(rows[layer[other]]) - 1, 1) for other in neighbours.get(key, ())
        ]
        return sum(near) / len(near) if near else 0.5

    row.sort(key=centre)


def _places(rows: list[list[str]], sizes: Mapping[str, Size], edges: Sequence[Edge]) -> dict[str, Point]:
    before: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        before[target].append(source)
    places: dict[str, Point] = {}
    top = 0.0
    for row in rows:
        wanted = [_mean([places[source][0] for source in before[key] if source in places]) for key in row]
        for key, x in zip(row, _spread(row, wanted, sizes), strict=True):
            places[key] = (x, top)
        top += max(sizes[key].height for key in row) + ROW_GAP
    return places


def _spread(row: list[str], wanted: list[float], sizes: Mapping[str, Size]) -> list[float]:
    """Centres as near to `wanted` as the widths allow, in the given order."""
    placed: list[float] = []
    for key, x in zip(row, wanted, strict=True):
        if placed:
            previous = row[len(placed) - 1]
            x = max(x, placed[-1] + (sizes[previous].width + sizes[key].width) / 2 + COLUMN_GAP)
        placed.append(x)
    shift = _mean([want - got for want, got in zip(wanted, placed, strict=True)])
    return [x + shift for x in placed]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


class _Router:
    """Finds the corners of edges and remembers which lanes are taken."""

    def __init__(self, sizes: Mapping[str, Size], rows: list[list[str]], places: Mapping[str, Point]) -> None:
        self._sizes = sizes
        self._rows = rows
        self._places = places
        self._row_of = {key: index for index, row in enumerate(rows) for key in row}
        self._taken: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)

    def span(self, source: str, target: str) -> int:
        """Rows between the two ends."""
        return self._row_of[target] - self._row_of[source]

    def route(self, source: str, target: str) -> tuple[Point, ...]:
        first, last = self._row_of[source], self._row_of[target]
        (x, y), (to_x, to_y) = self._bottom(source), self._places[target]
        if last - first == 1 or self._is_free(x, first + 1, last):
            turn = self._channel(last)
            return ((x, y), (to_x, to_y)) if abs(x - to_x) < 0.5 else ((x, y), (x, turn), (to_x, turn), (to_x, to_y))
        side, lane = self._lane(source, target, first, last)
        return (*self._leave(source, side, lane, first), *self._enter(target, side, lane, last))

    def _leave(self, key: str, side: int, lane: float, row: int) -> tuple[Point, ...]:
        edge, middle = self._side(key, side)
        if self._is_outermost(key, side, row) and self._sizes[key].height > 0:
            return ((edge, middle), (lane, middle))
        x, y = self._bottom(key)
        turn = self._channel(row + 1)
        return ((x, y), (x, turn), (lane, turn))

    def _enter(self, key: str, side: int, lane: float, row: int) -> tuple[Point, ...]:
        edge, middle = self._side(key, side)
        if self._is_outermost(key, side, row) and self._sizes[key].height > 0:
            return ((lane, middle), (edge, middle))
        x, y = self._places[key]
        turn = self._channel(row)
        return ((lane, turn), (x, turn), (x, y))

    def _lane(self, source: str, target: str, first: int, last: int) -> tuple[int, float]:
        """The side with fewer edges along these rows, and the first lane there that is free."""
        tracks = {side: self._free_track(side, first, last) for side in (-1, 1)}
        nearer = 1 if self._places[target][0] > self._places[source][0] + 1 else -1
        side = min((nearer, -nearer), key=lambda candidate: tracks[candidate])
        self._taken[side, tracks[side]].append((first, last))
        inner = [key for row in self._rows[first : last + 1] for key in row]
        edges = [self._places[key][0] + side * self._sizes[key].width / 2 for key in inner]
        extreme = max(edges) if side > 0 else min(edges)
        return side, extreme + side * (LANE_OFFSET + LANE_GAP * tracks[side])

    def _free_track(self, side: int, first: int, last: int) -> int:
        track = 0
        while any(begin < last and first < end for begin, end in self._taken[side, track]):
            track += 1
        return track

    def _is_free(self, x: float, first: int, last: int) -> bool:
        """Whether a vertical line at x passes the rows first..last-1 without touching a box."""
        return all(
            abs(self._places[key][0] - x) > self._sizes[key].width / 2 + 6
            for row in self._rows[first:last]
            for key in row
        )

    def _is_outermost(self, key: str, side: int, row: int) -> bool:
        return self._rows[row][-1 if side > 0 else 0] == key

    def _side(self, key: str, side: int) -> Point:
        (x, y), size = self._places[key], self._sizes[key]
        return x + side * size.width / 2, y + size.height / 2

    def _bottom(self, key: str) -> Point:
        x, y = self._places[key]
        return x, y + self._sizes[key].height

    def _channel(self, row: int) -> float:
        """Height of the horizontal stretch above a row."""
        return self._places[self._rows[row][0]][1] - ROW_GAP / 2
