"""What floats over the graph: the minimap and the legend."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QLinearGradient, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from views.graph.items import BOUND_COLOURS, PACKING, SCHEMES, SceneState
from views.graph.scene import GraphScene
from views.rows import draw_text
from views.theme import face

MINIMAP = QSize(72, 132)
LEGEND = QSize(120, 52)
TITLES = {"traffic": "traffic per launch", "bound": "limited by"}
RAMP, SWATCH = 96, 66
"""Pixels of the scale, and of each category."""


class Minimap(QWidget):
    """The whole graph in small, with the part in sight framed."""

    moved = Signal(QPointF)

    def __init__(self, parent: QWidget, scene: GraphScene) -> None:
        super().__init__(parent)
        self._scene = scene
        self._sight = QRectF()
        self.setFixedSize(MINIMAP)
        self.setToolTip("Overview; click to go there")
        self.setAccessibleName("Graph overview")

    def show_sight(self, sight: QRectF) -> None:
        """Frames the part of the scene that the view shows; gone where that is all of it."""
        self._sight = sight
        left, top, right, bottom = self._scene.drawing.extent
        self.setVisible(not sight.contains(QRectF(left, top, right - left, bottom - top)))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Rectangles only."""
        theme = self._scene.look.theme
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.colour("edge"), 1))
        painter.setBrush(theme.colour("panel"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
        scale, origin = self._frame()
        painter.setPen(Qt.PenStyle.NoPen)
        for placed in self._scene.drawing.placed:
            token = "raised" if placed.opened else "accent" if self._scene.look.is_selected(placed) else "edge"
            painter.setBrush(theme.colour(token))
            corner = QPointF(placed.left, placed.top) * scale + origin
            painter.drawRect(QRectF(corner.x(), corner.y(), placed.width * scale, max(placed.height * scale, 1.0)))
        painter.setPen(QPen(theme.colour("accent"), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        sight = QRectF(self._sight.topLeft() * scale + origin, self._sight.size() * scale)
        painter.drawRect(sight.intersected(QRectF(self.rect()).adjusted(3, 3, -3, -3)))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Goes where the click points."""
        scale, origin = self._frame()
        self.moved.emit((event.position() - origin) / scale)

    mouseMoveEvent = mousePressEvent

    def _frame(self) -> tuple[float, QPointF]:
        left, top, right, bottom = self._scene.drawing.extent
        width, height = max(right - left, 1.0), max(bottom - top, 1.0)
        scale = min((self.width() - 12) / width, (self.height() - 12) / height)
        centre = QPointF((left + right) / 2, (top + bottom) / 2) * scale
        return scale, QPointF(self.width() / 2, self.height() / 2) - centre


class CostLegend(QWidget):
    """What the colour of the cost bars means."""

    def __init__(self, parent: QWidget, look: SceneState) -> None:
        super().__init__(parent)
        self._look = look
        self.setFixedSize(LEGEND)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleName("Legend of the cost colours")

    def fit(self) -> None:
        """As wide as what it says, so that it covers no more of the graph than it must."""
        font = QFontMetricsF(face(10.5))
        width = max(font.horizontalAdvance(text) for text in (self.title, self.where)) + 12
        self.setFixedWidth(max(LEGEND.width(), ceil(width), 3 * SWATCH + 8 if self._look.colour_by == "bound" else 0))
        self.update()

    @property
    def title(self) -> str:
        """What is shown; of times also of which origin they are."""
        return TITLES.get(self._look.colour_by, f"{self._look.origin} time per launch")

    @property
    def where(self) -> str:
        """Where the shown times come from; "" where none are shown."""
        if self._look.colour_by in TITLES:
            return ""
        if self._look.shows_measured and not self._look.measured:
            return "nothing measured yet"
        return self._look.measured_where if self._look.shows_measured else self._look.predicted_where

    def paintEvent(self, event: QPaintEvent) -> None:
        """A scale, or one swatch for each category."""
        theme, look = self._look.theme, self._look
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        background = theme.colour("panel")
        background.setAlphaF(0.88)
        painter.fillRect(self.rect(), background)
        painter.setFont(face(10.5))
        painter.setPen(theme.colour("text-2"))
        draw_text(painter, QRectF(4, 2, self.width() - 8, 15), self.title)
        if look.colour_by == "bound":
            self._swatches(painter)
            return
        ramp = QLinearGradient(4, 0, 4 + RAMP, 0)
        for index, colour in enumerate(theme.cost):
            ramp.setColorAt(index / (len(theme.cost) - 1), colour)
        painter.fillRect(QRectF(4, 21, RAMP, 7), ramp)
        painter.setPen(theme.colour("text-3"))
        draw_text(painter, QRectF(4, 33, self.width() - 8, 15), self.where)

    def _swatches(self, painter: QPainter) -> None:
        x = 4.0
        for name, author in BOUND_COLOURS.items():
            painter.setPen(QPen(self._look.theme.author(author), 1.4))
            painter.drawRect(QRectF(x + 0.5, 22.5, 10, 7))
            painter.setPen(self._look.theme.colour("text-2"))
            painter.drawText(QRectF(x + 15, 18, 60, 16), Qt.AlignmentFlag.AlignVCenter, name)
            x += SWATCH


LABELS = {PACKING: "horizontal fusion"}
"""Schemes that the field calls otherwise than documents do."""


class SchemeLegend(QWidget):
    """What the lines inside launches mean; there while a launch is open."""

    def __init__(self, parent: QWidget, scene: GraphScene) -> None:
        super().__init__(parent)
        self._scene = scene
        self.setFixedSize(QSize(132, 20 + 16 * len(SCHEMES)))
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleName("Legend of the schemes: register, shuffle, shared memory, horizontal fusion")
        self.hide()

    def fit(self) -> None:
        """Shows itself where there is something to explain."""
        self.setVisible(any(line.links for line in self._scene.drawing.lines))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """A piece of each line with its name."""
        theme = self._scene.look.theme
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        background = theme.colour("panel")
        background.setAlphaF(0.88)
        painter.fillRect(self.rect(), background)
        painter.setFont(face(10.5))
        painter.setPen(theme.colour("text-2"))
        draw_text(painter, QRectF(4, 1, self.width() - 8, 15), "passed via")
        for number, (name, (author, style, width)) in enumerate(SCHEMES.items()):
            middle = 26.0 + 16 * number
            painter.setPen(QPen(theme.author(author), width, style))
            painter.drawLine(QPointF(5, middle), QPointF(27, middle))
            painter.setPen(theme.colour("text-3"))
            draw_text(painter, QRectF(34, middle - 8, 94, 16), LABELS.get(name, name))
