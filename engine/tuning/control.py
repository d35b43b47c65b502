"""Control of a running search: pause and stop requests, heartbeats, and its time limit."""

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
"""Seconds between polls of the requests."""


class RunControl:
    """Polls the requests to a run and writes heartbeats, from a thread: one trial may take longer than `SILENCE`."""

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
        """Whether the run is to stop.  Blocks while it is paused."""
        if self._wish == PAUSE and not self.was_interrupted:
            self._pause()
        return self._wish == STOP or self.was_interrupted

    def is_late(self) -> bool:
        """Whether its time is up."""
        return self._clock() >= self._end

    def _pause(self) -> None:
        """Wait until the pause ends; it does not count as time of the run."""
        began = self._clock()
        self._log.set_state(PAUSED)
        while self._wish == PAUSE and not self.was_interrupted:
            time.sleep(LOOK)
        self._started += self._clock() - began
        self._end += self._clock() - began
        self._log.set_state(RUNNING)

    def _follow(self) -> None:
        """Poll requests and write heartbeats until the run is over.

        Errors of the file are ignored here: the next trial that is kept raises them in the main thread.
        """
        with Pulse(self._log.store.path, self._log.number) as pulse:
            while not self._is_over.wait(LOOK):
                with contextlib.suppress(EngineError):
                    self._wish = pulse.beat()
