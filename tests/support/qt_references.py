"""Prints which references the installed PySide6 loses in 200 calls; run as a script, it needs PySide6 alone.

PySide6 6.12.0 releases True at each `Signal.emit` and None at each method without a result.  Python 3.11 counts the
references of both and aborts when none is left; from 3.12 they are immortal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

CALLS = 200
SLACK = 50
"""References that may come and go on their own, as in caches."""


def lost_references() -> dict[str, int]:
    """Call -> how many references it released that it did not take; empty if all is well."""
    from PySide6.QtCore import QObject, Signal
    from PySide6.QtWidgets import QApplication, QWidget

    class Sender(QObject):
        sent = Signal(object)

    application = QApplication.instance() or QApplication([])
    sender, widget, payload = Sender(), QWidget(), object()
    sender.sent.connect(lambda value: None)
    spare = [[value] * (100 * CALLS) for value in (True, False, None)]  # so that a loss is counted, and no abort
    calls: dict[str, Callable[[], object]] = {
        "emit": lambda: sender.sent.emit(payload), "setEnabled": lambda: widget.setEnabled(True),
        "isVisible": lambda: widget.isVisible(), "setProperty": lambda: widget.setProperty("name", payload),
        "processEvents": lambda: application.processEvents(),
    }  # fmt: skip
    lost = {}
    for name, call in calls.items():
        call()
        before = count(payload)
        for _ in range(CALLS):
            call()
        change = max((after - each for after, each in zip(count(payload), before, strict=True)), key=abs)
        if abs(change) > SLACK:
            lost[name] = -change
    del spare
    return lost


def count(payload: object) -> tuple[int, ...]:
    """References to what Qt hands over and back; immortal values have the same number at all times."""
    return tuple(map(sys.getrefcount, (True, False, None, payload)))


if __name__ == "__main__":
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    print(lost_references())
    sys.stdout.flush()
    os._exit(0)
