"""What a person wishes of a run while it works, its signs of life, and its time."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from types import TracebackType

from engine.records.nodes import GO, PAUSE, PAUSED, RUNNING, STOP
from engine.records.runs import Pulse, RunLog
from engine.support.errors import EngineError

Clock = Callable[[], float]
LOOK = 0.02
"""Seconds between looks at the wishes."""


class RunControl:
    """Follows the wishes for a run and tells that it lives, from a thread: a trial may take longer than silence may."""

    def __init__(self, log: RunLog, minutes: float = math.inf, spent: float = 0.0, clock: Clock = time.monotonic):
        """spent: seconds of the run before this process took it over."""
        self._log, self._clock = log, clock
        self._started, self._spent = clock(), spent
        self._end = self._started + 60 * minutes
        self._wish = GO
        self.was_interrupted = False
        """Whether the run is to end as one that is broken off; a signal's handler may set it at any moment."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="signs of life", daemon=True)

    def __enter__(self) -> RunControl:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        """Of the run, without pauses."""
        return self._spent + self._clock() - self._started

    def is_stopped(self) -> bool:
        """Whether a person wants the run to end; returns only once nobody wishes for a pause."""
        if self._wish == PAUSE and not self.was_interrupted:
            self._pause()
        return self._wish == STOP or self.was_interrupted

    def is_late(self) -> bool:
        """Whether its time is up."""
        return self._clock() >= self._end

    def _pause(self) -> None:
        """Wait, and let the clock stand still."""
        began = self._clock()
        self._log.set_state(PAUSED)
        while self._wish == PAUSE and not self.was_interrupted:
            time.sleep(LOOK)
        self._started += self._clock() - began
        self._end += self._clock() - began
        self._log.set_state(RUNNING)

    def _follow(self) -> None:
        """Listen and give signs of life until the run is over.

        A file that cannot be written now is no reason to end: whoever keeps the next trial finds out and says so.
        """
        with Pulse(self._log.store.path, self._log.number) as pulse:
            while not self._is_over.wait(LOOK):
                with contextlib.suppress(EngineError):
                    self._wish = pulse.beat()
