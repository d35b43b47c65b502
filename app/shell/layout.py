"""Puts the panels where their declarations say, in each perspective."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from PySide6.QtCore import Qt
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
