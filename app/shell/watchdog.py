"""How long the window ever stood still: the longest gap between ticks of its event loop.

Time that the thread was ready to run while the machine ran something else is not counted: on Linux the scheduler's
account of it (`/proc/thread-self/schedstat`, second field, nanoseconds) is taken off.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from PySide6.QtCore import QObject, Qt, QTimer

TICK_MS = 5
SCHEDULER = Path("/proc/thread-self/schedstat")


class Watchdog(QObject):
    """Ticks as often as the event loop lets it and remembers the longest gap."""

    def __init__(self) -> None:
        super().__init__()
        self._timer = QTimer(self, interval=TICK_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        self._last = own_time()
        self._longest = 0.0

    @property
    def longest_ms(self) -> float:
        """Milliseconds of the longest gap since `start`."""
        return self._longest * 1000

    def start(self) -> None:
        """Begins to watch, or begins again."""
        self._last = own_time()
        self._longest = 0.0
        self._timer.start()

    def stop(self) -> None:
        """Ends the watch; the longest gap stays readable."""
        self._tick()
        self._timer.stop()

    def _tick(self) -> None:
        now = own_time()
        self._longest = max(self._longest, now - self._last)
        self._last = now


def own_time() -> float:
    """Seconds on a clock that stands while this thread waits for a processor."""
    now = perf_counter()
    try:
        return now - int(SCHEDULER.read_text(encoding="ascii").split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        return now
