"""The painted constraint tree: a box to switch an entry, its author, its verdict."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import QMenu

from engine.documents import EntryDoc, RepairDoc
from views.constraints.rows import LINE, MARGIN, Offer, Refusal, reason, wish
from views.rows import Row, RowState, RowView, draw_text
from views.shapes import paint_author, paint_verdict
from views.theme import Theme, code_face, face, semibold

VERDICT, AUTHOR = 104, 84
BOX_LEFT, BOX_ROOM = 31, 20
"""Where the box that switches an entry stands, right of the chevron, and the room that it takes."""
REFUSAL_LEFT, PADDING = 46, 10
"""Where the box around a witness and its repairs begins, and how far in their text stands."""
STAGES = (1, 2, 3)


class ConstraintTree(RowView):
    """Entries with their verdicts; a click on the box asks to switch an entry, one on a repair to apply it."""

    enabled_requested = Signal(object, bool)
    stages_requested = Signal(object, int)
    repair_requested = Signal(RepairDoc)

    def __init__(self) -> None:
        super().__init__("Constraint tree", _paint, 6)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Switches an entry at its box, selects it elsewhere."""
        index = self.indexAt(event.position().toPoint())
        row = self.rows.row_at(index) if index.isValid() else None
        if row and _is_entry(row) and BOX_LEFT <= event.position().x() <= BOX_LEFT + BOX_ROOM:
            self._switch(row)
            return
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Applies a repair when the button goes up on its text."""
        super().mouseReleaseEvent(event)
        row = self._link_at(event.position())
        pressed = self.indexAt(event.position().toPoint()) == self.currentIndex()
        if row is not None and pressed and event.button() == Qt.MouseButton.LeftButton:
            self._repair(row)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """A hand over what can be clicked."""
        super().mouseMoveEvent(event)
        over = self._link_at(event.position()) is not None
        self.viewport().setCursor(Qt.CursorShape.PointingHandCursor if over else Qt.CursorShape.ArrowCursor)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Space switches the current entry; Return or Space applies the current repair."""
        index = self.currentIndex()
        row = self.rows.row_at(index) if index.isValid() else None
        if event.key() == Qt.Key.Key_Space and row and _is_entry(row):
            self._switch(row)
        elif event.key() in (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter) and row and _is_link(row):
            self._repair(row)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Offers to switch the entry or to set the stages of its dimension."""
        index = self.indexAt(event.pos())
        row = self.rows.row_at(index) if index.isValid() else None
        if row is None or not _is_entry(row):
            return
        entry = row.value
        assert isinstance(entry, EntryDoc)
        menu = QMenu(self)
        menu.addAction("Disable" if entry.enabled else "Enable").triggered.connect(lambda: self._switch(row))
        stages = menu.addMenu(f"Stages of {entry.dimension or 'its dimension'}")
        for count in STAGES:
            stages.addAction(str(count)).triggered.connect(
                lambda _=False, n=count: self.stages_requested.emit(entry, n)
            )
        menu.popup(event.globalPos())

    def _switch(self, row: Row) -> None:
        entry = row.value
        assert isinstance(entry, EntryDoc)
        self.enabled_requested.emit(entry, not entry.enabled)

    def _repair(self, row: Row) -> None:
        assert isinstance(row.value, Offer)
        self.repair_requested.emit(row.value.repair)

    def _link_at(self, position: QPointF) -> Row | None:
        """The repair whose text is there."""
        index = self.indexAt(position.toPoint())
        row = self.rows.row_at(index) if index.isValid() else None
        if row is None or not _is_link(row):
            return None
        width = QFontMetricsF(face(11)).horizontalAdvance(row.title)
        return row if 0 <= position.x() - REFUSAL_LEFT - PADDING <= width else None


def _is_entry(row: Row) -> bool:
    return isinstance(row.value, EntryDoc)


def _is_link(row: Row) -> bool:
    """Whether a row is a repair that advice can say."""
    return isinstance(row.value, Offer) and bool(row.value.repair.recipe)


def _paint(painter: QPainter, row: Row, state: RowState, theme: Theme) -> None:
    if isinstance(row.value, Refusal):
        _paint_witness(painter, row.value, state.box, theme)
    elif isinstance(row.value, Offer):
        _paint_offer(painter, row, state, theme)
    elif not isinstance(row.value, EntryDoc):
        painter.setFont(semibold())
        painter.setPen(theme.colour("text"))
        draw_text(painter, state.box.adjusted(state.left, 0, -12, 0), row.title)
    else:
        _paint_entry(painter, row.value, state, theme)


def _paint_entry(painter: QPainter, entry: EntryDoc, state: RowState, theme: Theme) -> None:
    line = QRectF(state.box.x(), state.box.y(), state.box.width(), 24)
    middle, right = line.center().y(), line.right() - 12
    _paint_box(painter, QRectF(BOX_LEFT + 3, middle - 6, 12, 12), entry.enabled, theme)
    quiet = not entry.enabled or entry.outcome in ("not reached", "matches nothing")
    painter.setFont(code_face())
    painter.setPen(theme.colour("text-3" if quiet else "text"))
    left = float(BOX_LEFT + BOX_ROOM + 2)
    edge = right - VERDICT - AUTHOR
    required = "! " if entry.required else ""
    draw_text(painter, QRectF(left, line.y(), edge - left - 8, line.height()), required + wish(entry))
    paint_author(painter, QPointF(edge + 6, middle), entry.author, theme, 4.2)
    painter.setFont(face(11))
    painter.setPen(theme.colour("text-2"))
    draw_text(painter, QRectF(edge + 17, line.y(), AUTHOR - 20, line.height()), entry.author)
    paint_verdict(painter, QPointF(right - VERDICT + 8, middle), entry.outcome, theme, 4.5)
    wrong = entry.outcome == "infeasible"
    painter.setFont(semibold(11) if wrong else face(11))
    painter.setPen(theme.colour("wrong" if wrong else "text-2"))
    draw_text(painter, QRectF(right - VERDICT + 20, line.y(), VERDICT - 18, line.height()), entry.outcome)
    if state.box.height() > 30:
        painter.setFont(face(11))
        painter.setPen(theme.colour("text-3"))
        draw_text(painter, QRectF(left + 8, line.bottom() - 2, right - left - 8, 16), entry.verdict)


def _paint_witness(painter: QPainter, refusal: Refusal, row: QRectF, theme: Theme) -> None:
    line = _paint_refusal(painter, row, True, refusal.last, theme)
    painter.setFont(semibold(11))
    painter.setPen(theme.colour("wrong"))
    draw_text(painter, line, reason(refusal.entry))
    painter.setFont(code_face())
    painter.setPen(theme.colour("text"))
    draw_text(painter, line.translated(0, LINE), refusal.entry.witness)


def _paint_offer(painter: QPainter, row: Row, state: RowState, theme: Theme) -> None:
    """A repair as a link, underlined where the keyboard is; plain text where no advice can say it."""
    assert isinstance(row.value, Offer)
    line = _paint_refusal(painter, state.box, False, row.value.last, theme)
    font = face(11)
    font.setUnderline(state.current and _is_link(row))
    painter.setFont(font)
    painter.setPen(theme.colour("accent" if _is_link(row) else "text-2"))
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
