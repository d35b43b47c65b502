"""What nothing needs before a model is open, imported beside the event loop.

PySide6 makes each of its types when it is first asked for, and pyqtgraph asks for all of them while it is imported.
Two threads that make types at once end the program: shiboken takes one out of a table that the other walks through.
So the event loop makes them, some at a time, and the thread that imports starts when all are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from threading import Thread
from time import perf_counter

from PySide6 import QtCore, QtGui, QtWidgets
from PySide6.QtCore import QObject, QTimer

from views.plots.chart_import import expect_charts, import_charts

FIRST_MS = 50
"""Until then the window is on the screen."""
SLICE = 0.01
"""Seconds of making types between two looks at other events."""


class LaterImports(QObject):
    """Types on the thread that this was made on, then modules on one of their own; none of it makes widgets."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._types = make_types()
        self._thread = Thread(target=_import_all, name="imports")
        self._turns = QTimer(self)
        self._turns.timeout.connect(self._make_some)

    def start(self) -> None:
        """To be called once there is an event loop."""
        expect_charts()
        self._turns.start(FIRST_MS)

    @property
    def is_over(self) -> bool:
        """Whether all is imported."""
        return self._thread.ident is not None and not self._thread.is_alive()

    def end(self) -> None:
        """Begins nothing more, and waits for what is under way."""
        self._turns.stop()
        if self._thread.is_alive():
            self._thread.join()
        expect_charts(False)

    def _make_some(self) -> None:
        self._turns.setInterval(0)
        until = perf_counter() + SLICE
        for _ in self._types:
            if perf_counter() > until:
                return
        self._turns.stop()
        self._thread.start()


def make_types() -> Iterator[str]:
    """Makes every type of the modules that pyqtgraph copies, and tells the name of each."""
    for module in (QtCore, QtGui, QtWidgets):
        for name in dir(module):
            getattr(module, name)
            yield name


def _import_all() -> None:
    import_charts()
    import_module("engine.explore.what_if")
