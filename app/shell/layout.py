"""Puts the panels where their declarations say, in each perspective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QDockWidget, QMainWindow

from app.shell.panels import PANELS, PERSPECTIVES, Behind, Bottom, Column
from views.panel import Panel

STRIP_HEIGHT = 132
LEFT, BOTTOM = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.BottomDockWidgetArea
ACROSS, DOWN = Qt.Orientation.Horizontal, Qt.Orientation.Vertical


class Dock(QDockWidget):
    """A panel in a dock; the panel's header is the dock's title bar."""

    def __init__(self, panel: Panel) -> None:
        super().__init__(panel.title.text())
        self.setObjectName(f"dock-{panel.objectName()}")
        self.setTitleBarWidget(panel.header)
        self.setWidget(panel)


Docks = Mapping[str, Dock]


def arrange(window: QMainWindow, docks: Docks, perspective: str) -> None:
    """Puts the docks of a perspective in their places and hides the others."""
    for dock in docks.values():
        window.removeDockWidget(dock)  # else splits and tabs of the perspective before remain
    columns = _columns(docks, perspective)
    heads = [column[0][0] for column in columns]
    window.addDockWidget(LEFT, heads[0])
    for left, right in pairwise(heads):
        window.splitDockWidget(left, right, ACROSS)
    for column in columns:
        for (upper, _), (lower, _) in pairwise(column):
            window.splitDockWidget(upper, lower, DOWN)
        for dock, _ in column:
            dock.show()
    for info in PANELS:
        place = info.places.get(perspective)
        if isinstance(place, Behind):
            window.tabifyDockWidget(docks[place.front], docks[info.name])
            docks[info.name].show()
            docks[place.front].raise_()
    _arrange_bottom(window, docks, perspective)
    proportion(window, docks, perspective)


def _arrange_bottom(window: QMainWindow, docks: Docks, perspective: str) -> None:
    """Below the columns what stands along the edge, below it the strip; the strip and what is absent are hidden."""
    along = [docks[info.name] for info in PANELS if isinstance(info.places.get(perspective), Bottom)]
    strip = [docks[info.name] for info in PANELS if info.strip]
    window.addDockWidget(BOTTOM, [*along, *strip][0])
    for upper, lower in pairwise([*along, strip[0]]):
        window.splitDockWidget(upper, lower, DOWN)
    for left, right in pairwise(strip):
        window.splitDockWidget(left, right, ACROSS)
    for dock in along:
        dock.show()
    for info in PANELS:
        dock = docks[info.name]
        if perspective not in info.places:
            # A dock without a place would be shown by `restoreState`, so what is absent stands hidden at the bottom.
            if dock not in strip:
                window.addDockWidget(BOTTOM, dock)
            dock.hide()


def proportion_strip(window: QMainWindow, docks: Docks) -> None:
    """Divides the strip at the bottom among its panels in sight, and gives them little height."""
    shown = [(docks[info.name], info.strip) for info in PANELS if info.strip and docks[info.name].isVisible()]
    _resize(window, [(dock, window.width() * share) for dock, share in shown], ACROSS)
    _resize(window, [(dock, STRIP_HEIGHT) for dock, _ in shown], DOWN)


def proportion(window: QMainWindow, docks: Docks, perspective: str) -> None:
    """Gives every dock its share of the window."""
    columns = _columns(docks, perspective)
    heads = [column[0][0] for column in columns]
    widths = [window.width() * part for part in PERSPECTIVES[perspective]]
    _resize(window, list(zip(heads, widths, strict=True)), ACROSS)
    for column in columns:
        _resize(window, [(dock, window.height() * part) for dock, part in column], DOWN)
    for info in PANELS:
        place = info.places.get(perspective)
        if isinstance(place, Bottom):
            _resize(window, [(docks[info.name], place.height)], DOWN)


class Proportions(QObject):
    """Keeps the parts that docks have of a window while it is resized: columns grow with it, what stands along its
    lower edge keeps its height.  Qt by itself gives what comes to any of them.
    """

    def __init__(self, window: QMainWindow, docks: Docks, perspective: Callable[[], str]) -> None:
        super().__init__(window)
        self._window, self._docks, self._perspective = window, docks, perspective
        self._size = window.size()
        self._sizes: dict[str, dict[QObject, tuple[float, int, int]]] = {}
        """Perspective -> dock -> its part of the window's width, its height and the window's, as arranged last."""
        self._is_arranging = False
        """Whether docks are resized by what is here, or will be in a moment."""
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._end)
        for watched in (window, *docks.values()):
            watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """A dock that is resized in a window that is not was arranged: by a person, or by a perspective."""
        if event.type() == QEvent.Type.Resize:
            if watched is self._window:
                self._size = self._window.size()
                self.keep()
            elif self._window.size() == self._size and not self._is_arranging and isinstance(watched, Dock):
                arranged = watched.width() / self._size.width(), watched.height(), self._size.height()
                self._sizes.setdefault(self._perspective(), {})[watched] = arranged
        return False

    def keep(self) -> None:
        """What is arranged next, perhaps as it was in a window of another size, takes the parts that it had."""
        self._is_arranging = True
        self._soon.start()

    def _end(self) -> None:
        self._restore()
        self._is_arranging = False

    def _restore(self) -> None:
        """Gives all docks their parts again, where they stand as the perspective has them."""
        perspective, width, height = self._perspective(), self._window.width(), self._window.height()
        sizes = self._sizes.get(perspective, {})
        columns = [[dock for dock, _ in column] for column in _columns(self._docks, perspective)]
        standing = [dock for column in columns for dock in column]
        if not all(dock in sizes and dock.isVisible() and not dock.isFloating() for dock in standing):
            return
        if {self._window.dockWidgetArea(dock) for dock in standing} != {LEFT}:
            return
        _resize(self._window, [(column[0], sizes[column[0]][0] * width) for column in columns], ACROSS)
        for column in columns:
            whole, before = sum(sizes[dock][1] for dock in column), sizes[column[0]][2]
            grown = 1 + (height - before) / max(whole, 1)
            _resize(self._window, [(dock, sizes[dock][1] * grown) for dock in column], DOWN)
        along = (self._docks[info.name] for info in PANELS if isinstance(info.places.get(perspective), Bottom))
        for dock in along:
            if dock in sizes and dock.isVisible() and not dock.isFloating():
                _resize(self._window, [(dock, sizes[dock][1])], DOWN)


def _resize(window: QMainWindow, sizes: list[tuple[Dock, float]], orientation: Qt.Orientation) -> None:
    window.resizeDocks([dock for dock, _ in sizes], [round(size) for _, size in sizes], orientation)


def _columns(docks: Docks, perspective: str) -> list[list[tuple[Dock, float]]]:
    """The columns of a perspective from left to right, each from top to bottom with its parts of the height."""
    columns: list[list[tuple[Dock, float]]] = [[] for _ in PERSPECTIVES[perspective]]
    for info in PANELS:
        place = info.places.get(perspective)
        if isinstance(place, Column):
            columns[place.number].append((docks[info.name], place.height))
    return columns
