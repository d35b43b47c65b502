"""A plot as a widget: made when it is first shown, zoomed by keys, read off by the pointer, saved from its menu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QContextMenuEvent, QFocusEvent, QKeyEvent, QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QMenu, QWidget

from views.plots.chart_import import are_charts_coming
from views.plots.writing import Cells, csv_of, png_of, save_as, svg_of
from views.theme import Theme
from views.themed import Themed
from views.themed_painter import ThemedPainter

if TYPE_CHECKING:  # pyqtgraph takes half a second to load, which the window's start does not pay
    from views.plots.chart import Chart
    from views.plots.plot import Keys, Plot

ZOOM = 0.8
"""Part of the range that a key leaves."""
NONE = -1
LOOK_MS = 20
"""Milliseconds between two looks whether charts can be made."""
HINT = "Wheel zooms, drag pans, Ctrl+drag zooms to a rectangle, Shift+drag selects; L: logarithmic, 0: all"


class PlotFrame(QWidget, Themed):
    """What all plots share.  A subclass draws its data, names its points and says what is selected."""

    scale_changed = Signal()
    """An axis is logarithmic now, or no longer."""
    log_axes: tuple[str, ...] = ()
    """Those that may be logarithmic: "x", "y"."""
    nothing = ""
    """What a plot without data says."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumHeight(96)
        self.chart: Chart | None = None
        self.log: set[str] = set()
        self.hovered = NONE
        self._is_stale = False
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(0)
        self._soon.timeout.connect(self.flush)
        self._later = QTimer(self, singleShot=True, interval=LOOK_MS)
        self._later.timeout.connect(self.flush)

    def has_data(self) -> bool:
        """Whether there is anything to draw: until then no plot is made."""
        raise NotImplementedError

    def draw(self, chart: Chart) -> None:
        """Draws everything anew; items keep their names."""
        raise NotImplementedError

    def describe(self, key: int) -> str:
        """A point in words."""
        return ""

    def choose(self, keys: Keys) -> None:
        """A click near points that share a spot."""

    def keep(self, plot: Plot, region: QRectF) -> None:
        """A region was drawn on the axes of a plot."""

    def table(self) -> tuple[Sequence[str], Cells]:
        """Heads and rows of what is shown, for a file."""
        return (), ()

    @property
    def logs(self) -> tuple[bool, bool]:
        """Whether x and y are logarithmic."""
        return "x" in self.log, "y" in self.log

    def refresh(self) -> None:
        """The data have changed: draws them once the present event is done, where they can be seen."""
        self._is_stale = True
        if self.isVisible():
            self._soon.start()

    def flush(self) -> None:
        """Draws now what has changed."""
        if not self._is_stale or self.theme is None or not (self.chart or self.has_data()):
            return
        self.make_chart()
        chart = self.chart
        if chart is None:
            self._later.start()
            return
        self._is_stale = False
        chart.setVisible(self.has_data())
        if self.has_data():
            before = set(chart.plots)
            self._draw_all(chart)
            if set(chart.plots) != before:  # names are placed by the room that each plot has beside the others
                chart.ci.layout.activate()
                self._draw_all(chart)

    def _draw_all(self, chart: Chart) -> None:
        self.draw(chart)
        for plot in chart.plots.values():
            plot.finish()

    def make_chart(self) -> None:
        """Makes what is drawn on, unless its import goes on; made before there are data, these are drawn sooner."""
        if self.chart is not None or self.theme is None or are_charts_coming():
            return
        from views.plots.chart import Chart

        self.chart = made = Chart(self.theme)
        made.setParent(self)
        made.show_theme(self.theme)
        made.setFocusProxy(self)
        made.setGeometry(self.rect())
        made.setToolTip("")
        made.viewport().setStatusTip(HINT)
        made.hovered.connect(self._on_hover)
        made.clicked.connect(lambda plot, at: self.choose(plot.near(at)))
        made.region_drawn.connect(self.keep)
        made.menu_requested.connect(lambda at: self.make_menu().popup(QPointF(at).toPoint()))
        made.setVisible(self.has_data())
        if not self.isVisible():
            made.grab()  # takes its size now: Qt would leave that until it is on a screen

    def show_theme(self, theme: Theme) -> None:
        """Draws with other colours."""
        if self.chart is not None:
            self.chart.show_theme(theme)
        self.refresh()

    def set_log(self, axis: str, on: bool) -> None:
        """Makes "x" or "y" logarithmic, and shows everything."""
        self.log = self.log | {axis} if on else self.log - {axis}
        if self.chart is not None:
            self.chart.is_held = False
        self.refresh()
        self.scale_changed.emit()

    def reset_view(self) -> None:
        """Shows everything."""
        if self.chart is not None:
            self.chart.go_home()

    def make_menu(self) -> QMenu:
        """What can be done with the plot."""
        menu = QMenu(self)
        menu.addAction("Show everything\t0", self.reset_view)
        for axis in self.log_axes:
            action = QAction(f"Logarithmic {axis}", menu, checkable=True, checked=axis in self.log)
            action.toggled.connect(lambda on, axis=axis: self.set_log(axis, on))
            menu.addAction(action)
        menu.addSeparator()
        title = self.accessibleName()
        menu.addAction("Save as PNG…", lambda: save_as(self, title, "png", lambda: png_of(self)))
        menu.addAction("Save as SVG…", lambda: save_as(self, title, "svg", lambda: svg_of(self)))
        if self.table()[0]:
            menu.addAction("Save as CSV…", lambda: save_as(self, title, "csv", lambda: csv_of(*self.table())))
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        return menu

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The plot fills the widget."""
        super().resizeEvent(event)
        if self.chart is not None:
            self.chart.setGeometry(self.rect())
        self._is_stale = True  # names and strips depend on the room that there is
        self.flush()

    def showEvent(self, event: QShowEvent) -> None:
        """Draws what came while nobody saw it."""
        super().showEvent(event)
        self.flush()

    def paintEvent(self, event: QPaintEvent) -> None:
        """A picture may be taken of a plot that is not on a screen; one without data says why it has none."""
        self.flush()
        if self.nothing and self.theme is not None and not self.has_data():
            inside = QRectF(self.rect()).adjusted(24, 24, -24, -24)
            ThemedPainter(self, self.theme).words(inside, self.nothing, "text-3")

    def focusInEvent(self, event: QFocusEvent) -> None:
        """The focus shows at the selected point."""
        super().focusInEvent(event)
        self.refresh()

    focusOutEvent = focusInEvent

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Plus and minus zoom, 0 shows everything, L makes the upright axis logarithmic."""
        key = event.text()
        if key == "l" and "y" in self.log_axes:
            self.set_log("y", "y" not in self.log)
        elif self.chart is not None and key in ("+", "=", "-"):
            self.chart.zoom(1 / ZOOM if key == "-" else ZOOM)
        elif key == "0":
            self.reset_view()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """By its key; the right button may begin a drag that zooms, and opens the menu when it did not."""
        if event.reason() == QContextMenuEvent.Reason.Keyboard:
            self.make_menu().popup(self.mapToGlobal(QPoint(self.width() // 3, self.height() // 3)))

    def _on_hover(self, plot: Plot | None, at: QPointF | None) -> None:
        """The values under the pointer, and what is near it."""
        chart = self.chart
        if chart is None:
            return
        if plot is None or at is None:
            chart.tell("")
            self.point_at(NONE)
            return
        keys = plot.near(at)
        x, y = plot.read(at)
        said = "   ".join(filter(None, (plot.axes[side].say(value) for side, value in (("bottom", x), ("left", y)))))
        key = self.pick(keys) if len(keys) else NONE
        chart.tell("\n".join(filter(None, (said, self.describe(key) if key != NONE else ""))))
        self.point_at(key)

    def pick(self, keys: Keys) -> int:
        """Which of some points on one spot is meant."""
        return int(keys[0])

    def point_at(self, key: int) -> None:
        """Another point is under the pointer."""
        if key != self.hovered:
            self.hovered = key
            if self.chart is not None:
                shape = Qt.CursorShape.PointingHandCursor if key != NONE else Qt.CursorShape.ArrowCursor
                self.chart.viewport().setCursor(shape)


def place_of(keys: np.ndarray, key: int) -> int:
    """Where a key stands among some; `NONE` where it does not."""
    found = np.flatnonzero(keys == key)
    return int(found[0]) if len(found) else NONE
