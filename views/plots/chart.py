"""A page of plots with the tokens of a theme, and what the pointer does to them."""

from __future__ import annotations

from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter
from PySide6.QtWidgets import QGraphicsScene, QLabel

from views.plots.plot import Plot
from views.theme import Theme

# Qt drops moves that it cannot keep pace with by itself.  What is left at the end goes with its window: pyqtgraph's own
# clean-up walks through all objects of the process, those of Qt that are gone as well.
pg.setConfigOptions(antialias=True, mouseRateLimit=-1, exitCleanup=False)

STEADY = 3
"""Pixels that the pointer may move in a click."""


class Chart(pg.GraphicsLayoutWidget):
    """Plots in rows and columns; one range is held for all of them while the user has zoomed."""

    region_drawn = Signal(object, QRectF)
    """A plot, and the rectangle on its axes."""
    hovered = Signal(object, object)
    """A plot and the keys under the pointer; None where it is over no plot."""
    clicked = Signal(object, object)
    menu_requested = Signal(QPointF)

    def __init__(self, theme: Theme) -> None:
        super().__init__(show=False)
        self.theme = theme
        self.is_held = False
        # A page has some dozen items, and an index of their places would lag behind a range that changes unseen.
        self.scene().setItemIndexMethod(QGraphicsScene.ItemIndexMethod.NoIndex)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setFrameShape(self.Shape.NoFrame)
        # Not opaque, so that the frame below is asked to paint, and draws what has come, before this is.
        self.viewport().setAutoFillBackground(False)
        self.ci.layout.setContentsMargins(4, 8, 16, 4)
        self.ci.layout.setSpacing(0)
        self.ci.layout.setHorizontalSpacing(12)
        self.plots: dict[tuple[int, int], Plot] = {}
        self.readout = QLabel(self)
        self.readout.setProperty("role", "chip")
        self.readout.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.readout.hide()
        self._pressed: QPointF | None = None

    def show_theme(self, theme: Theme) -> None:
        """What is drawn from now on has its colours."""
        self.theme = theme
        self.setBackground(theme.colour("panel"))

    def plot(self, row: int = 0, column: int = 0) -> Plot:
        """The plot at a place of the page, made where there is none."""
        if (row, column) not in self.plots:
            self.plots[row, column] = Plot(self, row, column)
        return self.plots[row, column]

    def drop(self, row: int, column: int) -> None:
        """Takes a plot away."""
        found = self.plots.pop((row, column), None)
        if found is not None:
            self.removeItem(found.cell)

    def hold(self) -> None:
        """The user has zoomed or panned: new data leave the range as it is."""
        self.is_held = True

    def go_home(self) -> None:
        """Shows everything again."""
        self.is_held = False
        for plot in self.plots.values():
            plot.go_home()

    def zoom(self, factor: float) -> None:
        """Closer around the middle; factor: part of the range that is left."""
        self.hold()
        for plot in self.plots.values():
            if plot.box.linkedView(0) is None:  # else it follows
                plot.box.scaleBy((factor, factor))

    def plot_at(self, at: QPointF) -> Plot | None:
        """The plot between whose axes a place of the page lies."""
        return next((plot for plot in self.plots.values() if plot.box.sceneBoundingRect().contains(at)), None)

    def mouseMoveEvent(self, ev: QMouseEvent) -> None:
        """The crosshair follows, and what is near is told."""
        super().mouseMoveEvent(ev)
        self.point_at(self.mapToScene(ev.position().toPoint()))

    def leaveEvent(self, ev: QEvent) -> None:
        """The crosshair leaves."""
        super().leaveEvent(ev)
        self.point_at(None)

    def point_at(self, at: QPointF | None) -> None:
        """Puts the crosshair at a place of the page, or takes it away."""
        here = self.plot_at(at) if at is not None else None
        for plot in self.plots.values():
            for line in plot.cross:
                line.setVisible(plot is here)
        if here is not None and at is not None:
            found = here.box.mapSceneToView(at)
            for line, value in zip(here.cross, (found.x(), found.y()), strict=True):
                line.setPos(value)
        self.hovered.emit(here, at)

    def tell(self, text: str) -> None:
        """What stands in the corner while the pointer is over a plot; "" for nothing."""
        self.readout.setVisible(bool(text))
        if text:
            self.readout.setText(text)
            self.readout.adjustSize()
            self.readout.move(self.width() - self.readout.width() - 18, 6)

    def mousePressEvent(self, ev: QMouseEvent) -> None:
        """The beginning of a click or of a drag."""
        self._pressed = ev.position()
        super().mousePressEvent(ev)

    def mouseReleaseEvent(self, ev: QMouseEvent) -> None:
        """A click, where the pointer has not moved since."""
        super().mouseReleaseEvent(ev)
        pressed, self._pressed = self._pressed, None
        if pressed is None or (ev.position() - pressed).manhattanLength() > STEADY:
            return
        if ev.button() == Qt.MouseButton.RightButton:
            self.menu_requested.emit(ev.globalPosition())
        at = self.mapToScene(ev.position().toPoint())
        plot = self.plot_at(at)
        if ev.button() == Qt.MouseButton.LeftButton and plot is not None:
            self.clicked.emit(plot, at)

    def mouseDoubleClickEvent(self, ev: QMouseEvent) -> None:
        """Shows everything."""
        self.go_home()

    def paintEvent(self, ev: Any) -> None:
        """Layout first: a picture may be asked for before Qt came to it."""
        self.ci.layout.activate()
        super().paintEvent(ev)

    def drawBackground(self, painter: QPainter, rect: QRectF) -> None:
        """The panel's colour, also into a file."""
        painter.fillRect(rect, self.theme.colour("panel"))
