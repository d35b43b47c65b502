"""Marks painted by hand: author glyphs, verdict glyphs, cost bars, pills.

Shape carries the meaning, colour repeats it.
"""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainterPath, QPen, QPolygonF

from views.theme import face, semibold
from views.themed_painter import RIGHT, ThemedPainter, Tint

Corners = tuple[tuple[float, float], ...]

POLYGONS: dict[str, Corners] = {
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

STATEMENTS: tuple[tuple[Corners, bool], ...] = (
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

STROKES: dict[str, tuple[Corners, ...]] = {
    "honoured": (((-5, 0), (-1.5, 3.5), (5, -3.5)),),
    "infeasible": (((-4, -4), (4, 4)), ((4, -4), (-4, 4))),
    "disabled": (((-5, 0), (5, 0)),),
    "open": (((-3.5, -1.7), (0, 1.8), (3.5, -1.7)),),
    "closed": (((-1.7, -3.5), (1.8, 0), (-1.7, 3.5)),),
    "checked": (((-3.2, 0.2), (-0.9, 2.6), (3.2, -2.4)),),
    "parallel": (((-2.2, -4.5), (-2.2, 4.5)), ((2.2, -4.5), (2.2, 4.5))),
    "legal": (((-5, 0), (5, 0)), ((2, -3), (5, 0), (2, 3))),
    "impossible": (((-3.6, -3.6), (3.6, 3.6)), ((-3.6, 3.6), (3.6, -3.6))),
    "used": (((-4, 0), (4, 0)),),
    "pin": (((-3, -5), (3, -5)), ((-2, -5), (-2, -0.5)), ((2, -5), (2, -0.5)), ((-4, 0), (4, 0)), ((0, 0), (0, 5))),
}
"""Mark -> its lines, in pixels around its centre: verdicts, chevrons, ticks, and what an iterator could be."""


def paint_strokes(
    painter: ThemedPainter, centre: QPointF, mark: str, tint: Tint, width: float = 1.4, size: float = 1.0
) -> None:
    """A mark of lines.  size: 1 for that of `STROKES`."""
    x, y = centre.x(), centre.y()
    lines = [[(x + across * size, y + down * size) for across, down in corners] for corners in STROKES[mark]]
    painter.strokes(*lines, tint=tint, width=width)


def paint_statement(painter: ThemedPainter, centre: QPointF, number: int, tint: Tint, radius: float) -> None:
    """The mark of a statement's instances: its shape tells which statement it is."""
    paint_instances(painter, [centre], number, tint, radius)


def paint_instances(
    painter: ThemedPainter, centres: Iterable[QPointF], number: int, tint: Tint, radius: float
) -> None:
    """The marks of many instances of one statement, painted as one path."""
    corners, filled = STATEMENTS[number % len(STATEMENTS)]
    pen = QPen(painter.colour(tint), max(1.0, radius * 0.3))
    pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
    path = QPainterPath()
    path.setFillRule(Qt.FillRule.WindingFill)
    mark = QPolygonF([QPointF(x * radius, y * radius) for x, y in (*corners, *corners[:1])])
    for centre in centres:
        if corners:
            path.addPolygon(mark.translated(centre))
        else:
            path.addEllipse(centre, radius, radius)
    painter.ink(pen, tint if filled else "panel").drawPath(path)


def paint_author(painter: ThemedPainter, centre: QPointF, author: str, radius: float = 4.5) -> None:
    """The author's filled glyph."""
    colour, corners = painter.theme.author(author), POLYGONS.get(author)
    if corners is None:
        painter.disc(centre, radius, colour)
    else:
        painter.shape([centre + QPointF(x * radius, y * radius) for x, y in corners], colour)


def paint_verdict(painter: ThemedPainter, centre: QPointF, outcome: str, radius: float = 5.0) -> None:
    """The verdict's glyph; only `infeasible` is coloured."""
    if outcome in STROKES:
        paint_strokes(painter, centre, outcome, "wrong" if outcome == "infeasible" else "text-2", size=radius / 5)
    elif outcome == "relaxed":
        painter.disc(centre, radius, outline="text-2", width=1.4)
        around = QRectF(centre.x() - radius, centre.y() - radius, 2 * radius, 2 * radius)
        painter.ink("text-2", "text-2", 1.4).drawPie(around, 90 * 16, 180 * 16)
    elif outcome == "not reached":
        pen = painter.pen("text-2", 1.4)
        pen.setDashPattern([1.2, 1.8])
        painter.disc(centre, radius, outline=pen)
    else:
        painter.word(QRectF(centre.x() - 8, centre.y() - 8, 16, 16), "?", "text-2", face(11))


def paint_track(painter: ThemedPainter, track: QRectF) -> None:
    """The full length that a cost bar is compared with."""
    painter.box(track, fill="raised", radius=1)


def paint_bar(painter: ThemedPainter, track: QRectF, part: float, tint: Tint, origin: str = "predicted") -> None:
    """A bar over `part` of `track`: hollow when predicted, filled when measured, dashed when synthetic."""
    if part <= 0:
        return
    pen = QPen(painter.colour(tint), 1.2)
    if origin == "synthetic":
        pen.setDashPattern([2, 2])
    width = max(track.width() * min(part, 1.0), 3.0)
    inside = QRectF(track.x() + 0.6, track.y() + 0.6, width - 1.2, track.height() - 1.2)
    painter.ink(pen, tint if origin == "measured" else "panel").drawRoundedRect(inside, 1, 1)


def paint_pill(painter: ThemedPainter, right: float, middle: float, text: str) -> float:
    """A chip whose right edge is at `right`; returns its left edge."""
    width = pill_width(painter, text)
    paint_pill_in(painter, QRectF(right - width, middle - 9, width, 18), text, outlined=False)
    return right - width


def pill_width(painter: ThemedPainter, text: str) -> float:
    """Pixels that a chip takes."""
    return painter.width(text, face(10.5)) + 12


def paint_pill_in(painter: ThemedPainter, box: QRectF, text: str, outlined: bool, tint: Tint = "text-2") -> None:
    """A chip of a given size with centred text."""
    inside = box.adjusted(0.5, 0.5, -0.5, -0.5)
    outline = (tint if tint != "text-2" else "edge") if outlined else ""
    painter.ink(outline, "" if outlined else "raised").drawRoundedRect(inside, 3, 3)
    painter.word(box, text, tint, face(10.5))


def paint_selected_row(painter: ThemedPainter, row: QRectF) -> None:
    """A selected row: tinted, with a bar of two pixels at its left."""
    painter.area(row, "accent-bg")
    painter.area(QRectF(row.x(), row.y(), 2, row.height()), "accent")


def paint_focus(painter: ThemedPainter, cell: QRectF) -> None:
    """Where the keyboard is among rows or cells that look alike."""
    dotted = QPen(painter.colour("text-2"), 1, Qt.PenStyle.DotLine)
    painter.ink(dotted).drawRoundedRect(cell.adjusted(2, 1.5, -2, -1.5), 4, 4)


def paint_time_mark(painter: ThemedPainter, centre: QPointF, origin: str) -> None:
    """The mark before a time: a ring where predicted, a disc where measured, a dotted ring where synthetic, a cross
    where others published it."""
    if origin == "published":
        x, y, far = centre.x(), centre.y(), 2.4
        ends = ((x - far, y - far), (x + far, y + far)), ((x - far, y + far), (x + far, y - far))
        painter.strokes(*ends, tint="text-2", width=1.2)
        return
    line = Qt.PenStyle.DotLine if origin == "synthetic" else Qt.PenStyle.SolidLine
    pen = QPen(painter.colour("text-2"), 1.2, line)
    painter.disc(centre, 2.8, "text-2" if origin == "measured" else "", pen)


def paint_time(painter: ThemedPainter, slot: QRectF, text: str, origin: str, tint: Tint) -> None:
    """A time at the right of its slot, its origin's mark before it."""
    wide = painter.text(slot, text, tint, side=RIGHT)
    paint_time_mark(painter, QPointF(slot.right() - wide - 9, slot.center().y() + 0.5), origin)


def gain_tint(text: str, otherwise: str = "text-3") -> str:
    """The colour of a gain: blue with ▼ where time is saved, amber with ▲ where it is lost."""
    return {"▼": "better", "▲": "worse"}.get(text[:1], otherwise)


def paint_decision(painter: ThemedPainter, centre: QPointF, state: str) -> None:
    """What an iterator could be: two bars parallel, an arrow in order, a cross impossible, a dash used."""
    paint_strokes(painter, centre, state, "text-3" if state in ("impossible", "used") else "text-2", 1.5)


def paint_note(
    painter: ThemedPainter, box: QRectF, words: QRectF, outcome: str, told: tuple[str, str]
) -> None:
    """A verdict on what is in hand.  words: where its sentence stands.  told: its title and the sentence."""
    wrong = outcome == "infeasible"
    painter.box(box, "wrong" if wrong else "edge", "panel", 5)
    paint_verdict(painter, box.topLeft() + QPointF(15, 15), outcome, 4.5)
    painter.text(QRectF(box.x() + 28, box.y() + 5, box.width() - 36, 18), told[0], font=semibold(11))
    painter.words(words, told[1], "wrong" if wrong else "text-2")
