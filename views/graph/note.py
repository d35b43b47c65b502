"""A note beside the pointer while something is dragged: whether it may be dropped there, and what that would change."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from views.rows import draw_text
from views.shapes import paint_verdict
from views.theme import face, semibold
from views.themed import Themed

WIDEST, MARGIN = 320, 10


class DropNote(QWidget, Themed):
    """Two lines with the verdict's glyph; never takes the mouse."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._around = parent
        self.title, self.sentence, self.outcome = "", "", "not reached"
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleName("What dropping it here would do")
        self.hide()

    def tell(self, title: str, sentence: str, outcome: str) -> None:
        """Says what dropping would ask for and whether that can be: "honoured", "infeasible" or "not reached"."""
        self.title, self.sentence, self.outcome = title, sentence, outcome
        small, bold = QFontMetrics(face(11)), QFontMetrics(semibold(11))
        width = min(max(bold.horizontalAdvance(title) + 24, small.horizontalAdvance(sentence)) + 2 * MARGIN + 4, WIDEST)
        inside = QRectF(0, 0, width - 2 * MARGIN, 400).toRect()
        lines = small.boundingRect(inside, Qt.TextFlag.TextWordWrap, sentence).height()
        self.resize(width, 26 + lines + MARGIN)
        self.show()
        self.raise_()
        self.update()

    def follow(self, at: QPoint) -> None:
        """Stands beside the pointer, inside of its parent."""
        around = self._around.size()
        left = min(at.x() + 18, around.width() - self.width() - 4)
        top = at.y() + 18 if at.y() + 22 + self.height() < around.height() else at.y() - self.height() - 12
        self.move(max(left, 4), max(top, 4))

    def paintEvent(self, event: QPaintEvent) -> None:
        """The glyph, the title, the sentence."""
        theme, wrong = self.theme, self.outcome == "infeasible"
        if theme is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.colour("wrong" if wrong else "edge"), 1))
        painter.setBrush(theme.colour("panel"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 5, 5)
        paint_verdict(painter, QPointF(MARGIN + 5, 15), self.outcome, theme, 4.5)
        painter.setFont(semibold(11))
        painter.setPen(theme.colour("text"))
        draw_text(painter, QRectF(MARGIN + 18, 6, self.width() - MARGIN - 26, 18), self.title)
        painter.setFont(face(11))
        painter.setPen(theme.colour("wrong" if wrong else "text-2"))
        box = QRectF(MARGIN, 26, self.width() - 2 * MARGIN, self.height() - 28)
        painter.drawText(box, Qt.TextFlag.TextWordWrap, self.sentence)
