"""The violated dependence that is named in an iteration space: hatched cells, a thick arrow, a label at either end."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QBrush, QFontMetricsF

from engine.documents.exploration import ArrowDoc, SpaceDoc
from views.shapes import paint_statement
from views.space.arrows import arrow_pen, control, paint_thick_arrow
from views.space.geometry import LEFT, RIGHT, SpaceGeometry
from views.theme import face
from views.themed_painter import ThemedPainter

DEEDS = {
    "flow": ("writes", "reads", "first"),
    "anti": ("reads", "writes", "first"),
    "output": ("writes", "writes", "first"),
    "reduction": ("adds to", "adds to", "first"),
}
"""Kind of dependence -> what its source does, what its sink does too early, and how early."""
LABEL = 18.0
"""Height of a label."""
ARROW = 3.0
"""Width of the arrow."""
MARGIN = 5.0
"""Between a label and the mark that it names."""


def ends(doc: SpaceDoc, arrow: ArrowDoc) -> tuple[str, str]:
    """Names of both ends of a violated dependence: "S2(i=2, j=9) writes m", "S3(i=2, j=3) reads m first"."""
    first, second, when = DEEDS.get(arrow.kind, ("comes before", "comes after", "first"))
    source, sink = doc.points[arrow.source].text, doc.points[arrow.sink].text
    return f"{source} {first} {arrow.array}", f"{sink} {second} {arrow.array} {when}"


def paint_violated_cells(painter: ThemedPainter, plan: SpaceGeometry, named: ArrowDoc) -> None:
    """Hatches the cells between both ends, and those of its row in which the same dependence is violated."""
    boxes = [_cell(plan, end) for end in (named.source, named.sink)]
    hatched = boxes[0].united(boxes[1])
    for arrow in plan.doc.arrows:
        if arrow.violated and {arrow.source, arrow.sink} <= plan.drawn and _same(plan.doc, arrow, named):
            own = _cell(plan, arrow.source).united(_cell(plan, arrow.sink))
            if own.top() >= hatched.top() and own.bottom() <= hatched.bottom():
                hatched = hatched.united(own)
    colour = painter.colour("wrong")
    colour.setAlpha(90)
    painter.qt.fillRect(hatched.adjusted(2, 2, -2, -2), QBrush(colour, Qt.BrushStyle.BDiagPattern))


def paint_violated(painter: ThemedPainter, plan: SpaceGeometry, arrow: ArrowDoc) -> None:
    """A thick arrow between two enlarged marks, each with its instance."""
    large = _large(plan)
    numbers = {name: k for k, name in enumerate(plan.doc.statements)}
    start, end = plan.centres[arrow.source], plan.centres[arrow.sink]
    pen = arrow_pen(painter.colour("wrong"), ARROW)
    paint_thick_arrow(painter, start, end, large + 2, pen, plan.cell.width())
    for index in (arrow.source, arrow.sink):
        number = numbers[plan.doc.points[index].statement]
        paint_statement(painter, plan.centres[index], number, "wrong", large)
    for box, text in zip(label_boxes(plan, arrow), ends(plan.doc, arrow), strict=True):
        painter.ink("wrong", "panel", 1.2).drawRoundedRect(box, 3, 3)
        painter.word(box, text, "wrong", face(10.5))


def label_boxes(plan: SpaceGeometry, arrow: ArrowDoc) -> tuple[QRectF, QRectF]:
    """Where both ends are named: beside their marks, not on these, each other, the arrow, the axes or the legend."""
    metrics = QFontMetricsF(face(10.5))
    centres = start, end = plan.centres[arrow.source], plan.centres[arrow.sink]
    reach = _large(plan) + MARGIN
    marks = [QRectF(centre.x() - reach, centre.y() - reach, 2 * reach, 2 * reach) for centre in centres]
    within = QRectF(
        plan.area.left(), plan.area.top() - 10, plan.area.width() + RIGHT - 4 + _spare(plan), plan.area.height() + 14
    )
    outermost = (control(start, end, _large(plan) + 2, ARROW, plan.cell.width()) * 2 + start + end) / 4
    bow = QRectF(outermost.x() - MARGIN, outermost.y() - MARGIN, 2 * MARGIN, 2 * MARGIN)
    placed: list[QRectF] = []
    for number, text in enumerate(ends(plan.doc, arrow)):
        size = QSizeF(metrics.horizontalAdvance(text) + 14.0, LABEL)
        mark, other = marks[number], marks[1 - number]
        places = list(_places(mark, other, size, number == 0))
        places += [_into(within, box) for box in places]
        taken = [*(each.adjusted(1, 1, -1, -1) for each in marks), *placed]
        inside = [box for box in places if within.contains(box)]
        free = [box for box in inside if not any(box.intersects(each) for each in taken)]
        clear = (box for box in free if not box.intersects(bow))
        placed.append((*clear, *free, places[len(places) // 2])[0])
    return placed[0], placed[1]


def _places(mark: QRectF, other: QRectF, size: QSizeF, first: bool) -> Iterable[QRectF]:
    """Boxes around a mark, away from the other end before towards it; ends at one height take different sides."""
    rightward = mark.center().x() > other.center().x() or (mark.center().x() == other.center().x() and not first)
    upward = mark.center().y() < other.center().y() or (mark.center().y() == other.center().y() and first)
    lefts = [mark.left() + 4, mark.right() - 4 - size.width(), mark.center().x() - size.width() / 2]
    columns = lefts if rightward else [lefts[1], lefts[0], lefts[2]]
    above, below, further = mark.top() - size.height(), mark.bottom(), size.height() + 2
    rows = [above, below, above - further, below + further]
    for top in rows if upward else (below, above, below + further, above - further):
        for left in columns:
            yield QRectF(QPointF(left, top), size)
    middle = mark.center().y() - size.height() / 2
    sides = [mark.right(), mark.left() - size.width()]
    for left in sides if rightward else reversed(sides):
        yield QRectF(QPointF(left, middle), size)


def _into(within: QRectF, box: QRectF) -> QRectF:
    """The box, moved as little as keeps it inside."""
    left = max(min(box.left(), within.right() - box.width()), within.left())
    top = max(min(box.top(), within.bottom() - box.height()), within.top())
    return QRectF(QPointF(left, top), box.size())


def _same(doc: SpaceDoc, a: ArrowDoc, b: ArrowDoc) -> bool:
    """Whether two arrows are of one dependence."""
    (source, sink), (other_source, other_sink) = (
        (doc.points[each.source].statement, doc.points[each.sink].statement) for each in (a, b)
    )
    return (source, sink, a.array, a.kind) == (other_source, other_sink, b.array, b.kind)


def _cell(plan: SpaceGeometry, point: int) -> QRectF:
    return plan.cells(*(*plan.doc.points[point].position, 0)[:2])


def _large(plan: SpaceGeometry) -> float:
    """Radius of the marks at both ends."""
    return min(max(plan.radius * 1.35, 4.0), 6.5)


def _spare(plan: SpaceGeometry) -> float:
    """Room beside the cells, the same at both sides."""
    return plan.area.left() - LEFT
