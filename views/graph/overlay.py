"""What floats over the graph: the minimap and the legend."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QLinearGradient, QMouseEvent, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from views.graph.items import BOUND_COLOURS, PACKING, SCHEMES
from views.graph.look import SceneState
from views.graph.scene import GraphScene
from views.theme import face
from views.themed_painter import ThemedPainter

MINIMAP = QSize(72, 132)
LEGEND = 22
"""Pixels of the height of each legend."""
TITLES = {"traffic": "traffic per launch", "bound": "limited by"}
RAMP = 72
"""Pixels of the scale."""


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
        painter, around = ThemedPainter(self, self._scene.look.theme), QRectF(self.rect())
        painter.box(around, "edge", "panel", 3)
        scale, origin = self._frame()
        for placed in self._scene.drawing.placed:
            token = "raised" if placed.opened else "accent" if self._scene.look.is_selected(placed) else "edge"
            corner = QPointF(placed.left, placed.top) * scale + origin
            box = QRectF(corner.x(), corner.y(), placed.width * scale, max(placed.height * scale, 1.0))
            painter.ink("", token).drawRect(box)
        sight = QRectF(self._sight.topLeft() * scale + origin, self._sight.size() * scale)
        painter.ink("accent").drawRect(sight.intersected(around.adjusted(3, 3, -3, -3)))

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


class _Legend(QWidget):
    """One line below the picture; `paint` says what is in it, from left to right."""

    def __init__(self, parent: QWidget, look: SceneState) -> None:
        super().__init__(parent)
        self._look = look
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def paintEvent(self, event: QPaintEvent) -> None:
        """A line above, then the parts as long as there is room."""
        painter = ThemedPainter(self, self._look.theme)
        painter.area(QRectF(0, 0, self.width(), 1), "line")
        self.paint(painter)

    def paint(self, painter: ThemedPainter) -> None:
        """Draws the parts."""
        raise NotImplementedError

    def text(self, painter: ThemedPainter, x: float, text: str, token: str) -> float:
        """A text at `x`, shortened where the legend ends, and where the next part begins."""
        box = QRectF(x, 0, self.width() - x - 8, LEGEND)
        return x + painter.text(box, text, token, face(10.5)) + 13


class CostLegend(_Legend):
    """What the colour of the cost bars means."""

    def __init__(self, parent: QWidget, look: SceneState) -> None:
        super().__init__(parent, look)
        self.setAccessibleName("Legend of the cost colours")

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

    def paint(self, painter: ThemedPainter) -> None:
        """A scale, or one swatch for each category."""
        theme, x = self._look.theme, self.text(painter, 12, self.title, "text-2")
        if self._look.colour_by == "bound":
            for name, author in BOUND_COLOURS.items():
                painter.ink(theme.author(author), width=1.4).drawRect(QRectF(x + 0.5, LEGEND / 2 - 3.5, 10, 7))
                x = self.text(painter, x + 15, name, "text-2")
            return
        ramp = QLinearGradient(x, 0, x + RAMP, 0)
        for index, colour in enumerate(theme.cost):
            ramp.setColorAt(index / (len(theme.cost) - 1), colour)
        painter.qt.fillRect(QRectF(x, LEGEND / 2 - 3.5, RAMP, 7), ramp)
        self.text(painter, x + RAMP + 12, self.where, "text-3")


LABELS = {PACKING: "horizontal fusion"}
"""Schemes that the field calls otherwise than documents do."""


class SchemeLegend(_Legend):
    """What the lines inside launches mean; there while a launch is open."""

    def __init__(self, parent: QWidget, scene: GraphScene) -> None:
        super().__init__(parent, scene.look)
        self._scene = scene
        self.setAccessibleName("Legend of the schemes: register, shuffle, shared memory, horizontal fusion")
        self.hide()

    def fit(self) -> None:
        """Shows itself where there is something to explain."""
        self.setVisible(any(line.links for line in self._scene.drawing.lines))

    def paint(self, painter: ThemedPainter) -> None:
        """A piece of each line with its name."""
        x = self.text(painter, 12, "passed via", "text-2")
        for name, (author, style, width) in SCHEMES.items():
            pen = QPen(self._look.theme.author(author), width, style)
            painter.line((x, LEGEND / 2), (x + 22, LEGEND / 2), pen)
            x = self.text(painter, x + 28, LABELS.get(name, name), "text-3")
