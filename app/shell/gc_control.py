"""Garbage collection on the window's thread only.

Python collects cycles on whichever thread happens to allocate.  A dead widget that the decoding thread collects is
destroyed on a thread that is not its own, which ends the program; so automatic collection is off while a window runs.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

INTERVAL_MS = 200
LARGE = 20_000
"""New objects between two looks that only the reading of a large document makes."""


class Collector(QObject):
    """Collects as often as the interpreter would have, from a timer of the thread that it was made on."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        gc.freeze()  # what the imports made stays anyway: not to look through it keeps the start and collections short
        gc.disable()
        timer = QTimer(self)
        timer.timeout.connect(collect)
        timer.start(INTERVAL_MS)


def collect() -> None:
    """Collects the oldest generation whose threshold is passed, with the younger ones.

    A document of a large model is a million objects without a cycle: looking through them would stop the window for
    half a second, and find nothing.  They are set aside with whatever else is alive; counting references frees them.
    """
    if gc.get_count()[0] > LARGE:
        gc.freeze()
        return
    counts = zip(gc.get_count(), gc.get_threshold(), strict=True)
    due = [generation for generation, (count, threshold) in enumerate(counts) if count > threshold]
    if due:
        gc.collect(due[-1])
