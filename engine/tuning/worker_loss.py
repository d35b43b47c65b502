"""Outage of a cluster that has lost all workers: its scheduler keeps the tasks, which then never finish.

The run tells the user, waits for new workers up to a limit and resubmits its programs; without new workers it ends and
can be resumed.  Stop requests and the time limit are honoured while it waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.records.nodes import RUNNING
from engine.records.runs import RunLog
from engine.support.errors import MissingCapability
from engine.tuning.control import LOOK, RunControl
from engine.tuning.executors import Workers

ASK = 1.0
"""Seconds between polls for workers."""
BACK = "workers are back: what was under way goes to them"
RESUME = "bring workers back and go on with --resume: every finished trial is kept"


class Outage:
    """Detects that there are no workers, and waits for new ones."""

    def __init__(self, workers: Workers, log: RunLog, control: RunControl, tell: Callable[[str], None]) -> None:
        """tell: called with a message for the terminal."""
        self._workers, self._log, self._control, self._tell = workers, log, control, tell
        self._asked = time.monotonic()

    def is_over(self) -> bool:
        """False while workers are there; else waits, and True once there are some again: they know nothing.

        False as well where the run is to end meanwhile.  Raises MissingCapability where none came in time.
        """
        if self._workers.is_staffed is None or time.monotonic() - self._asked < ASK or self._look():
            return False
        return self._wait()

    def has_workers(self) -> bool:
        """True once workers are there, at once where they are; False where the run is to end before.

        Raises MissingCapability where none came in time, and where all are gone for good.
        """
        if self._workers.is_staffed is None:
            raise MissingCapability("tune", "the workers", "are gone, with all that was under way", RESUME)
        return self._look() or self._wait()

    def _wait(self) -> bool:
        reason = f"no worker is left: waiting {self._workers.patience:g} s for one"
        self._tell(reason)
        self._log.set_state(RUNNING, reason)
        end, was_late = time.monotonic() + self._workers.patience, self._control.is_late()
        while time.monotonic() < end:
            if self._control.is_stopped() or (self._control.is_late() and not was_late):
                return False
            if time.monotonic() - self._asked >= ASK and self._look():
                self._tell(BACK)
                self._log.set_state(RUNNING)
                return True
            time.sleep(LOOK)
        reason = f"are gone, and none came back within {self._workers.patience:g} s"
        raise MissingCapability("tune", "the workers", reason, RESUME)

    def _look(self) -> bool:
        assert self._workers.is_staffed is not None
        self._asked = time.monotonic()
        return self._workers.is_staffed()
