"""Paints an iteration space: tiles, dependences, points, what is violated, axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPen, QPolygonF

from engine.exploration import ArrowDoc, SpaceDoc
from views.rows import draw_text
from views.shapes import paint_statement
from views.space.geometry import ACROSS, DOWN, INTO, LEFT, Plan, parallel_axes
from views.theme import Theme, code_face, face

DIRECTIONS = ("left to right", "down", "into the page")
DEEDS = {
    "flow": ("writes", "reads", "first"),
    "anti": ("reads", "writes", "first"),
    "output": ("writes", "writes", "first"),
    "reduction": ("adds to", "adds to", "first"),
}
"""Kind of dependence -> what its source does, what its sink does too early, and how early."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is selected and pointed at."""

    selected: frozenset[str] = frozenset()
    """Statements."""
    point: int | None = None
    """Under the pointer or the keyboard."""
    arrow: int | None = None
    """The violated dependence that is named."""
    focus: int | None = None
    """The axis that has the keyboard."""


def paint_space(painter: QPainter, plan: Plan, look: Look, theme: Theme) -> None:
    """The whole picture."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _paint_tiles(painter, plan, theme)
    named = plan.doc.arrows[look.arrow] if look.arrow is not None else None
    if named is not None:
        _paint_hatch(painter, plan, named, theme)
    _paint_arrows(painter, plan, theme)
    _paint_points(painter, plan, look, theme)
    if named is not None:
        _paint_violated(painter, plan, named, theme)
    _paint_axes(painter, plan, look, theme)
    _paint_caption(painter, plan, theme)


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


def ends(doc: SpaceDoc, arrow: ArrowDoc) -> tuple[str, str]:
    """Names of both ends of a violated dependence: "S2(i=2, j=9) writes m", "S3(i=2, j=3) reads m first"."""
    first, second, when = DEEDS.get(arrow.kind, ("comes before", "comes after", "first"))
    source, sink = doc.points[arrow.source].text, doc.points[arrow.sink].text
    return f"{source} {first} {arrow.array}", f"{sink} {second} {arrow.array} {when}"


def _paint_tiles(painter: QPainter, plan: Plan, theme: Theme) -> None:
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


def _paint_hatch(painter: QPainter, plan: Plan, arrow: ArrowDoc, theme: Theme) -> None:
    """The cells between both ends of a violated dependence."""
    boxes = [plan.cells(*(*plan.doc.points[k].position, 0)[:2]) for k in (arrow.source, arrow.sink)]
    colour = theme.colour("wrong")
    colour.setAlpha(90)
    painter.fillRect(boxes[0].united(boxes[1]).adjusted(2, 2, -2, -2), QBrush(colour, Qt.BrushStyle.BDiagPattern))


def _paint_arrows(painter: QPainter, plan: Plan, theme: Theme) -> None:
    """Dependences that hold; violated ones that are not the named one are drawn in red here, too."""
    for arrow in plan.doc.arrows:
        if not {arrow.source, arrow.sink} <= plan.drawn:
            continue
        colour = theme.colour("wrong" if arrow.violated else "edge")
        colour.setAlpha(90 if arrow.violated else 255)
        start, end = plan.centres[arrow.source], plan.centres[arrow.sink]
        _paint_arrow(painter, start, end, plan.radius + 1.5, colour, 1.0, plan.cell.width())


def _paint_arrow(
    painter: QPainter, start: QPointF, end: QPointF, gap: float, colour: QColor, width: float, cell: float
) -> None:
    """An arrow between two marks that leaves `gap` at both; longer than two cells it bends out of the points' way."""
    length = math.dist(start.toTuple(), end.toTuple())
    if length < 2 * gap + 2:
        return
    along = (end - start) / length
    across = QPointF(-along.y(), along.x())
    bend = min(length * 0.16, 34.0) if length > 2 * cell else 0.0
    middle = (start + end) / 2 + across * (bend if along.x() >= 0 else -bend)
    into, out = _unit(end - middle), _unit(middle - start)
    head = min(3.6 + 2.4 * width, max((length - 2 * gap) * 0.45, 3.0)) if width < 2 else 3.6 + 2.4 * width
    tip = end - into * gap
    path = QPainterPath(start + out * gap)
    path.quadTo(middle, tip - into * head * 0.8)
    painter.setPen(QPen(colour, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPath(path)
    side = QPointF(-into.y(), into.x()) * head * 0.5
    back = tip - into * head
    painter.setPen(QPen(colour, 1.0) if width < 2 else Qt.PenStyle.NoPen)
    if width < 2:
        painter.drawPolyline(QPolygonF([back + side, tip, back - side]))
    else:
        painter.setBrush(colour)
        painter.drawPolygon(QPolygonF([back + side * 1.2, tip, back - side * 1.2]))


def _paint_points(painter: QPainter, plan: Plan, look: Look, theme: Theme) -> None:
    numbers = {name: k for k, name in enumerate(plan.doc.statements)}
    plain, chosen = theme.colour("text-2"), theme.colour("accent")
    for index in sorted(plan.drawn):
        point = plan.doc.points[index]
        colour = chosen if point.statement in look.selected else plain
        paint_statement(painter, plan.centres[index], numbers[point.statement], colour, theme, plan.radius)
    if look.point is not None and look.point < len(plan.centres):
        painter.setPen(QPen(chosen, 1.6))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        reach = plan.radius + 4
        painter.drawEllipse(plan.centres[look.point], reach, reach)


def _paint_violated(painter: QPainter, plan: Plan, arrow: ArrowDoc, theme: Theme) -> None:
    """The named violated dependence: a thick arrow between two enlarged marks, each with its instance."""
    wrong = theme.colour("wrong")
    numbers = {name: k for k, name in enumerate(plan.doc.statements)}
    large = min(max(plan.radius * 1.35, 4.0), 6.5)
    start, end = plan.centres[arrow.source], plan.centres[arrow.sink]
    _paint_arrow(painter, start, end, large + 2, wrong, 3.0, plan.cell.width())
    for index in (arrow.source, arrow.sink):
        number = numbers[plan.doc.points[index].statement]
        paint_statement(painter, plan.centres[index], number, wrong, theme, large)
    upper, lower = (start, end) if start.y() < end.y() else (end, start)
    source, sink = ends(plan.doc, arrow)
    texts = (source, sink) if upper is start else (sink, source)
    away = 1 if upper.x() > lower.x() else -1 if upper.x() < lower.x() else 0
    _paint_name(painter, plan, QPointF(upper.x(), upper.y() - large - 12), away, texts[0], theme)
    _paint_name(painter, plan, QPointF(lower.x(), lower.y() + large + 12), -away, texts[1], theme)


def _paint_name(painter: QPainter, plan: Plan, anchor: QPointF, away: int, text: str, theme: Theme) -> None:
    """A label that stays inside the picture and stands to the side where the arrow is not: 1 right, -1 left."""
    painter.setFont(face(10.5))
    width = painter.fontMetrics().horizontalAdvance(text) + 14.0
    low, high = plan.area.left() - 24, plan.area.right() + 24
    left = min(max(anchor.x() - width / 2 + away * (width / 2 - 14), low), max(high - width, low))
    box = QRectF(left, max(anchor.y() - 9, plan.area.top() - 14), width, 18)
    painter.setPen(QPen(theme.colour("wrong"), 1.2))
    painter.setBrush(theme.colour("panel"))
    painter.drawRoundedRect(box, 3, 3)
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)


def _paint_axes(painter: QPainter, plan: Plan, look: Look, theme: Theme) -> None:
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


def _paint_caption(painter: QPainter, plan: Plan, theme: Theme) -> None:
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
    draw_text(painter, QRectF(left, 8, max(right - left, 0.0), 18), caption(plan.doc))


def _unit(vector: QPointF) -> QPointF:
    length = math.hypot(vector.x(), vector.y())
    return vector / length if length else QPointF(1, 0)
