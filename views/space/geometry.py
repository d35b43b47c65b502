"""Where the points, tiles, axes and handles of an iteration space stand on a canvas of a given size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSizeF

from engine.documents.exploration import SpaceAxisDoc, SpaceDoc

LEFT, TOP, RIGHT, BOTTOM = 62.0, 38.0, 40.0, 34.0
"""Room for the axis that runs down, the caption, the end of the axis that runs across, and its numbers."""
LARGEST_CELL, LARGEST_RADIUS = 72.0, 4.4
LEAST_GAP = 18.0
"""Pixels between marks of one cell; values for which there is no such room are left out at the end of an axis."""
LEAST_SHOWN = 3
DEPTH_STEP = QPointF(9, -7)
"""How far a value further into the page is moved."""
REACH = 11.0
"""Pixels around a point that still mean the point."""
GRIP = 18.0
"""Length of a handle along its axis' edge."""
ACROSS, DOWN, INTO = 0, 1, 2


@dataclass(frozen=True, slots=True)
class SpaceGeometry:
    """An iteration space laid out."""

    doc: SpaceDoc
    shown: tuple[int, ...]
    """How many values of each axis are drawn: those of the document, or as many as have room."""
    area: QRectF
    """All cells at the front."""
    cell: QSizeF
    slots: Mapping[str, QPointF]
    """Statement -> where its mark stands in a cell."""
    radius: float
    centres: tuple[QPointF, ...]
    """One for each point, drawn or not."""
    drawn: frozenset[int]
    """The points that have room."""

    def cells(self, across: int, down: int, columns: int = 1, rows: int = 1) -> QRectF:
        """The box around cells, the first of them given by its values."""
        corner = self.area.topLeft() + QPointF(across * self.cell.width(), down * self.cell.height())
        return QRectF(corner, QSizeF(columns * self.cell.width(), rows * self.cell.height()))

    def axis(self, number: int) -> SpaceAxisDoc | None:
        """An axis; None where the picture has fewer."""
        return self.doc.axes[number] if number < len(self.doc.axes) else None

    def point_at(self, position: QPointF) -> int | None:
        """The point nearest to a position, within reach."""
        distances = [(math.dist(self.centres[k].toTuple(), position.toTuple()), k) for k in self.drawn]
        nearest = min(distances, default=(math.inf, 0))
        return nearest[1] if nearest[0] <= REACH else None

    def label_box(self, number: int) -> QRectF:
        """Where the name of an axis stands, which is what is dragged."""
        if number == ACROSS:
            return QRectF(self.area.right() + 8, self.area.bottom() + 7, 26, 20)
        if number == DOWN:
            return QRectF(self.area.left() - 60, self.area.center().y() - 10, 24, 20)
        return QRectF(self.area.right() + 8, self.area.top() - 24, 26, 20)

    def label_at(self, position: QPointF) -> int | None:
        """The axis whose name is at a position."""
        numbers = range(len(self.doc.axes))
        return next((k for k in numbers if self.label_box(k).adjusted(-5, -5, 5, 5).contains(position)), None)

    def handle_box(self, number: int, tile: int) -> QRectF:
        """The handle at the end of the first tile of an axis; it lies on the edge of the cells."""
        values = min(max(tile, 1), self.shown[number])
        if number == ACROSS:
            return QRectF(self.area.left() + values * self.cell.width() - 3, self.area.bottom() + 1, 6, GRIP)
        return QRectF(self.area.left() - GRIP - 1, self.area.top() + values * self.cell.height() - 3, GRIP, 6)

    def handle_at(self, position: QPointF) -> int | None:
        """The axis whose handle is at a position."""
        for number, axis in enumerate(self.doc.axes[:INTO]):
            if self.handle_box(number, axis.tile).adjusted(-4, -4, 4, 4).contains(position):
                return number
        return None

    def tile_at(self, number: int, position: QPointF) -> int:
        """How many values of an axis end at a position."""
        place = position - self.area.topLeft()
        values = place.x() / self.cell.width() if number == ACROSS else place.y() / self.cell.height()
        return min(max(round(values), 1), self.shown[number])


def plan(doc: SpaceDoc, size: QSizeF) -> SpaceGeometry:
    """Lays a space out: cells as large as fit, the marks of a cell's statements as far apart as it allows."""
    layers = doc.axes[INTO].shown if len(doc.axes) > INTO else 1
    depth = DEPTH_STEP * float(layers - 1)
    room = (size.width() - LEFT - RIGHT - depth.x(), size.height() - TOP - BOTTOM + depth.y())
    shown = _values_shown(doc, room, layers)
    columns, rows = (*shown, 1, 1)[:2]
    cell = QSizeF(_within(room[0] / columns), _within(room[1] / rows))
    spare = max(room[0] - columns * cell.width(), 0.0)
    area = QRectF(QPointF(LEFT + spare / 2, TOP - depth.y()), QSizeF(columns * cell.width(), rows * cell.height()))
    slots, gap = _slots(doc.statements, cell, layers)
    radius = min(LARGEST_RADIUS, max(gap * 0.3, 1.6))
    centres = tuple(_centre(point.position, area, cell) + slots[point.statement] for point in doc.points)
    drawn = (k for k, point in enumerate(doc.points) if all(a < b for a, b in zip(point.position, shown, strict=True)))
    return SpaceGeometry(doc, shown, area, cell, slots, radius, centres, frozenset(drawn))


def _values_shown(doc: SpaceDoc, room: tuple[float, float], layers: int) -> tuple[int, ...]:
    """Values of each axis that have room; never fewer than the violated dependence that is named needs."""
    shown = [axis.shown for axis in doc.axes]
    number = named_arrow(doc)
    named = doc.arrows[number] if number is not None else None
    ends = [doc.points[end].position for end in (named.source, named.sink)] if named else []
    needed = [max((end[number] + 2 for end in ends), default=LEAST_SHOWN) for number in range(len(shown))]
    for number in reversed(range(min(len(shown), INTO))):
        while shown[number] > max(needed[number], LEAST_SHOWN):
            columns, rows = (*shown, 1, 1)[:2]
            cell = QSizeF(_within(room[0] / columns), _within(room[1] / rows))
            length = cell.width() if number == ACROSS else cell.height()
            if length == LARGEST_CELL or _slots(doc.statements, cell, layers)[1] >= LEAST_GAP:
                break
            shown[number] -= 1
    return tuple(shown)


def named_arrow(doc: SpaceDoc) -> int | None:
    """The violated dependence that is drawn large: one that the verdict tells of, away from the picture's border.

    The verdict's own instances only if they are away from it, too; else the longest, of equal ones that nearest the
    third row.
    """
    last = [axis.shown - 1 for axis in doc.axes[:INTO]]

    def rank(number: int) -> tuple[bool, bool, bool, float, float]:
        arrow = doc.arrows[number]
        ends = [doc.points[end] for end in (arrow.source, arrow.sink)]
        source, sink = (end.position for end in ends)
        same = arrow.array in doc.verdict and all(f"{end.statement}[" in doc.verdict for end in ends)
        inside = all(0 < value < most for end in ends for value, most in zip(end.position, last, strict=False) if most)
        told = all(end.text.replace("(", "[").replace(")", "]") in doc.verdict for end in ends)
        middle = (doc.axes[ACROSS].shown / 2, 2.0, 0.0)[: len(source)]
        centre = [(a + b) / 2 for a, b in zip(source, sink, strict=True)]
        return same, inside, told, math.dist(source, sink), -math.dist(centre, middle)

    violated = [number for number, arrow in enumerate(doc.arrows) if arrow.violated]
    return max(violated, key=rank, default=None)


def parallel_axes(doc: SpaceDoc) -> frozenset[int]:
    """Axes along which every statement has equal ranks: their values may run at the same time."""
    found = set()
    for number in range(len(doc.axes)):
        ranks: dict[tuple[object, ...], set[int]] = {}
        for point in doc.points:
            others = tuple(value for k, value in enumerate(point.position) if k != number)
            ranks.setdefault((point.statement, *others), set()).add(point.rank)
        if doc.axes[number].shown > 1 and all(len(each) == 1 for each in ranks.values()):
            found.add(number)
    return frozenset(found)


def _within(length: float) -> float:
    return min(max(length, 8.0), LARGEST_CELL)


def _slots(statements: tuple[str, ...], cell: QSizeF, layers: int) -> tuple[dict[str, QPointF], float]:
    """The rows of marks that leave most room between them, and that room; deeper layers need some of the cell."""
    depth = DEPTH_STEP * float(min(layers - 1, 3))
    width, height = max(cell.width() - depth.x(), 6.0), max(cell.height() + depth.y(), 6.0)
    count = max(len(statements), 1)

    def gap(columns: int) -> float:
        return min(width / columns, height / math.ceil(count / columns))

    columns = max(range(1, count + 1), key=lambda each: (gap(each), -each))
    rows = math.ceil(count / columns)
    step = QPointF(width / columns, min(height / rows, 20.0))
    first = QPointF(step.x() / 2, (height - (rows - 1) * step.y()) / 2 - depth.y())
    slots = {
        name: first + QPointF(step.x() * (k % columns), step.y() * (k // columns)) for k, name in enumerate(statements)
    }
    return slots, min(step.x() if columns > 1 else width, step.y() if rows > 1 else height)


def _centre(position: tuple[int, ...], area: QRectF, cell: QSizeF) -> QPointF:
    across, down, into = (*position, 0, 0, 0)[:3]
    return area.topLeft() + QPointF(across * cell.width(), down * cell.height()) + DEPTH_STEP * float(into)
