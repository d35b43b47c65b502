"""Plots on one page with the tokens of a theme: axes, marks, lines, bands and names; what the pointer does to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import QGraphicsScene, QGraphicsTextItem, QLabel

from views.format import figure
from views.plots.marks import RADIUS, MarkItem, Numbers, Spans
from views.plots.scale import log_ticks, ticks
from views.theme import Theme, face, semibold

# Qt drops moves that it cannot keep pace with by itself.  What is left at the end goes with its window: pyqtgraph's own
# clean-up walks through all objects of the process, those of Qt that are gone as well.
pg.setConfigOptions(antialias=True, mouseRateLimit=-1, exitCleanup=False)

Keys = NDArray[np.int64]
LEFT, BOTTOM = 64, 40
"""Pixels of the axes with their titles."""
TICK_ROOM = {"bottom": 76, "left": 34}
"""Pixels between ticks, at least."""
REACH = 12.0
"""Pixels around a mark in which the pointer means it."""
TITLE = 26
"""Pixels of the head of a plot."""
STEADY = 3
"""Pixels that the pointer may move in a click."""


@dataclass(frozen=True, slots=True)
class AxisScale:
    """One axis as it stands before anybody zooms."""

    title: str
    """What it counts, with its unit: "measured µs"."""
    low: float
    high: float
    whole: bool = False
    """Whether it counts things."""
    inset: float = 0.0
    """Part of the range left free at both ends."""
    named: tuple[tuple[float, str], ...] = ()
    """Ticks of their own instead of round values, where they stand and what they are called."""
    tick: Callable[[float], str] = figure
    unit: str = ""
    """What is read off an axis without a title."""

    def range(self, log: bool) -> tuple[float, float]:
        """The ends, or their logarithms."""
        low, high = self.low, self.high
        if log:
            low = low if low > 0 else 1.0 if self.whole else high * 1e-3
            low, high = np.log10(low), np.log10(max(high, low * 1.01))
        air = self.inset * (high - low)
        return low - air, high + air


class Axis(pg.AxisItem):
    """Round ticks with the program's figures; grid lines in the theme's colour."""

    def __init__(self, side: str) -> None:
        super().__init__(side)
        self.show_scale(AxisScale("", 0, 1), False)
        self.enableAutoSIPrefix(False)
        self.setStyle(
            tickAlpha=255, tickLength=0, tickTextOffset=7, autoExpandTextSpace=False, hideOverlappingLabels=False
        )

    def show_scale(self, scale: AxisScale, log: bool) -> None:
        """Another meaning of the values."""
        self.scale_shown, self.log = scale, log
        self.picture = None
        self.update()

    def show_theme(self, theme: Theme) -> None:
        """Colours and faces; the title is written by `Plot`."""
        self.setPen(pg.mkPen(theme.colour("edge")))
        self.setTickPen(pg.mkPen(theme.colour("line")))
        self.setTextPen(pg.mkPen(theme.colour("text-3")))
        self.setTickFont(face(10.5))

    def say(self, value: float) -> str:
        """A value of the axis with what it counts; "" for an axis of names."""
        scale = self.scale_shown
        if scale.named and not scale.unit:
            return ""
        if scale.whole:
            return f"{scale.title} {max(value, 0):,.0f}"
        unit = scale.unit or scale.title
        return f"{scale.tick(value)} {unit}" if unit else ""

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, list[float]]]:
        """Round values, so many as find room."""
        if self.scale_shown.named:
            return [(1.0, [at for at, _ in self.scale_shown.named if minVal <= at <= maxVal])]
        most = max(int(size / TICK_ROOM.get(self.orientation, 40)), 2)
        if self.log:
            found = log_ticks(minVal, maxVal, most)
        else:
            found = ticks(minVal, maxVal, most, self.scale_shown.whole)
        return [(1.0, found)]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        """Figures as everywhere in the program."""
        if self.scale_shown.named:
            names = dict(self.scale_shown.named)
            return [names[value] for value in values]
        plain = [10**value if self.log else value for value in values]
        if self.scale_shown.whole:
            return [f"{value:,.0f}" if value >= 0 else "" for value in plain]
        said = [self.scale_shown.tick(value) for value in plain]
        if len(set(said)) < len(said):  # a range so narrow that three digits tell no ticks apart
            places = max(1 - int(np.floor(np.log10(plain[1] - plain[0]))), 0)
            said = [f"{value:,.{places}f}" for value in plain]
        return said


class ZoomBox(pg.ViewBox):
    """The part between the axes: drag pans, with Ctrl it zooms to a rectangle, with Shift it selects one."""

    region_drawn = Signal(QRectF)

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self.disableAutoRange()

    def mouseDragEvent(self, ev: Any, axis: int | None = None) -> None:
        """Rectangles with a key held, else what pyqtgraph does."""
        held = ev.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
        if axis is not None or not held or ev.button() != Qt.MouseButton.LeftButton:
            super().mouseDragEvent(ev, axis)
            return
        ev.accept()
        if not ev.isFinish():
            self.updateScaleBox(ev.buttonDownPos(), ev.pos())
            return
        self.rbScaleBox.hide()
        drawn = self.childGroup.mapRectFromParent(QRectF(ev.buttonDownPos(), ev.pos()).normalized())
        if held & Qt.KeyboardModifier.ShiftModifier:
            self.region_drawn.emit(drawn)
        else:
            self.showAxRect(drawn, padding=0)


@dataclass(slots=True)
class Targets:
    """What may be pointed at: places in the plot, and what is told of each."""

    x: Numbers = field(default_factory=lambda: np.empty(0))
    y: Numbers = field(default_factory=lambda: np.empty(0))
    keys: Keys = field(default_factory=lambda: np.empty(0, np.int64))


class Plot:
    """One pair of axes.  Items have names: what is drawn again under its name is updated, the rest leaves."""

    def __init__(self, chart: Chart, row: int, column: int) -> None:
        self.chart, self.box = chart, ZoomBox()
        self.axes = {side: Axis(side) for side in ("left", "bottom")}
        # Not pyqtgraph's own `PlotItem`: its menus, never seen here, outlive the application and crash at its end.
        self.cell = chart.addLayout(row, column)
        self.cell.layout.setContentsMargins(0, 0, 0, 0)
        self.cell.layout.setSpacing(0)
        for item, at in ((self.box, (1, 1)), (self.axes["left"], (1, 0)), (self.axes["bottom"], (2, 1))):
            self.cell.addItem(item, *at)
        self.axes["left"].setWidth(LEFT)
        self.axes["bottom"].setHeight(BOTTOM)
        for axis in self.axes.values():
            axis.linkToView(self.box)
            axis.setGrid(255)
            axis.setZValue(-10)
        self.box.setZValue(1)  # over the grid
        self.title: QGraphicsTextItem | None = None
        self.targets = Targets()
        self.home = ((0.0, 1.0), (0.0, 1.0))
        self._items: dict[str, Any] = {}
        self._drawn: set[str] = set()
        self.cross = [pg.InfiniteLine(angle=angle) for angle in (90, 0)]
        for line in self.cross:
            line.hide()
            line.setZValue(40)
            self.box.addItem(line, ignoreBounds=True)
        self.box.sigRangeChangedManually.connect(lambda *_: chart.hold())
        self.box.region_drawn.connect(lambda region: chart.region_drawn.emit(self, region))

    def show_axes(self, x: AxisScale, y: AxisScale, log: tuple[bool, bool] = (False, False)) -> None:
        """Titles, ticks, and the range where nobody has zoomed."""
        theme = self.chart.theme
        for side, scale, is_log in (("bottom", x, log[0]), ("left", y, log[1])):
            axis = self.axes[side]
            axis.show_scale(scale, is_log)
            axis.show_theme(theme)
            axis.setLabel(scale.title, color=theme.colours["text-3"])
            axis.label.setFont(face(10.5))
            axis.showLabel(bool(scale.title))
        self.axes["bottom"].setHeight(BOTTOM if x.title else BOTTOM // 2)
        self.box.setMouseEnabled(True, True)
        self.box.rbScaleBox.setPen(pg.mkPen(theme.colour("accent")))
        tint = theme.colour("accent")
        tint.setAlpha(40)
        self.box.rbScaleBox.setBrush(pg.mkBrush(tint))
        home = (x.range(log[0]), y.range(log[1]))
        if home != self.home:
            self.home = home
            if not self.chart.is_held:
                self.go_home()
        for line in self.cross:
            line.setPen(pg.mkPen(theme.colour("edge"), style=Qt.PenStyle.DashLine))

    def show_title(self, text: str, note: str = "") -> None:
        """A head over the plot, with a note in grey."""
        if self.title is None:
            # In no layout: a long note makes no plot wider than its neighbours.
            self.title = QGraphicsTextItem(self.cell)
            self.title.setPos(LEFT, 2)
            self.cell.layout.setRowFixedHeight(0, TITLE)
        colours = self.chart.theme.colours
        parts = [f'<span style="font-weight: 600; color: {colours["text"]}">{escape(text)}</span>']
        parts += [f'<span style="color: {colours["text-3"]}">&nbsp; {escape(note)}</span>'] if note else []
        self.title.setFont(face(11))
        self.title.setHtml("".join(parts))

    def show_bottom(self, shown: bool) -> None:
        """The axis below may be that of the plot underneath."""
        axis = self.axes["bottom"]
        axis.setHeight(BOTTOM if shown else 1)
        axis.setStyle(showValues=shown)
        axis.showLabel(shown)

    def show_left(self, shown: bool) -> None:
        """A small plot whose values are written at its points needs no axis for them."""
        self.axes["left"].setWidth(LEFT if shown else 1)
        self.axes["left"].setStyle(showValues=shown)

    def go_home(self) -> None:
        """The whole range."""
        self.box.setRange(xRange=self.home[0], yRange=self.home[1], padding=0, disableAutoRange=True)

    def values(self, side: str, values: Numbers) -> Numbers:
        """Where values stand on an axis: themselves, or their logarithms."""
        if not self.axes[side].log:
            return values
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log10(values)

    def marks(
        self, name: str, x: Numbers, y: Numbers, token: str, origin: str, radius: float = RADIUS, *,
        back: str = "", arrows: str = "", above: bool = False,
    ) -> None:  # fmt: skip
        """Marks of one origin; back and arrows: tokens as of `MarkItem`; above: over all other items."""
        theme = self.chart.theme
        item = self._item(name, MarkItem, 20 if above else 10)
        known = np.isfinite(x) & np.isfinite(y)
        item.show_marks(
            self.values("bottom", x[known]), self.values("left", y[known]), theme.colour(token), origin, radius,
            back=theme.colour(back) if back else None, arrows=theme.colour(arrows) if arrows else None,
        )  # fmt: skip

    def spans(self, name: str, x: Numbers, low: Numbers, high: Numbers, token: str, width: float = 1.0) -> None:
        """Upright lines."""
        item, colour = self._item(name, Spans, 5), self.chart.theme.colour(token)
        ends = (self.values("left", side) for side in (low, high))
        item.show_spans(self.values("bottom", x), *ends, QPen(colour, width))

    def line(
        self, name: str, x: Numbers, y: Numbers, token: str, width: float = 1.2, *, pairs: bool = False,
        alpha: int = 255,
    ) -> None:  # fmt: skip
        """A line through values, broken where one is missing; pairs: of every two values one line."""
        colour = self.chart.theme.colour(token)
        colour.setAlpha(alpha)
        item = self._item(name, pg.PlotDataItem, 8)
        pen = pg.mkPen(colour, width=width)
        item.setData(
            self.values("bottom", x), self.values("left", y), pen=pen, connect="pairs" if pairs else "finite",
            antialias=True,
        )  # fmt: skip
        # Given to the item and not to its constructor: the plot overwrites what the constructor was told.
        item.setClipToView(not pairs)
        item.setDownsampling(auto=not pairs, method="peak")

    def rule(
        self, name: str, value: float, token: str, text: str, *, upright: bool = False, dashed: bool = False,
        below: bool = False,
    ) -> None:  # fmt: skip
        """A line across at a value with its name at the right end, or upright with it at the top.

        below: the name stands under the line.
        """
        colour, item = self.chart.theme.colour(token), self._items.get(name)
        if item is None:
            at = {"position": 0.95 if upright else 0.995, "anchors": [(0, 0.5), (1, 0.5)] if upright else None}
            item = pg.InfiniteLine(angle=90 if upright else 0, label=text, labelOpts=at)
            self._take(name, item, 6 if upright else 12)
        self._drawn.add(name)
        item.setPos(float(self.values("bottom" if upright else "left", np.array([value]))[0]))
        item.setPen(pg.mkPen(colour, width=1.4, style=Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine))
        item.label.setFormat(text)
        if not upright:
            item.label.anchors = [(1, 0 if below else 1)] * 2
            item.label.updatePosition()
        item.label.setColor(self.chart.theme.colour("text-2") if token == "edge" else colour)
        item.label.setFont(face(10.5))

    def band(self, name: str, low: float, high: float, token: str) -> None:
        """A stripe across between two values."""
        item = self._items.get(name)
        if item is None:
            item = pg.LinearRegionItem(orientation="horizontal", movable=False, pen=pg.mkPen(None))
            self._take(name, item, 0)
        self._drawn.add(name)
        item.setBrush(self.chart.theme.colour(token))
        item.setRegion(tuple(self.values("left", np.array([low, high])).tolist()))

    def text(
        self, name: str, x: float, y: float, text: str, token: str, anchor: tuple[float, float] = (0, 0.5), *,
        strong: bool = False, plate: bool = False, under: bool = False,
    ) -> None:  # fmt: skip
        """Words at a place; anchor: the part of them that stands there, (0, 0) the upper left corner.

        plate: they hide what is behind them; under: marks lie over them.
        """
        item = self._items.get(name)
        if item is None:
            item = pg.TextItem()
            self._take(name, item, 4 if under else 30)
        self._drawn.add(name)
        item.setText(text)
        item.setColor(self.chart.theme.colour(token))
        item.setFont(semibold(10.5) if strong else face(10.5))
        item.setAnchor(anchor)
        item.fill = pg.mkBrush(self.chart.theme.colour("panel") if plate else None)
        item.setPos(float(self.values("bottom", np.array([x]))[0]), float(self.values("left", np.array([y]))[0]))

    def aim(self, x: Numbers, y: Numbers, keys: Keys) -> None:
        """What may be pointed at, in the values of the axes."""
        self.targets = Targets(self.values("bottom", x), self.values("left", y), keys)

    def finish(self) -> None:
        """Takes away what was not drawn again, and moves the rest to where the range has it."""
        self.box.updateMatrix()
        for name in set(self._items) - self._drawn:
            self.box.removeItem(self._items.pop(name))
        self._drawn = set()

    def places(self) -> Numbers:
        """Of each target x and y on the page, in pixels."""
        return self.on_page(self.targets.x, self.targets.y)

    def on_page(self, x: Numbers, y: Numbers) -> Numbers:
        """Pixels of the page for places on the axes."""
        self.box.updateMatrix()
        transform = self.box.childGroup.sceneTransform()
        across, up = x * transform.m11() + transform.dx(), y * transform.m22() + transform.dy()
        return np.stack([across, up], axis=1)

    def near(self, at: QPointF) -> Keys:
        """The keys of the targets nearest to a place of the page: all that share the spot, none out of reach."""
        if not len(self.targets.keys):
            return self.targets.keys
        far = np.abs(np.nan_to_num(self.places() - (at.x(), at.y()), nan=1e6)).sum(axis=1)
        return self.targets.keys[far <= far.min() + 1.0] if far.min() <= REACH else self.targets.keys[:0]

    def read(self, at: QPointF) -> tuple[float, float]:
        """The values of the axes under a place of the page."""
        found = self.box.mapSceneToView(at)
        return self.plain("bottom", found.x()), self.plain("left", found.y())

    def plain(self, side: str, place: float) -> float:
        """The value at a place of an axis."""
        return float(10**place) if self.axes[side].log else place

    def _item(self, name: str, kind: Callable[[], Any], z: float) -> Any:
        if name not in self._items:
            self._take(name, kind(), z)
        self._drawn.add(name)
        return self._items[name]

    def _take(self, name: str, item: Any, z: float) -> None:
        item.setZValue(z)
        self._items[name] = item
        self.box.addItem(item, ignoreBounds=True)


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
