"""A list to choose from by keyboard: what to merge with, where an operator can go, each with its effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from views.panel import label
from views.rows import RowState, RowView, TreeRow
from views.shapes import paint_verdict
from views.theme import face
from views.themed import Themed
from views.themed_painter import ThemedPainter

WIDTH, MARGIN, MOST = 460, 8, 7
LEFT, RIGHT, TITLE, BELOW = 32, 12, 22, 10
"""Pixels of a row beside its words, and above and below its sentence."""


@dataclass(frozen=True, slots=True)
class Option:
    """One thing to choose, and what is known of it."""

    key: str
    title: str
    sentence: str
    outcome: str
    """"honoured", "infeasible" or "not reached"."""


class Chooser(QWidget, Themed):
    """A popup of options; Return takes the one under the arrow keys."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._over = parent
        self.setProperty("role", "palette")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Choose a group")
        self.title = label("", "title")
        self.list = RowView("Groups", _paint)
        self.list.chevrons = False
        self.list.row_activated.connect(self._take)
        self.list.row_selected.connect(lambda row: self.list.mark([row.key]))
        self.list.clicked.connect(lambda index: self._take(self.list.rows.row_at(index)))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(MARGIN, MARGIN, MARGIN, MARGIN)
        layout.setSpacing(8)
        layout.addWidget(self.title)
        layout.addWidget(self.list, 1)

    def open(self, title: str) -> None:
        """Opens over the graph, empty."""
        self.title.setText(title)
        self.list.show_rows(())
        parent = self._over
        corner = parent.mapToGlobal(parent.rect().topLeft())
        self.setFixedSize(WIDTH, 80)
        self.move(corner.x() + max((parent.width() - WIDTH) // 2, 0), corner.y() + 72)
        self.show()
        self.list.setFocus()

    def show_options(self, options: Sequence[Option]) -> None:
        """Replaces the options; the one under the keys stays."""
        current = self.list.currentIndex()
        present = self.list.rows.row_at(current).key if current.isValid() else ""
        rows = [TreeRow(o.key, o.title, o, (), _height(o.sentence), f"{o.title}\n{o.sentence}") for o in options]
        rows = rows or [TreeRow("", "Nothing to choose here", None, (), _height(""), "")]
        self.list.show_rows(rows)
        self.setFixedHeight(56 + sum(row.height for row in rows[:MOST]))
        index = self.list.rows.index_of(present) if present in self.list.rows else self.list.rows.index_of(rows[0].key)
        self.list.setCurrentIndex(index)
        self.list.mark([rows[index.row()].key])

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape closes it without a choice."""
        if event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)

    def _take(self, row: TreeRow) -> None:
        if isinstance(row.value, Option):
            self.close()
            self.chosen.emit(row.key)


def _height(sentence: str) -> int:
    """Pixels of a row that shows all of a sentence."""
    room = QRectF(0, 0, WIDTH - 2 * MARGIN - LEFT - RIGHT, 1e4)
    words = QFontMetricsF(face(11)).boundingRect(room, Qt.TextFlag.TextWordWrap, sentence)
    return TITLE + ceil(words.height()) + BELOW


def _paint(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    box, option = state.box.adjusted(LEFT, 4, -RIGHT, 0), row.value
    painter.text(QRectF(box.x(), box.y(), box.width(), 19), row.title)
    if not isinstance(option, Option):
        return
    paint_verdict(painter, QPointF(box.x() - 15, box.y() + 10), option.outcome, 4.5)
    tint = "wrong" if option.outcome == "infeasible" else "text-3"
    painter.words(box.adjusted(0, TITLE - 4, 0, 0), option.sentence, tint)
