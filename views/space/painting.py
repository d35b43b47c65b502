"""Paints an iteration space: tiles, dependences, points, axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF

from engine.documents.exploration import SpaceDoc
from views.shapes import paint_instances, paint_statement
from views.space.arrows import arrow_pen, paint_arrows
from views.space.geometry import ACROSS, DOWN, INTO, LEFT, SpaceGeometry, parallel_axes
from views.space.violation import paint_violated, paint_violated_cells
from views.theme import code_face, face
from views.themed_painter import CENTRE, RIGHT, ThemedPainter

DIRECTIONS = ("left to right", "down", "into the page")


@dataclass(frozen=True, slots=True)
class SpaceState:
    """What is selected and pointed at."""

    selected: frozenset[str] = frozenset()
    """Statements."""
    point: int | None = None
    """Under the pointer or the keyboard."""
    arrow: int | None = None
    """The violated dependence that is named."""
    focus: int | None = None
    """The axis that has the keyboard."""
    caption: str = ""
    """How time runs."""


def paint_space(painter: ThemedPainter, plan: SpaceGeometry, look: SpaceState) -> None:
    """The whole picture."""
    _paint_tiles(painter, plan)
    named = plan.doc.arrows[look.arrow] if look.arrow is not None else None
    if named is not None:
        paint_violated_cells(painter, plan, named)
    _paint_arrows(painter, plan, look)
    _paint_points(painter, plan, look)
    if named is not None:
        paint_violated(painter, plan, named)
    _paint_axes(painter, plan, look)
    _paint_caption(painter, plan, look)


def caption(doc: SpaceDoc) -> str:
    """In which direction time runs, the fastest axis first; what runs at the same time comes last."""
    place = {axis.name: number for number, axis in enumerate(doc.axes)}
    together = parallel_axes(doc)
    inner = [place[name] for name in reversed(doc.order) if name in place]
    serial = ", then ".join(DIRECTIONS[number] for number in inner if number not in together)
    parallel = " and ".join(doc.axes[number].name for number in sorted(together))
    if not serial:
        return "everything shown may run at the same time" if together else ""
    return f"time runs {serial}" + (f", {parallel} in parallel" if parallel else "")


def _paint_tiles(painter: ThemedPainter, plan: SpaceGeometry) -> None:
    """One rectangle for each tile, cut off where the picture ends."""
    across, down = plan.axis(ACROSS), plan.axis(DOWN)
    columns, rows = (*plan.shown, 1, 1)[:2]
    wide = _tile(across.tile if across else 1, columns)
    tall = _tile(down.tile if down else 1, rows)
    for left in range(0, columns, wide):
        for top in range(0, rows, tall):
            box = plan.cells(left, top, min(wide, columns - left), min(tall, rows - top))
            painter.box(box.adjusted(1, 1, -1, -1), "line", "chrome", 4)


def _tile(tile: int, shown: int) -> int:
    """Values of one rectangle; without tiles, one rectangle holds all."""
    return min(tile, shown) if tile > 1 else shown


def _paint_arrows(painter: ThemedPainter, plan: SpaceGeometry, look: SpaceState) -> None:
    """Dependences that hold; of the violated ones only those of the point under pointer or keyboard."""
    pens = {False: arrow_pen(painter.colour("edge"), 1.0), True: arrow_pen(painter.colour("wrong"), 1.4)}
    shown = [arrow for arrow in plan.doc.arrows if {arrow.source, arrow.sink} <= plan.drawn]
    for violated, pen in pens.items():
        ends = (
            (plan.centres[arrow.source], plan.centres[arrow.sink])
            for arrow in shown
            if arrow.violated == violated and (not violated or look.point in (arrow.source, arrow.sink))
        )
        paint_arrows(painter, ends, plan.radius + 1.5, pen, plan.cell.width())


def _paint_points(painter: ThemedPainter, plan: SpaceGeometry, look: SpaceState) -> None:
    instances: dict[str, list[QPointF]] = {name: [] for name in plan.doc.statements}
    for index in plan.drawn:
        instances[plan.doc.points[index].statement].append(plan.centres[index])
    for number, (name, centres) in enumerate(instances.items()):
        paint_instances(painter, centres, number, "accent" if name in look.selected else "text-2", plan.radius)
    if look.point is not None and look.point < len(plan.centres):
        painter.disc(plan.centres[look.point], plan.radius + 4, outline="accent", width=1.6)


def _paint_axes(painter: ThemedPainter, plan: SpaceGeometry, look: SpaceState) -> None:
    for number in range(min(len(plan.doc.axes), INTO)):
        room = plan.cell.width() if number == ACROSS else plan.cell.height()
        step = max(1, math.ceil((22 if number == ACROSS else 14) / room))
        for value in range(0, plan.shown[number], step):
            if number == ACROSS:
                cell = plan.cells(value, 0)
                box = QRectF(cell.left() - 10, plan.area.bottom() + 6, cell.width() + 20, 18)
            else:
                cell = plan.cells(0, value)
                box = QRectF(plan.area.left() - 36, cell.top(), 16, cell.height())
            painter.text(box, str(value), "text-3", code_face(10.5), CENTRE if number == ACROSS else RIGHT)
    for number, axis in enumerate(plan.doc.axes):
        is_focused = look.focus == number
        paint_axis_name(painter, plan.label_box(number), axis.name, is_focused)
        if number < INTO:
            box = plan.handle_box(number, axis.tile)
            thin = box.adjusted(1.5, 2, -1.5, -2) if box.height() > box.width() else box.adjusted(2, 1.5, -2, -1.5)
            painter.box(thin, fill="accent" if is_focused else "edge", radius=1.5)


def paint_axis_name(painter: ThemedPainter, box: QRectF, name: str, focused: bool) -> None:
    """The name of an axis as something that can be taken hold of."""
    wide = QRectF(box)
    wide.setWidth(max(box.width(), painter.width(name, code_face(12)) + 10.0))
    outline, width = ("accent", 1.6) if focused else ("line", 1)
    painter.box(wide, outline, "raised", 4, width)
    painter.word(wide, name, font=code_face(12))


def _paint_caption(painter: ThemedPainter, plan: SpaceGeometry, look: SpaceState) -> None:
    """How time runs at the left, the statements' marks at the right."""
    box = QRectF(LEFT, 8, 2 * plan.area.left() + plan.area.width() - 2 * LEFT, 18)
    for number, name in reversed(list(enumerate(plan.doc.statements))):
        width = painter.text(box, name, "text-2", face(10.5), RIGHT)
        paint_statement(painter, QPointF(box.right() - width - 9, 17), number, "text-2", 3.8)
        box = box.adjusted(0, 0, -width - (30 if len(plan.doc.statements) < 5 else 23), 0)
    painter.text(box, look.caption, "text-3", face(10.5))
