"""Paints the rows of the constraint tree: headings, alternatives, entries, and the box of what cannot hold."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPen

from engine.documents.model import EntryDoc, ScenarioDoc
from views.constraints.rows import LINE, MARGIN, EntryRefusal, Links, Offer, plain_text, reason, wish, witness_lines
from views.rows import RowState, TreeRow, draw_text
from views.shapes import paint_author, paint_verdict
from views.theme import Theme, code_face, face, semibold

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


def paint_constraint(painter: QPainter, row: TreeRow, state: RowState, theme: Theme) -> None:
    """One row of the tree."""
    match row.value:
        case EntryRefusal(entry):
            _paint_witness(painter, entry, state.box, theme)
        case Links():
            _paint_links(painter, row.value, state, theme)
        case Offer():
            _paint_offer(painter, row, state, theme)
        case ScenarioDoc():
            _paint_scenario(painter, row, row.value, state, theme)
        case EntryDoc():
            _paint_entry(painter, row.value, state, theme)
        case _:
            painter.setFont(semibold())
            painter.setPen(theme.colour("text"))
            draw_text(painter, state.box.adjusted(state.left, 0, -12, 0), row.title)


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


def _paint_scenario(painter: QPainter, row: TreeRow, scenario: ScenarioDoc, state: RowState, theme: Theme) -> None:
    box = state.box
    quiet = scenario.outcome == "not reached"
    right = box.right() - 12
    painter.setFont(semibold())
    painter.setPen(theme.colour("text-2" if quiet else "text"))
    draw_text(painter, QRectF(state.left, box.y(), right - VERDICT - state.left - 8, box.height()), row.title)
    outcome = "honoured" if scenario.outcome == "taken" else scenario.outcome
    _paint_outcome(painter, QRectF(right - VERDICT, box.y(), VERDICT, box.height()), outcome, scenario.outcome, theme)


def _paint_entry(painter: QPainter, entry: EntryDoc, state: RowState, theme: Theme) -> None:
    line = QRectF(state.box.x(), state.box.y(), state.box.width(), 24)
    middle, right = line.center().y(), line.right() - 12
    box = box_left(state.depth)
    _paint_box(painter, QRectF(box + 3, middle - 6, 12, 12), entry.enabled, theme)
    quiet = not entry.enabled or entry.outcome in ("not reached", "matches nothing")
    painter.setFont(code_face())
    painter.setPen(theme.colour("text-3" if quiet else "text"))
    left = float(box + BOX_ROOM + 2)
    folded = line.width() < NARROW
    edge = right - VERDICT - (FOLDED_AUTHOR if folded else AUTHOR)
    text = wish(entry) if len(entry.path) <= 2 else plain_text(entry)
    draw_text(painter, QRectF(left, line.y(), edge - left - 8, line.height()), ("! " if entry.required else "") + text)
    paint_author(painter, QPointF(edge + 6, middle), entry.author, theme, 4.2)
    painter.setFont(face(11))
    painter.setPen(theme.colour("text-2"))
    if not folded:
        draw_text(painter, QRectF(edge + 17, line.y(), AUTHOR - 20, line.height()), entry.author)
    _paint_outcome(
        painter, QRectF(right - VERDICT, line.y(), VERDICT, line.height()), entry.outcome, entry.outcome, theme
    )
    if state.box.height() > 30:
        painter.setFont(face(11))
        painter.setPen(theme.colour("text-3"))
        draw_text(painter, QRectF(left + 8, line.bottom() - 2, right - left - 8, 16), entry.verdict)


def _paint_outcome(painter: QPainter, box: QRectF, outcome: str, word: str, theme: Theme) -> None:
    paint_verdict(painter, QPointF(box.left() + 8, box.center().y()), outcome, theme, 4.5)
    wrong = outcome == "infeasible"
    painter.setFont(semibold(11) if wrong else face(11))
    painter.setPen(theme.colour("wrong" if wrong else "text-2"))
    draw_text(painter, QRectF(box.left() + 20, box.y(), box.width() - 18, box.height()), word)


def _paint_witness(painter: QPainter, entry: EntryDoc, row: QRectF, theme: Theme) -> None:
    line = _paint_refusal(painter, row, True, False, theme)
    painter.setFont(semibold(11))
    painter.setPen(theme.colour("wrong"))
    draw_text(painter, line, reason(entry))
    painter.setFont(code_face())
    painter.setPen(theme.colour("text"))
    for number, text in enumerate(witness_lines(entry), 1):
        draw_text(painter, line.translated(0, number * LINE - 2), text)


def _paint_links(painter: QPainter, links: Links, state: RowState, theme: Theme) -> None:
    """Side by side; the one that the keyboard is at is underlined."""
    line = _paint_refusal(painter, state.box, False, links.last, theme)
    painter.setPen(theme.colour("accent"))
    for number, ((name, _), (left, right)) in enumerate(zip(links.repairs, link_boxes(links), strict=True)):
        font = face(11)
        font.setUnderline(state.current and number == state.part)
        painter.setFont(font)
        draw_text(painter, QRectF(left, line.y(), right - left + 2, line.height()), name)


def _paint_offer(painter: QPainter, row: TreeRow, state: RowState, theme: Theme) -> None:
    """A repair as a link, underlined where the keyboard is."""
    assert isinstance(row.value, Offer)
    line = _paint_refusal(painter, state.box, False, row.value.last, theme)
    font = face(11)
    font.setUnderline(state.current)
    painter.setFont(font)
    painter.setPen(theme.colour("accent"))
    draw_text(painter, line, row.title)


def _paint_refusal(painter: QPainter, row: QRectF, first: bool, last: bool, theme: Theme) -> QRectF:
    """One row's part of the box around a witness and its repairs; where the row's first line of text is."""
    painter.setClipRect(row)
    beyond = 8.0  # the rounded ends of a part that goes on lie outside its row
    box = row.adjusted(REFUSAL_LEFT, 2 if first else -beyond, -8, -4 if last else beyond)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.colour("wrong-bg"))
    painter.drawRoundedRect(box, 4, 4)
    top = row.y() + (MARGIN - 1 if first else 0)
    return QRectF(box.x() + PADDING, top, box.width() - 2 * PADDING, LINE)


def _paint_box(painter: QPainter, box: QRectF, checked: bool, theme: Theme) -> None:
    painter.setPen(QPen(theme.colour("edge"), 1.2))
    painter.setBrush(theme.colour("panel"))
    painter.drawRoundedRect(box, 2.5, 2.5)
    if checked:
        painter.setPen(
            QPen(theme.colour("text-2"), 1.5, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin)
        )
        x, y = box.center().x(), box.center().y()
        painter.drawPolyline([QPointF(x - 3.2, y + 0.2), QPointF(x - 0.9, y + 2.6), QPointF(x + 3.2, y - 2.4)])
