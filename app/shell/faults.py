"""Exceptions in slots and events of the window: one line and a report file each, and the window goes on.

PySide6 hands an exception that leaves a slot or an event of Qt to `sys.excepthook`, which prints it.  Edits are in the
journal before anything is shown of them, so that none is lost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import clear_frames, extract_tb
from types import TracebackType

from PySide6.QtCore import QTimer

from engine.support.fault import as_engine_error
from views.notice import News, Notice

TITLE = "Something went wrong"
CONTEXT = "open: a slot or an event of the window"


@contextmanager
def report_faults(notice: Notice) -> Iterator[None]:
    """While it is open, an exception that nobody handles becomes news and a line on standard error.

    A fault at a place that was told of before stays silent: an event that paints would repeat it at every frame.
    """
    before = sys.excepthook
    told: set[tuple[str, str, int | None]] = set()

    def report(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if not isinstance(error, Exception):
            before(kind, error, traceback)
            return
        frames = extract_tb(traceback)
        place = (kind.__name__, frames[-1].filename, frames[-1].lineno) if frames else (kind.__name__, "", None)
        if place not in told:
            told.add(place)
            failed = as_engine_error(error, CONTEXT)
            detail = f"{failed.subject}: {failed.reason}; {failed.hint}"
            if sys.stderr is not None:
                print(detail, file=sys.stderr)
            # Not at once: a widget that is being painted must not change the layout around it.
            QTimer.singleShot(0, notice, lambda: notice.show_news(News(TITLE, f"{detail}. Your edits are kept.")))
        _release(traceback)

    sys.excepthook = report
    try:
        yield
    finally:
        sys.excepthook = before


def _release(traceback: TracebackType | None) -> None:
    """Lets go of what the frames hold: a painter that outlives its event ends the program."""
    clear_frames(traceback)
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
