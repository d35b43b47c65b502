"""The import of charts, which loads pyqtgraph: a thread does it beside the event loop, and who shows a plot waits."""

from __future__ import annotations

from importlib import import_module
from threading import Event

MODULE = "views.plots.chart"
_coming = Event()


def expect_charts(is_coming: bool = True) -> None:
    """Says that `import_charts` will be called, or that it will not."""
    (_coming.set if is_coming else _coming.clear)()


def import_charts() -> None:
    """Imports the module; a thread's work, for it takes a third of a second."""
    _coming.set()
    try:
        import_module(MODULE)
    finally:
        _coming.clear()


def are_charts_coming() -> bool:
    """Whether a thread imports the module, or will: who imports it as well stands still until that has ended."""
    return _coming.is_set()


def have_charts() -> None:
    """Waits for the import, where a thread is at it: for a picture, which cannot be drawn again later."""
    if _coming.is_set():
        import_module(MODULE)
        _coming.clear()
