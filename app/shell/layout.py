"""Where the panels stand in each perspective."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow

from views.panel import Panel

PERSPECTIVES = {
    "Explore": ((("outline", 0.57), ("explain", 0.43)), (("graph", 1.0),), (("schedule", 0.54), ("timing", 0.46))),
    "Schedule": ((("code", 1.0),), (("schedule", 1.0),), (("constraints", 0.62), ("moves", 0.38))),
    "Pipeline": ((("code", 1.0),), (("schedule", 1.0),)),
    "Tune": ((("tuning", 0.53), ("trials", 0.47)), (("search", 0.71), ("run", 0.29))),
}
"""Perspective -> columns from left to right, each from top to bottom with its share of the height."""

WIDTHS = {"Explore": (0.258, 0.377, 0.365), "Schedule": (0.3, 0.4, 0.3), "Pipeline": (0.306, 0.694),
          "Tune": (0.64, 0.36)}  # fmt: skip
ALONG = {"Schedule": "history"}
"""Perspective -> the panel along its whole bottom."""
ALONG_HEIGHT = 132
BEHIND = {"Schedule": {"moves": "timing"}, "Tune": {"search": "trial"}}
"""Perspective -> a panel, and the one that is a tab behind it."""
BOTTOM = ("problems", "jobs")
BOTTOM_HEIGHT = 132


class Dock(QDockWidget):
    """A panel in a dock; the panel's header is the dock's title bar."""

    def __init__(self, panel: Panel) -> None:
        super().__init__(panel.title.text())
        self.setObjectName(f"dock-{panel.objectName()}")
        self.setTitleBarWidget(panel.header)
        self.setWidget(panel)
        self.setFeatures(
            QDockWidget.DockWidgetFeature.DockWidgetMovable
            | QDockWidget.DockWidgetFeature.DockWidgetFloatable
            | QDockWidget.DockWidgetFeature.DockWidgetClosable
        )


def arrange(window: QMainWindow, docks: Mapping[str, Dock], perspective: str) -> None:
    """Puts the docks of a perspective in their places and hides the others."""
    for dock in docks.values():
        window.removeDockWidget(dock)
    columns = PERSPECTIVES[perspective]
    heads = [docks[column[0][0]] for column in columns]
    window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, heads[0])
    for left, right in pairwise(heads):
        window.splitDockWidget(left, right, Qt.Orientation.Horizontal)
    for column in columns:
        for (upper, _), (lower, _) in pairwise(column):
            window.splitDockWidget(docks[upper], docks[lower], Qt.Orientation.Vertical)
        for name, _ in column:
            docks[name].show()
    behind = BEHIND.get(perspective, {})
    for front, back in behind.items():
        window.tabifyDockWidget(docks[front], docks[back])
        docks[back].show()
        docks[front].raise_()
    along = docks.get(ALONG.get(perspective, ""))
    if along is not None:
        window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, along)
        window.splitDockWidget(along, docks[BOTTOM[0]], Qt.Orientation.Vertical)
        along.show()
    else:
        window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, docks[BOTTOM[0]])
    window.splitDockWidget(docks[BOTTOM[0]], docks[BOTTOM[1]], Qt.Orientation.Horizontal)
    placed = {name for column in columns for name, _ in column} | {*behind.values(), ALONG.get(perspective, "")}
    absent = docks.keys() - placed
    for name in sorted(absent):
        # A dock without a place would be shown by `restoreState`, so what is absent stands hidden at the bottom.
        if name not in BOTTOM:
            window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, docks[name])
        docks[name].hide()
    proportion(window, docks, perspective)


def proportion_bottom(window: QMainWindow, docks: Mapping[str, Dock]) -> None:
    """Gives problems more room than jobs, and both little height."""
    shown = [docks[name] for name in BOTTOM if docks[name].isVisible()]
    shares = {"problems": 0.62, "jobs": 0.38}
    widths = [round(window.width() * shares[name]) for name in BOTTOM if docks[name].isVisible()]
    window.resizeDocks(shown, widths, Qt.Orientation.Horizontal)
    window.resizeDocks(shown, [BOTTOM_HEIGHT] * len(shown), Qt.Orientation.Vertical)


def proportion(window: QMainWindow, docks: Mapping[str, Dock], perspective: str) -> None:
    """Gives every dock its share of the window."""
    columns = PERSPECTIVES[perspective]
    heads = [docks[column[0][0]] for column in columns]
    widths = [round(window.width() * part) for part in WIDTHS[perspective]]
    window.resizeDocks(heads, widths, Qt.Orientation.Horizontal)
    for column in columns:
        inside = [docks[name] for name, _ in column]
        heights = [round(window.height() * part) for _, part in column]
        window.resizeDocks(inside, heights, Qt.Orientation.Vertical)
    along = docks.get(ALONG.get(perspective, ""))
    if along is not None:
        window.resizeDocks([along], [ALONG_HEIGHT], Qt.Orientation.Vertical)
