"""Paints the rows of the constraint tree: headings, alternatives, entries, and the box of what cannot hold."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QFont, QFontMetricsF

from engine.documents.model import EntryDoc, ScenarioDoc
from views.constraints.rows import LINE, MARGIN, EntryRefusal, Links, Offer, plain_text, reason, wish, witness_lines
from views.rows import RowState, TreeRow
from views.shapes import paint_author, paint_strokes, paint_verdict
from views.theme import code_face, face, semibold
from views.themed_painter import ThemedPainter

VERDICT, AUTHOR, FOLDED_AUTHOR = 104, 84, 24
NARROW = 400
"""Pixels of a panel below which authors are told by their marks alone; the tool tip names them."""
BOX_LEFT, BOX_ROOM = 31, 20
"""Where the box that switches an entry stands, right of the chevron, and the room that it takes."""
DEEPER = 10
"""How far in the entries of a nested alternative stand."""
REFUSAL_LEFT, PADDING = 46, 10
"""Where the box around a witness and its repairs begins, and how far in their text stands."""
LINK_GAP = 16


def paint_constraint(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    """One row of the tree."""
    match row.value:
        case EntryRefusal(entry):
            _paint_witness(painter, entry, state.box)
        case Links():
            _paint_links(painter, row.value, state)
        case Offer():
            line = _refusal_line(painter, state.box, False, row.value.last)
            painter.text(line, row.title, "accent", _link_face(state.current))
        case ScenarioDoc():
            _paint_scenario(painter, row, row.value, state)
        case EntryDoc():
            _paint_entry(painter, row.value, state)
        case _:
            painter.text(state.box.adjusted(state.left, 0, -12, 0), row.title, font=semibold())


def link_boxes(links: Links) -> list[tuple[float, float]]:
    """Left and right edge of every link, in pixels of the row."""
    metrics = QFontMetricsF(face(11))
    left, boxes = float(REFUSAL_LEFT + PADDING), []
    for name, _ in links.repairs:
        width = metrics.horizontalAdvance(name)
        boxes.append((left, left + width))
        left += width + LINK_GAP
    return boxes


def box_left(state_depth: int) -> int:
    """Where the box that switches an entry stands, by the depth of its row."""
    return BOX_LEFT + max(state_depth - 1, 0) * DEEPER


def _paint_scenario(painter: ThemedPainter, row: TreeRow, scenario: ScenarioDoc, state: RowState) -> None:
    box = state.box.adjusted(state.left - state.box.x(), 0, -12, 0)
    tint = "text-2" if scenario.outcome == "not reached" else "text"
    painter.text(box.adjusted(0, 0, -VERDICT - 8, 0), row.title, tint, semibold())
    outcome = "honoured" if scenario.outcome == "taken" else scenario.outcome
    _paint_outcome(painter, box, outcome, scenario.outcome)


def _paint_entry(painter: ThemedPainter, entry: EntryDoc, state: RowState) -> None:
    left, is_folded = box_left(state.depth), state.box.width() < NARROW
    line = QRectF(state.box.x(), state.box.y(), state.box.width() - 12, 24)
    middle, edge = line.center().y(), line.right() - VERDICT - (FOLDED_AUTHOR if is_folded else AUTHOR)
    painter.ink("edge", "panel", 1.2).drawRoundedRect(QRectF(left + 3, middle - 6, 12, 12), 2.5, 2.5)
    if entry.enabled:
        paint_strokes(painter, QPointF(left + 9, middle), "checked", "text-2", 1.5)
    quiet = not entry.enabled or entry.outcome in ("not reached", "matches nothing")
    text = ("! " if entry.required else "") + (wish(entry) if len(entry.path) <= 2 else plain_text(entry))
    left += BOX_ROOM + 2
    room = QRectF(left, line.y(), edge - left - 8, 24)
    painter.text(room, text, "text-3" if quiet else "text", code_face())
    paint_author(painter, QPointF(edge + 6, middle), entry.author, 4.2)
    if not is_folded:
        painter.text(QRectF(edge + 17, line.y(), AUTHOR - 20, 24), entry.author, "text-2", face(11))
    _paint_outcome(painter, line, entry.outcome, entry.outcome)
    if state.box.height() > 30:
        below = QRectF(left + 8, line.bottom() - 2, line.right() - left - 8, 16)
        painter.text(below, entry.verdict, "text-3", face(11))


def _paint_outcome(painter: ThemedPainter, line: QRectF, outcome: str, word: str) -> None:
    """The verdict at the right end of a line."""
    box = line.adjusted(line.width() - VERDICT, 0, 0, 0)
    paint_verdict(painter, QPointF(box.left() + 8, box.center().y()), outcome, 4.5)
    wrong = outcome == "infeasible"
    font = semibold(11) if wrong else face(11)
    painter.text(box.adjusted(20, 0, 2, 0), word, "wrong" if wrong else "text-2", font)


def _paint_witness(painter: ThemedPainter, entry: EntryDoc, row: QRectF) -> None:
    line = _refusal_line(painter, row, True, False)
    painter.text(line, reason(entry), "wrong", semibold(11))
    for number, text in enumerate(witness_lines(entry), 1):
        painter.text(line.translated(0, number * LINE - 2), text, font=code_face())


def _paint_links(painter: ThemedPainter, links: Links, state: RowState) -> None:
    """Side by side; the one that the keyboard is at is underlined."""
    line = _refusal_line(painter, state.box, False, links.last)
    for number, ((name, _), (left, right)) in enumerate(zip(links.repairs, link_boxes(links), strict=True)):
        font = _link_face(state.current and number == state.part)
        painter.text(QRectF(left, line.y(), right - left + 2, line.height()), name, "accent", font)


def _link_face(is_current: bool) -> QFont:
    """Of a link, underlined where the keyboard is."""
    font = face(11)
    font.setUnderline(is_current)
    return font


def _refusal_line(painter: ThemedPainter, row: QRectF, first: bool, last: bool) -> QRectF:
    """Paints a row's part of the box around a witness and its repairs; where the row's first line of text is."""
    painter.qt.setClipRect(row)
    beyond = 8.0  # the rounded ends of a part that goes on lie outside its row
    box = row.adjusted(REFUSAL_LEFT, 2 if first else -beyond, -8, -4 if last else beyond)
    painter.box(box, fill="wrong-bg", radius=4)
    top = row.y() + (MARGIN - 1 if first else 0)
    return QRectF(box.x() + PADDING, top, box.width() - 2 * PADDING, LINE)
