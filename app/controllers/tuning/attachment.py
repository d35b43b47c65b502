"""Polls a file of tuning records on a thread and reports what is new on the window's thread."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.controllers.tuning.follower import Follower, RunUpdate
from app.session.background import Background, Result
from engine.documents.model import ProblemDoc
from engine.records.nodes import STOPPED
from engine.records.reader import RunReader
from engine.records.runs import RunLog, ask
from engine.records.store import RecordStore
from engine.support.errors import BadInput

LOOK_MS = 100
ANSWER_MS = 20
"""Between two looks while a request waits for the run's state to change."""
BREATH_MS = 10
"""Between two looks while more waits: decoding takes the interpreter from the window's thread, which has to paint."""
SWITCH_SECONDS, USUAL_SECONDS = 0.0005, sys.getswitchinterval()
"""How long a thread may keep the interpreter while another one waits: most calls of Qt give it away, and the window's
thread would wait for the usual time after each of them while trials are decoded.  Large models would pay for it."""
_FOLLOWING: set[int] = set()
"""Attachments, by identity, that follow a run now."""
PATIENCE = 2.0
"""Seconds that a request waits for a writer."""


class Attachment(QObject):
    """At most one run at a time; every file is read and written on one thread, in order.

    Another attachment may follow another run, on a thread of its own.
    """

    attached = Signal(object)
    """A Follower: another run is followed from now on."""
    updated = Signal(object)
    """An Update."""
    refused = Signal(object, object)
    """A path and the Problem that says why it cannot be followed."""

    def __init__(self) -> None:
        super().__init__()
        self.path: Path | None = None
        self.follower: Follower | None = None
        self._files = Background()
        self._looking = False
        self._awaited = -1
        """The run after which one is waited for; -1 while none is."""
        self._state = ""
        """What the run did at the last look."""
        self._timer = QTimer(self, interval=LOOK_MS)
        self._timer.timeout.connect(self._look)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being read or written."""
        return self._files.is_idle

    def attach(self, path: Path, number: int | None = None, quiet: bool = False) -> None:
        """Follows a run of a file, by default the last.  `quiet`: a file that cannot be read is left alone without a
        word."""

        def refuse(problem: ProblemDoc) -> None:
            if not quiet:
                self.refused.emit(path, problem)

        self._files.run(lambda: Follower(path, number), partial(self._follow, path), refuse)

    def start_after(self, path: Path, begin: Callable[[], None]) -> None:
        """Calls `begin`, and follows the first run of a file that is newer than those that are in it now."""

        def on_last(last: int) -> None:
            self.detach()
            self.path, self._awaited = path, last
            self._timer.start()
            begin()

        self._files.run(lambda: _last_run(path), on_last, partial(self.refused.emit, path))

    def detach(self) -> None:
        """Follows nothing any more."""
        self._share_interpreter(False)
        self._timer.stop()
        follower, self.follower = self.follower, None
        self.path, self._awaited = None, -1
        if follower is not None:
            self._files.run(follower.close, lambda _: None, lambda _: None)

    def ask(self, wish: str) -> None:
        """Wishes something of the run that is followed."""
        path, follower = self.path, self.follower
        if path is not None and follower is not None:
            self._timer.setInterval(ANSWER_MS)
            work = partial(ask, path, follower.number, wish, PATIENCE)
            self._files.run(work, lambda _: None, partial(self.refused.emit, path))

    def note_stopped(self) -> None:
        """Writes for a process that was ended that its run has stopped."""
        path, follower = self.path, self.follower
        if path is not None and follower is not None:
            self._files.run(lambda: _mark_stopped(path, follower.number), lambda _: None, lambda _: None)

    def read(
        self, look: Callable[[Follower], Result], on_result: Callable[[Result], None],
        on_error: Callable[[ProblemDoc], None],
    ) -> None:  # fmt: skip
        """What a look at the run that is followed finds."""
        if self.follower is not None:
            self._files.run(partial(look, self.follower), on_result, on_error)

    def run(self, work: Callable[[], None], done: Callable[[], None], failed: Callable[[ProblemDoc], None]) -> None:
        """Does something with files on the same thread."""
        self._files.run(work, lambda _: done(), failed)

    def close(self) -> None:
        """Waits for what is under way and lets everything go."""
        self.detach()
        self._files.close()

    def _follow(self, path: Path, follower: Follower) -> None:
        self.detach()
        self.path, self.follower, self._state = path, follower, ""
        self.attached.emit(follower)
        self._share_interpreter(True)
        self._timer.start()
        self._look()

    def _share_interpreter(self, follows: bool) -> None:
        """Threads wait a short time for the interpreter as long as any run is followed."""
        (_FOLLOWING.add if follows else _FOLLOWING.discard)(id(self))
        sys.setswitchinterval(SWITCH_SECONDS if _FOLLOWING else USUAL_SECONDS)

    def _look(self) -> None:
        """One look at a time; while more waits, the next one comes soon."""
        if self._looking or self.path is None:
            return
        self._looking = True
        path, follower = self.path, self.follower
        on_error = partial(self._on_error, path, follower)
        if follower is None:
            self._files.run(partial(_newer, path, self._awaited), partial(self._on_newer, path), on_error)
        else:
            self._files.run(follower.look, partial(self._on_update, follower), on_error)

    def _on_newer(self, path: Path, follower: Follower | None) -> None:
        self._looking = False
        if follower is not None and self.path == path and self.follower is None:
            self._follow(path, follower)

    def _on_update(self, follower: Follower, update: RunUpdate | None) -> None:
        self._looking = False
        if update is None or follower is not self.follower:
            return
        if update.run.state != self._state:
            self._state = update.run.state
            self._timer.setInterval(LOOK_MS)
        self.updated.emit(update)
        if not update.is_complete:
            QTimer.singleShot(BREATH_MS, self, self._look)

    def _on_error(self, path: Path, follower: Follower | None, problem: ProblemDoc) -> None:
        """A file that cannot be read any more is let go; errors of a file detached before are ignored."""
        self._looking = False
        if (path, follower) == (self.path, self.follower):
            self.detach()
            self.refused.emit(path, problem)


def _last_run(path: Path) -> int:
    """The number of a file's last run; 0 where it has none, is empty or not there."""
    if not path.is_file() or not path.stat().st_size:
        return 0
    with RunReader(path) as reader:
        runs = reader.runs()
        return runs[-1].number if runs else 0


def _newer(path: Path, after: int) -> Follower | None:
    """Follows a run that came after another one; None while there is none."""
    try:
        follower = Follower(path)
    except BadInput:  # the process that makes the file has not come so far
        return None
    if follower.number > after:
        return follower
    follower.close()
    return None


def _mark_stopped(path: Path, number: int) -> None:
    with RecordStore(path) as store:
        RunLog(store, number).set_state(STOPPED)
