"""A painter that is told colours by their tokens: what rows, charts and legends are painted with.

Every call says its colour and its face, so that nothing depends on what was painted before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QWidget

from views.theme import Theme, face

Tint = str | QColor
"""A token of the theme, or a colour of a scale; "" for none."""
Align = Qt.AlignmentFlag
LINE = Qt.TextFlag.TextSingleLine
LEFT, CENTRE, RIGHT = Align.AlignLeft, Align.AlignHCenter, Align.AlignRight
DASHED, DOTTED = Qt.PenStyle.DashLine, Qt.PenStyle.DotLine


class ThemedPainter:
    """Paints on a widget or for a delegate; `qt` is Qt's own painter, for what has no word here."""

    def __init__(self, on: QPainter | QWidget, theme: Theme) -> None:
        self.qt = on if isinstance(on, QPainter) else QPainter(on)
        self.theme = theme
        self.qt.setRenderHint(QPainter.RenderHint.Antialiasing)

    def colour(self, tint: Tint) -> QColor:
        """The colour that is meant."""
        return self.theme.colour(tint) if isinstance(tint, str) else tint

    def width(self, text: str, font: QFont | None = None) -> float:
        """Pixels of one line."""
        self.qt.setFont(font or face())
        return self.qt.fontMetrics().horizontalAdvance(text)

    def text(
        self, box: QRectF, text: str, tint: Tint = "text", font: QFont | None = None, side: Align = LEFT
    ) -> float:
        """One line, cut at its end where it does not fit; the pixels that it takes of the box."""
        if box.width() <= 0:
            return 0.0
        self.qt.setFont(font or face())
        self.qt.setPen(self.colour(tint))
        metrics = self.qt.fontMetrics()
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, int(box.width()) + 1)
        self.qt.drawText(box, side | Align.AlignVCenter | LINE, shown)
        return min(float(metrics.horizontalAdvance(text)), box.width())

    def word(self, box: QRectF, text: str, tint: Tint = "text", font: QFont | None = None) -> None:
        """Words in the middle of a box, whole."""
        self.qt.setFont(font or face())
        self.qt.setPen(self.colour(tint))
        self.qt.drawText(box, Align.AlignCenter, text)

    def words(self, box: QRectF, text: str, tint: Tint = "text") -> None:
        """Small words on as many lines as they need."""
        self.qt.setFont(face(11))
        self.qt.setPen(self.colour(tint))
        self.qt.drawText(box, Qt.TextFlag.TextWordWrap, text)

    def fits(
        self, box: QRectF, texts: Iterable[str], tint: Tint = "text", font: QFont | None = None, air: float = 4
    ) -> None:
        """The first of some texts, the longest first, that finds room in a box with so many pixels beside it."""
        found = next((text for text in texts if text and self.width(text, font) + air <= box.width()), "")
        self.word(box, found, tint, font)

    def pen(self, tint: Tint, width: float = 1.0, style: Qt.PenStyle = Qt.PenStyle.SolidLine) -> QPen:
        """A pen with round ends; none where there is no colour."""
        ends = Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin
        return QPen(self.colour(tint), width, style, *ends) if tint else QPen(Qt.PenStyle.NoPen)

    def ink(self, outline: Tint | QPen = "", fill: Tint = "", width: float = 1.0) -> QPainter:
        """Qt's painter with these colours."""
        self.qt.setPen(outline if isinstance(outline, QPen) else self.pen(outline, width))
        self.qt.setBrush(QBrush(self.colour(fill)) if fill else Qt.BrushStyle.NoBrush)
        return self.qt

    def line(
        self, start: tuple[float, float], end: tuple[float, float], tint: Tint | QPen = "line", width: float = 1.0
    ) -> None:
        """A straight line."""
        self.ink(tint, width=width).drawLine(QLineF(*start, *end))

    def strokes(self, *lines: Sequence[tuple[float, float]], tint: Tint | QPen, width: float = 1.0) -> None:
        """Lines through corners."""
        for corners in lines:
            self.ink(tint, width=width).drawPolyline([QPointF(*corner) for corner in corners])

    def box(
        self, rect: QRectF, outline: Tint | QPen = "", fill: Tint = "", radius: float = 0.0, width: float = 1.0
    ) -> None:
        """A rectangle with round corners; an outline lies inside it."""
        inside = rect.adjusted(0.5, 0.5, -0.5, -0.5) if outline else rect
        self.ink(outline, fill, width).drawRoundedRect(inside, radius, radius)

    def disc(
        self, centre: QPointF, radius: float, fill: Tint = "", outline: Tint | QPen = "", width: float = 1.0
    ) -> None:
        """A disc, or a ring."""
        self.ink(outline, fill, width).drawEllipse(centre, radius, radius)

    def shape(self, corners: Iterable[QPointF], fill: Tint) -> None:
        """A filled polygon."""
        self.ink("", fill).drawPolygon(QPolygonF(list(corners)))

    def area(self, rect: QRectF, tint: Tint) -> None:
        """A rectangle on whole pixels."""
        self.qt.fillRect(rect, self.colour(tint))
