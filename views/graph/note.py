"""A note beside the pointer while something is dragged: whether it may be dropped there, and what that would change."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QPaintEvent
from PySide6.QtWidgets import QWidget

from views.shapes import paint_note
from views.theme import face, semibold
from views.themed import Themed
from views.themed_painter import ThemedPainter

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
        if self.theme is None:
            return
        words = QRectF(MARGIN, 26, self.width() - 2 * MARGIN, self.height() - 28)
        painter, told = ThemedPainter(self, self.theme), (self.title, self.sentence)
        paint_note(painter, QRectF(self.rect()), words, self.outcome, told)

