"""Paints an iteration space: tiles, dependences, points, axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from engine.documents.exploration import SpaceDoc
from views.rows import draw_text
from views.shapes import paint_instances, paint_statement
from views.space.arrows import arrow_pen, paint_arrows
from views.space.geometry import ACROSS, DOWN, INTO, LEFT, SpaceGeometry, parallel_axes
from views.space.violation import paint_hatch, paint_violated
from views.theme import Theme, code_face, face

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


def paint_space(painter: QPainter, plan: SpaceGeometry, look: SpaceState, theme: Theme) -> None:
    """The whole picture."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _paint_tiles(painter, plan, theme)
    named = plan.doc.arrows[look.arrow] if look.arrow is not None else None
    if named is not None:
        paint_hatch(painter, plan, named, theme)
    _paint_arrows(painter, plan, look, theme)
    _paint_points(painter, plan, look, theme)
    if named is not None:
        paint_violated(painter, plan, named, theme)
    _paint_axes(painter, plan, look, theme)
    _paint_caption(painter, plan, look, theme)


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


def _paint_tiles(painter: QPainter, plan: SpaceGeometry, theme: Theme) -> None:
    """One rectangle for each tile, cut off where the picture ends."""
    across, down = plan.axis(ACROSS), plan.axis(DOWN)
    columns, rows = (*plan.shown, 1, 1)[:2]
    wide = _tile(across.tile if across else 1, columns)
    tall = _tile(down.tile if down else 1, rows)
    painter.setPen(QPen(theme.colour("line"), 1))
    painter.setBrush(theme.colour("chrome"))
    for left in range(0, columns, wide):
        for top in range(0, rows, tall):
            box = plan.cells(left, top, min(wide, columns - left), min(tall, rows - top))
            painter.drawRoundedRect(box.adjusted(1.5, 1.5, -1.5, -1.5), 4, 4)


def _tile(tile: int, shown: int) -> int:
    """Values of one rectangle; without tiles, one rectangle holds all."""
    return min(tile, shown) if tile > 1 else shown


def _paint_arrows(painter: QPainter, plan: SpaceGeometry, look: SpaceState, theme: Theme) -> None:
    """Dependences that hold; of the violated ones only those of the point under pointer or keyboard."""
    pens = {False: arrow_pen(theme.colour("edge"), 1.0), True: arrow_pen(theme.colour("wrong"), 1.4)}
    shown = [arrow for arrow in plan.doc.arrows if {arrow.source, arrow.sink} <= plan.drawn]
    for violated, pen in pens.items():
        ends = (
            (plan.centres[arrow.source], plan.centres[arrow.sink])
            for arrow in shown
            if arrow.violated == violated and (not violated or look.point in (arrow.source, arrow.sink))
        )
        paint_arrows(painter, ends, plan.radius + 1.5, pen, plan.cell.width())


def _paint_points(painter: QPainter, plan: SpaceGeometry, look: SpaceState, theme: Theme) -> None:
    plain, chosen = theme.colour("text-2"), theme.colour("accent")
    instances: dict[str, list[QPointF]] = {name: [] for name in plan.doc.statements}
    for index in plan.drawn:
        instances[plan.doc.points[index].statement].append(plan.centres[index])
    for number, (name, centres) in enumerate(instances.items()):
        colour = chosen if name in look.selected else plain
        paint_instances(painter, centres, number, colour, theme, plan.radius)
    if look.point is not None and look.point < len(plan.centres):
        painter.setPen(QPen(chosen, 1.6))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        reach = plan.radius + 4
        painter.drawEllipse(plan.centres[look.point], reach, reach)


def _paint_axes(painter: QPainter, plan: SpaceGeometry, look: SpaceState, theme: Theme) -> None:
    painter.setFont(code_face(10.5))
    painter.setPen(theme.colour("text-3"))
    for number in range(min(len(plan.doc.axes), INTO)):
        room = plan.cell.width() if number == ACROSS else plan.cell.height()
        step = max(1, math.ceil((22 if number == ACROSS else 14) / room))
        for value in range(0, plan.shown[number], step):
            if number == ACROSS:
                cell = plan.cells(value, 0)
                box = QRectF(cell.left() - 10, plan.area.bottom() + 6, cell.width() + 20, 18)
                painter.drawText(box, Qt.AlignmentFlag.AlignCenter, str(value))
            else:
                cell = plan.cells(0, value)
                box = QRectF(plan.area.left() - 36, cell.top(), 16, cell.height())
                painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, str(value))
    for number, axis in enumerate(plan.doc.axes):
        paint_axis_name(painter, plan.label_box(number), axis.name, look.focus == number, theme)
        if number < INTO:
            _paint_handle(painter, plan.handle_box(number, axis.tile), look.focus == number, theme)


def paint_axis_name(painter: QPainter, box: QRectF, name: str, focused: bool, theme: Theme) -> None:
    """The name of an axis as something that can be taken hold of."""
    painter.setFont(code_face(12))
    wide = box.united(QRectF(box.topLeft(), box.size()))
    wide.setWidth(max(box.width(), painter.fontMetrics().horizontalAdvance(name) + 10.0))
    painter.setPen(QPen(theme.colour("accent" if focused else "line"), 1.6 if focused else 1))
    painter.setBrush(theme.colour("raised"))
    painter.drawRoundedRect(wide.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
    painter.setPen(theme.colour("text"))
    painter.drawText(wide, Qt.AlignmentFlag.AlignCenter, name)


def _paint_handle(painter: QPainter, box: QRectF, focused: bool, theme: Theme) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.colour("accent" if focused else "edge"))
    thin = box.adjusted(1.5, 2, -1.5, -2) if box.height() > box.width() else box.adjusted(2, 1.5, -2, -1.5)
    painter.drawRoundedRect(thin, 1.5, 1.5)


def _paint_caption(painter: QPainter, plan: SpaceGeometry, look: SpaceState, theme: Theme) -> None:
    """How time runs at the left, the statements' marks at the right."""
    spare = plan.area.left() - LEFT
    left, right = LEFT, plan.area.right() + spare
    painter.setFont(face(10.5))
    for number in range(len(plan.doc.statements) - 1, -1, -1):
        name = plan.doc.statements[number]
        width = painter.fontMetrics().horizontalAdvance(name)
        painter.setPen(theme.colour("text-2"))
        draw_text(painter, QRectF(right - width, 8, width + 2, 18), name)
        paint_statement(painter, QPointF(right - width - 9, 17), number, theme.colour("text-2"), theme, 3.8)
        right -= width + (30 if len(plan.doc.statements) < 5 else 23)
    painter.setFont(face(10.5))
    painter.setPen(theme.colour("text-3"))
    draw_text(painter, QRectF(left, 8, max(right - left, 0.0), 18), look.caption)
