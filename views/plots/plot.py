"""One pair of axes and what is drawn between them: marks, lines, bands, words; and what of it can be pointed at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QPen
from PySide6.QtWidgets import QGraphicsTextItem

from views.plots.axis import Axis
from views.plots.mark_style import ABOVE, BELOW, UPRIGHT, MarkStyle, TextStyle
from views.plots.marks import MarkItem, Numbers, Spans
from views.plots.scale import BOTTOM, LEFT, AxisScale
from views.theme import face, semibold

if TYPE_CHECKING:
    from views.plots.chart import Chart

Keys = NDArray[np.int64]
REACH = 12.0
"""Pixels around a mark in which the pointer means it."""
LABEL_RIGHT = 0.9
"""Part of the page left of which the name of an upright rule finds room at its right."""
PLATE = 0.8
"""Opacity of the ground behind the name of a rule."""
BOLDER = 1.06
"""Width of semibold words beside that of others."""
TITLE = 26
"""Pixels of the head of a plot."""


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
        self.axes["bottom"].setHeight(BOTTOM if x.title or x.staggered else BOTTOM // 2)
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
        """A head over the plot, with a note in grey; it takes no room where there is nothing to say."""
        if self.title is None and not text:
            return
        if self.title is None:
            # In no layout: a long note makes no plot wider than its neighbours.
            self.title = QGraphicsTextItem(self.cell)
            self.title.setPos(LEFT, 2)
        self.cell.layout.setRowFixedHeight(0, TITLE if text else 0)
        colours, metrics = self.chart.theme.colours, QFontMetricsF(face(11))
        room = self.box.sceneBoundingRect().width() - metrics.horizontalAdvance(f"{text}  ") * BOLDER
        note = metrics.elidedText(note, Qt.TextElideMode.ElideRight, room) if room > 0 else note
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

    def marks(self, name: str, x: Numbers, y: Numbers, style: MarkStyle) -> None:
        """Marks of one style; those without a finite place are left out."""
        item = self._item(name, MarkItem, 20 if style.above else 10)
        known = np.isfinite(x) & np.isfinite(y)
        places = self.values("bottom", x[known]), self.values("left", y[known])
        item.show_marks(*places, style, self.chart.theme)

    def spans(self, name: str, x: Numbers, low: Numbers, high: Numbers, token: str, width: float = 1.0) -> None:
        """Upright lines."""
        item, colour = self._item(name, Spans, 5), self.chart.theme.colour(token)
        ends = (self.values("left", side) for side in (low, high))
        item.show_spans(self.values("bottom", x), *ends, QPen(colour, width))

    def bars(self, name: str, ends: Numbers, y: Numbers, height: float, token: str, *, filled: bool) -> None:
        """Bars across from zero; hollow ones for times that were not measured."""
        colour = self.chart.theme.colour(token)
        opts = {
            "x0": np.zeros(len(ends)), "x1": ends, "y": y, "height": height,
            "pen": pg.mkPen(colour, width=1.4), "brush": pg.mkBrush(colour if filled else None),
        }  # fmt: skip
        self._item(name, lambda: pg.BarGraphItem(**opts), 8).setOpts(**opts)

    def line(self, name: str, x: Numbers, y: Numbers, token: str, width: float = 1.2, *, pairs: bool = False) -> None:
        """A line through values, broken where one is missing; pairs: of every two values one line."""
        item = self._item(name, pg.PlotDataItem, 8)
        pen = pg.mkPen(self.chart.theme.colour(token), width=width)
        item.setData(
            self.values("bottom", x), self.values("left", y), pen=pen, connect="pairs" if pairs else "finite",
            antialias=True,
        )  # fmt: skip
        # Given to the item and not to its constructor: the plot overwrites what the constructor was told.
        item.setClipToView(not pairs)
        item.setDownsampling(auto=not pairs, method="peak")

    def rule(self, name: str, value: float, token: str, text: str, place: str = ABOVE, *, dashed: bool = False) -> None:
        """A line at a value.  place: `ABOVE` or `BELOW` for a line across with its name at the right end on that side,
        one of `UPRIGHT` for one with its name there."""
        colour, item, upright = self.chart.theme.colour(token), self._items.get(name), place in UPRIGHT
        if item is None:
            item = pg.InfiniteLine(angle=90 if upright else 0, label=text)
            self._take(name, item, 6 if upright else 12)
        self._drawn.add(name)
        at = float(self.values("bottom" if upright else "left", np.array([value]))[0])
        item.setPos(at)
        item.setPen(pg.mkPen(colour, width=1.4, style=Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine))
        item.label.setFormat(text)
        item.label.setPosition(UPRIGHT.get(place, 0.995))
        low, high = self.home[0]
        # Right of its line, where the page does not end there.
        beside = 0 if at < low + LABEL_RIGHT * (high - low) else 1
        item.label.anchors = [(beside, 0.5) if upright else (1, 0 if place == BELOW else 1)] * 2
        item.label.updatePosition()
        item.label.setColor(self.chart.theme.colour("text-2") if token == "edge" else colour)
        item.label.setFont(face(10.5))
        plate = QColor(self.chart.theme.colour("panel"))
        plate.setAlphaF(PLATE)  # marks under the words stay in sight
        item.label.fill = pg.mkBrush(plate)

    def band(self, name: str, low: float, high: float, token: str) -> None:
        """A stripe across between two values."""
        item = self._items.get(name)
        if item is None:
            item = pg.LinearRegionItem(orientation="horizontal", movable=False, pen=pg.mkPen(None))
            self._take(name, item, 0)
        self._drawn.add(name)
        item.setBrush(self.chart.theme.colour(token))
        item.setRegion(tuple(self.values("left", np.array([low, high])).tolist()))

    def text(self, name: str, x: float, y: float, text: str, style: TextStyle) -> None:
        """Words at a place."""
        item = self._items.get(name)
        if item is None:
            item = pg.TextItem()
            self._take(name, item, 4 if style.under else 30)
        self._drawn.add(name)
        item.setText(text)
        item.setColor(self.chart.theme.colour(style.token))
        item.setFont(semibold(10.5) if style.strong else face(10.5))
        item.setAnchor(style.anchor)
        item.fill = pg.mkBrush(self.chart.theme.colour("panel") if style.plate else None)
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
