"""Marks painted by hand: author glyphs, verdict glyphs, cost bars, pills.

Shape carries the meaning, colour repeats it.
"""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPainter, QPainterPath, QPen, QPolygonF

from views.theme import Theme, face

POLYGONS = {
    "vectorize": ((0.0, -1.0), (0.95, 0.8), (-0.95, 0.8)),
    "map": ((0.0, -1.1), (1.1, 0.0), (0.0, 1.1), (-1.1, 0.0)),
    "tensorize": (
        (-0.33, -1.0), (0.33, -1.0), (0.33, -0.33), (1.0, -0.33), (1.0, 0.33), (0.33, 0.33),
        (0.33, 1.0), (-0.33, 1.0), (-0.33, 0.33), (-1.0, 0.33), (-1.0, -0.33), (-0.33, -0.33),
    ),
    "pipeline": ((-1.0, -0.75), (0.25, -0.75), (1.1, 0.0), (0.25, 0.75), (-1.0, 0.75)),
    "tune": ((0.0, -1.05), (1.0, -0.32), (0.62, 0.85), (-0.62, 0.85), (-1.0, -0.32)),
    "stitch": ((-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)),
}  # fmt: skip
"""Author -> corners in a box from -1 to 1; an author without an entry is a disc."""

STATEMENTS = (
    ((), True),
    (POLYGONS["stitch"], False),
    (POLYGONS["vectorize"], True),
    (POLYGONS["map"], False),
    (POLYGONS["tensorize"], True),
    ((), False),
    (POLYGONS["map"], True),
    (POLYGONS["vectorize"], False),
    (POLYGONS["stitch"], True),
    (POLYGONS["tune"], False),
)
"""Corners and whether filled, by the number of a statement in its picture; no corners are a disc."""


def paint_statement(
    painter: QPainter, centre: QPointF, number: int, colour: QColor, theme: Theme, radius: float
) -> None:
    """The mark of a statement's instances: its shape tells which statement it is."""
    paint_instances(painter, [centre], number, colour, theme, radius)


def paint_instances(
    painter: QPainter, centres: Iterable[QPointF], number: int, colour: QColor, theme: Theme, radius: float
) -> None:
    """The marks of many instances of one statement, painted as one path."""
    corners, filled = STATEMENTS[number % len(STATEMENTS)]
    pen = QPen(colour, max(1.0, radius * 0.3))
    pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
    painter.setPen(pen)
    painter.setBrush(colour if filled else theme.colour("panel"))
    path = QPainterPath()
    path.setFillRule(Qt.FillRule.WindingFill)
    mark = QPolygonF([QPointF(x * radius, y * radius) for x, y in (*corners, *corners[:1])])
    for centre in centres:
        if corners:
            path.addPolygon(mark.translated(centre))
        else:
            path.addEllipse(centre, radius, radius)
    painter.drawPath(path)


def paint_author(painter: QPainter, centre: QPointF, author: str, theme: Theme, radius: float = 4.5) -> None:
    """The author's filled glyph."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.author(author))
    corners = POLYGONS.get(author)
    if corners is None:
        painter.drawEllipse(centre, radius, radius)
    else:
        painter.drawPolygon(QPolygonF([centre + QPointF(x * radius, y * radius) for x, y in corners]))


def paint_verdict(painter: QPainter, centre: QPointF, outcome: str, theme: Theme, radius: float = 5.0) -> None:
    """The verdict's glyph; only `infeasible` is coloured."""
    colour = theme.colour("wrong" if outcome == "infeasible" else "text-2")
    pen = QPen(colour, 1.4, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    x, y, r = centre.x(), centre.y(), radius
    if outcome == "honoured":
        painter.drawPolyline([QPointF(x - r, y), QPointF(x - r * 0.3, y + r * 0.7), QPointF(x + r, y - r * 0.7)])
    elif outcome == "infeasible":
        painter.drawLine(QPointF(x - r * 0.8, y - r * 0.8), QPointF(x + r * 0.8, y + r * 0.8))
        painter.drawLine(QPointF(x + r * 0.8, y - r * 0.8), QPointF(x - r * 0.8, y + r * 0.8))
    elif outcome == "relaxed":
        painter.drawEllipse(centre, r, r)
        painter.setBrush(colour)
        painter.drawPie(QRectF(x - r, y - r, 2 * r, 2 * r), 90 * 16, 180 * 16)
    elif outcome == "not reached":
        pen.setDashPattern([1.2, 1.8])
        painter.setPen(pen)
        painter.drawEllipse(centre, r, r)
    elif outcome == "disabled":
        painter.drawLine(QPointF(x - r, y), QPointF(x + r, y))
    else:
        painter.setFont(face(11))
        painter.drawText(QRectF(x - 8, y - 8, 16, 16), Qt.AlignmentFlag.AlignCenter, "?")


def paint_track(painter: QPainter, track: QRectF, theme: Theme) -> None:
    """The full length that a cost bar is compared with."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.colour("raised"))
    painter.drawRoundedRect(track, 1, 1)


def paint_bar(
    painter: QPainter, track: QRectF, part: float, colour: QColor, theme: Theme, origin: str = "predicted"
) -> None:
    """A bar over `part` of `track`: hollow when predicted, filled when measured, dashed when synthetic."""
    if part <= 0:
        return
    pen = QPen(colour, 1.2)
    if origin == "synthetic":
        pen.setDashPattern([2, 2])
    painter.setPen(pen)
    painter.setBrush(QBrush(colour) if origin == "measured" else QBrush(theme.colour("panel")))
    width = max(track.width() * min(part, 1.0), 3.0)
    painter.drawRoundedRect(QRectF(track.x() + 0.6, track.y() + 0.6, width - 1.2, track.height() - 1.2), 1, 1)


def paint_pill(painter: QPainter, right: float, middle: float, text: str, theme: Theme) -> float:
    """A chip whose right edge is at `right`; returns its left edge."""
    width = QFontMetricsF(face(10.5)).horizontalAdvance(text) + 12
    box = QRectF(right - width, middle - 9, width, 18)
    paint_pill_in(painter, box, text, theme, outlined=False)
    return box.left()


def paint_pill_in(painter: QPainter, box: QRectF, text: str, theme: Theme, outlined: bool) -> None:
    """A chip of a given size with centred text."""
    painter.setFont(face(10.5))
    painter.setPen(QPen(theme.colour("edge"), 1) if outlined else Qt.PenStyle.NoPen)
    painter.setBrush(Qt.BrushStyle.NoBrush if outlined else theme.colour("raised"))
    painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
    painter.setPen(theme.colour("text-2"))
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)


def paint_selected_row(painter: QPainter, row: QRectF, theme: Theme) -> None:
    """A selected row: tinted, with a bar of two pixels at its left."""
    painter.fillRect(row, theme.colour("accent-bg"))
    painter.fillRect(QRectF(row.x(), row.y(), 2, row.height()), theme.colour("accent"))


def paint_chevron(painter: QPainter, centre: QPointF, opened: bool, colour: QColor) -> None:
    """The mark that opens and closes a row."""
    path = QPainterPath()
    x, y = centre.x(), centre.y()
    corners = [(-3.5, -1.7), (0, 1.8), (3.5, -1.7)] if opened else [(-1.7, -3.5), (1.8, 0), (-1.7, 3.5)]
    path.addPolygon(QPolygonF([QPointF(x + a, y + b) for a, b in corners]))
    painter.setPen(QPen(colour, 1.4, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPath(path)


def paint_time_mark(painter: QPainter, centre: QPointF, origin: str, theme: Theme) -> None:
    """The mark before a time: a ring where predicted, a disc where measured, a dotted ring where synthetic."""
    colour = theme.colour("text-2")
    painter.setPen(QPen(colour, 1.2, Qt.PenStyle.DotLine if origin == "synthetic" else Qt.PenStyle.SolidLine))
    painter.setBrush(colour if origin == "measured" else Qt.BrushStyle.NoBrush)
    painter.drawEllipse(centre, 2.8, 2.8)


def paint_gain(painter: QPainter, box: QRectF, text: str, theme: Theme) -> None:
    """A gain at the right of its box, blue with ▼ where time is saved and amber with ▲ where it is lost."""
    token = {"▼": "better", "▲": "worse"}.get(text[:1], "text-3")
    painter.setPen(theme.colour(token))
    painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)


def paint_decision(painter: QPainter, centre: QPointF, state: str, theme: Theme) -> None:
    """What an iterator could be: two bars parallel, an arrow in order, a cross impossible, a dash used."""
    quiet = state in ("impossible", "used")
    pen = QPen(theme.colour("text-3" if quiet else "text-2"), 1.5)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    x, y = centre.x(), centre.y()
    if state == "parallel":
        strokes = [((x - 2.2, y - 4.5), (x - 2.2, y + 4.5)), ((x + 2.2, y - 4.5), (x + 2.2, y + 4.5))]
    elif state == "legal":
        strokes = [((x - 5, y), (x + 5, y)), ((x + 2, y - 3), (x + 5, y)), ((x + 2, y + 3), (x + 5, y))]
    elif state == "impossible":
        strokes = [((x - 3.6, y - 3.6), (x + 3.6, y + 3.6)), ((x - 3.6, y + 3.6), (x + 3.6, y - 3.6))]
    else:
        strokes = [((x - 4, y), (x + 4, y))]
    for start, end in strokes:
        painter.drawLine(QPointF(*start), QPointF(*end))
