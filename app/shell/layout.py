"""Puts the panels where their declarations say, in each perspective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QDockWidget, QMainWindow, QStyle, QTabBar, QToolBar

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


def _arrange_bottom(window: QMainWindow, docks: Docks, perspective: str) -> None:
    """Below the columns what stands along the edge, below it the strip; the strip and what is absent are hidden."""
    along = [dock for dock, _ in _along(docks, perspective)]
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


class Proportions(QObject):
    """Keeps the parts that docks have of the room for them: columns grow with it, what stands along its lower edge
    keeps its height.  Qt by itself gives what comes to the lowest of them, and takes what goes from all alike.

    The room changes with the window, with news above the docks and with the strip below them.
    """

    def __init__(self, window: QMainWindow, docks: Docks, perspective: Callable[[], str]) -> None:
        super().__init__(window)
        self._window, self._docks, self._perspective = window, docks, perspective
        self._sizes: dict[str, dict[Dock, tuple[float, float]]] = {}
        """Perspective -> dock -> its part of the window's width, and its height as arranged last."""
        self._arranged: tuple[str, int, int] = ("", 0, 0)
        """Perspective, width and height of the room, as docks were given their parts last."""
        self._is_giving = False
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._follow)
        for watched in (window, *docks.values()):
            watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Whatever resized docks, it is looked at once all of them have their places."""
        if event.type() == QEvent.Type.Resize and not self._is_giving:
            self._soon.start()
        return False

    def declare(self, perspective: str) -> None:
        """Gives docks the parts that their declarations say."""
        sizes = self._sizes[perspective] = {}
        for column, width in zip(_columns(self._docks, perspective), PERSPECTIVES[perspective], strict=True):
            sizes.update((dock, (width, part)) for dock, part in column)
        sizes.update((dock, (1.0, height)) for dock, height in _along(self._docks, perspective))
        self._give()

    def forget(self) -> None:
        """What is arranged now, from an earlier time, is as a person wants it."""
        self._sizes.pop(self._perspective(), None)
        self._arranged = ("", 0, 0)

    def _follow(self) -> None:
        """In a room that has changed docks take the parts that they had; else somebody has given them others."""
        known = self._perspective() in self._sizes
        if known and self._arranged != self._state():
            self._give()
        elif self._window.isVisible():
            sizes = self._sizes.setdefault(self._perspective(), {})
            for dock in self._docks.values():
                sizes[dock] = dock.width() / self._window.width(), _height(self._window, dock)
            self._arranged = self._state()

    def _state(self) -> tuple[str, int, int]:
        return self._perspective(), self._window.width(), self._room()

    def _room(self) -> int:
        """Height of the room for the docks of a perspective: what bars and the strip leave of the window."""
        bars = [bar for bar in self._window.findChildren(QToolBar) if bar.isVisible() and not bar.isFloating()]
        top = max((bar.geometry().bottom() + 1 for bar in bars), default=0)
        strip = [self._docks[info.name] for info in PANELS if info.strip]
        shown = [dock.height() + self._gap for dock in strip if _is_docked(dock)]
        return self._window.statusBar().geometry().top() - top - max(shown, default=0)

    @property
    def _gap(self) -> int:
        """Pixels between two docks."""
        return self._window.style().pixelMetric(QStyle.PixelMetric.PM_DockWidgetSeparatorExtent, None, self._window)

    def _give(self) -> None:
        """Gives all docks their parts, where they stand as the perspective has them.

        Columns and what is below them get all of the room, to the pixel: Qt would deal out the difference.
        """
        self._is_giving = True
        self._give_all(self._sizes[self._perspective()])
        layout = self._window.layout()
        assert layout is not None
        layout.activate()  # else docks are resized later, which looks as if somebody had done it
        self._arranged = self._state()
        self._is_giving = False

    def _give_all(self, sizes: Mapping[Dock, tuple[float, float]]) -> None:
        window, perspective = self._window, self._perspective()
        declared = ([dock for dock, _ in column] for column in _columns(self._docks, perspective))
        seen = ([dock for dock in column if dock in sizes and _is_docked(dock)] for column in declared)
        columns = [column for column in seen if column]
        if {window.dockWidgetArea(dock) for column in columns for dock in column} != {LEFT}:
            return
        _resize(window, [(column[0], sizes[column[0]][0] * window.width()) for column in columns], ACROSS)
        along = [dock for dock, _ in _along(self._docks, perspective) if dock in sizes and _is_docked(dock)]
        room = self._room() - sum(round(sizes[dock][1]) + self._gap for dock in along)
        for column in columns:
            left = max(room - self._gap * (len(column) - 1), len(column))
            whole = sum(sizes[dock][1] for dock in column)
            heights = [round(sizes[dock][1] / whole * left) for dock in column[1:]]
            _resize(window, list(zip(column, [left - sum(heights), *heights], strict=True)), DOWN)
        _resize(window, [(dock, sizes[dock][1]) for dock in along], DOWN)


def _is_docked(dock: Dock) -> bool:
    return not dock.isHidden() and not dock.isFloating()


def _height(window: QMainWindow, dock: Dock) -> int:
    """Height of a dock with the tabs below it, which Qt counts in where it deals out room."""
    if all(other.isHidden() for other in window.tabifiedDockWidgets(dock)):
        return dock.height()
    direct = Qt.FindChildOption.FindDirectChildrenOnly
    tabs = [bar.height() for bar in window.findChildren(QTabBar, options=direct) if bar.isVisible()]
    return dock.height() + max(tabs, default=0)


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


def _along(docks: Docks, perspective: str) -> list[tuple[Dock, int]]:
    """What stands along the lower edge in a perspective, with its height in pixels."""
    places = ((docks[info.name], info.places.get(perspective)) for info in PANELS)
    return [(dock, place.height) for dock, place in places if isinstance(place, Bottom)]
