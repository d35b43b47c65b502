"""Write a run: each attempt and its trial in one transaction, so that a kill loses no finished attempt."""

from __future__ import annotations

import json
import math
import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from engine.records.faults import sqlite_errors
from engine.records.nodes import (
    BEAT,
    FAILED,
    GO,
    RUNNING,
    WISHES,
    Attempt,
    RefusedRecord,
    Request,
    Round,
    Run,
    TaskRecord,
    Trial,
)
from engine.records.reader import ATTEMPT_COLUMNS, ROUND_COLUMNS, is_alive, read_attempts, read_rounds, read_run
from engine.records.schema import FORMAT, version_of
from engine.records.store import PATIENCE, RecordStore, now
from engine.support.errors import BadInput
from engine.support.serialization import to_json

_ADD_ATTEMPT = f"INSERT INTO attempts (run, {ATTEMPT_COLUMNS}) VALUES (?{', ?' * 14})"
_ADD_ROUND = f"INSERT INTO rounds (run, {ROUND_COLUMNS}) VALUES (?{', ?' * 9})"


class RunLog:
    """One run of a store, written by the process that searches.

    Raises what `RecordStore` does; any call may.
    """

    def __init__(self, store: RecordStore, number: int) -> None:
        """An existing run; `start` and `resume` make one to write."""
        self.store, self.number = store, number
        self.was_new = True
        """Whether the last trial was not kept before."""

    @staticmethod
    def start(
        store: RecordStore, request: Request, tasks: Sequence[TaskRecord] = (),
        skipped: Mapping[str, str] | None = None, refused: Sequence[RefusedRecord] = (),
    ) -> RunLog:  # fmt: skip
        """A new run of this process."""
        plain = (json.dumps(to_json(value)) for value in (request, tuple(tasks), skipped or {}, tuple(refused)))
        values = (now(), RUNNING, GO, socket.gethostname(), os.getpid(), time.time(), *plain)
        query = (
            "INSERT INTO runs (started, state, wish, host, pid, heartbeat, request, tasks, skipped, refused, message) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '')"
        )
        with sqlite_errors(store.path):
            number = store.connection.execute(query, values).lastrowid
        assert number is not None, "a row that was added has a number"
        return RunLog(store, number)

    @staticmethod
    def last(store: RecordStore) -> Run:
        """The run that was started last.  Raises BadInput where there is none."""
        with sqlite_errors(store.path):
            return read_run(store.connection, store.path)

    @staticmethod
    def resume(store: RecordStore, number: int | None = None) -> RunLog:
        """Take a run over, by default the last: its process is this one from now on.

        Raises BadInput where there is none, and where another process is at it.
        """
        with sqlite_errors(store.path), store.transaction():
            run = read_run(store.connection, store.path, number)
            if is_alive(run) and (run.host, run.pid) != (socket.gethostname(), os.getpid()):
                reason = f"run {run.number} is {run.state} in process {run.pid} on {run.host}"
                raise BadInput("records", str(store.path), reason, "stop it first, or wait until it is done")
            store.connection.execute(
                "UPDATE runs SET state = ?, wish = ?, host = ?, pid = ?, heartbeat = ?, message = '' WHERE number = ?",
                (RUNNING, GO, socket.gethostname(), os.getpid(), time.time(), run.number),
            )
        return RunLog(store, run.number)

    def run(self) -> Run:
        """What is kept of it."""
        with sqlite_errors(self.store.path):
            return read_run(self.store.connection, self.store.path, self.number)

    def attempts(self) -> tuple[Attempt, ...]:
        """All that it tried."""
        with sqlite_errors(self.store.path):
            return read_attempts(self.store.connection, self.number)

    def rounds(self) -> tuple[Round, ...]:
        """All that it decided."""
        with sqlite_errors(self.store.path):
            return read_rounds(self.store.connection, self.number)

    def keep(self, attempt: Attempt, trial: Trial | None) -> Attempt:
        """Keep an attempt with its trial, both or neither; the attempt as it is kept, with the number of its trial."""
        (kept,) = self.keep_all([(attempt, trial)])
        return kept

    def keep_all(self, pairs: Iterable[tuple[Attempt, Trial | None]]) -> tuple[Attempt, ...]:
        """Keep many at once, all or none."""
        kept, finished = [], now()
        with sqlite_errors(self.store.path), self.store.transaction():
            for attempt, trial in pairs:
                number, self.was_new = (None, True) if trial is None else self.store.number_of(trial, finished)
                kept.append(replace(attempt, trial=number))
                self.store.connection.execute(_ADD_ATTEMPT, (self.number, *_attempt_row(kept[-1])))
            self._beat()
        return tuple(kept)

    def mark_wrong(self, attempt: int, kind: str, message: str) -> None:
        """Turn an attempt whose result was found wrong into a failure; its trial keeps the time."""
        query = "UPDATE attempts SET state = ?, failure = ?, message = ? WHERE run = ? AND number = ?"
        with sqlite_errors(self.store.path):
            self.store.connection.execute(query, (FAILED, kind, message, self.number, attempt))

    def add_round(self, decision: Round) -> None:
        """Keep a decision."""
        values = (
            self.number, decision.number, decision.kind, decision.group, decision.mapping, decision.reason,
            json.dumps(to_json(decision.figures)), _finite(decision.best), decision.attempts, decision.seconds,
        )  # fmt: skip
        with sqlite_errors(self.store.path):
            self.store.connection.execute(_ADD_ROUND, values)

    def set_request(self, request: Request) -> None:
        """Keep what a run that goes on is asked for now."""
        with sqlite_errors(self.store.path):
            query = "UPDATE runs SET request = ? WHERE number = ?"
            self.store.connection.execute(query, (json.dumps(to_json(request)), self.number))

    def set_tasks(self, tasks: Sequence[TaskRecord], skipped: Mapping[str, str]) -> None:
        """Keep what can be chosen, once it is known."""
        values = (json.dumps(to_json(tuple(tasks))), json.dumps(to_json(skipped)), self.number)
        with sqlite_errors(self.store.path):
            self.store.connection.execute("UPDATE runs SET tasks = ?, skipped = ? WHERE number = ?", values)

    def set_refused(self, refused: Sequence[RefusedRecord]) -> None:
        """Keep why mappings are not searched, as a run that goes on finds it now."""
        values = (json.dumps(to_json(tuple(refused))), self.number)
        with sqlite_errors(self.store.path):
            self.store.connection.execute("UPDATE runs SET refused = ? WHERE number = ?", values)

    def set_state(self, state: str, message: str = "") -> None:
        """Set the state, with the reason where the run ended."""
        values = (state, message, time.time(), self.number)
        query = "UPDATE runs SET state = ?, message = ?, heartbeat = ? WHERE number = ?"
        with sqlite_errors(self.store.path):
            self.store.connection.execute(query, values)

    def beat(self) -> str:
        """Give a sign of life; what a person wishes meanwhile: "run", "pause" or "stop"."""
        with sqlite_errors(self.store.path):
            self._beat()
            return _wish(self.store.connection, self.number)

    def _beat(self) -> None:
        _live(self.store.connection, self.number)


class Pulse:
    """Signs of life of a run, and the wishes for it, on a connection of its own: for a thread beside the search."""

    def __init__(self, path: Path, run: int) -> None:
        """To be used in one thread, which must be the one that enters it."""
        self._path, self._run = path, run
        self._last = -math.inf

    def __enter__(self) -> Pulse:
        self._connection = sqlite3.connect(self._path, timeout=BEAT, isolation_level=None)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def beat(self) -> str:
        """What a person wishes; a sign of life is given every BEAT seconds.  Raises what `RecordStore` does."""
        with sqlite_errors(self._path):
            if time.monotonic() - self._last > BEAT:
                _live(self._connection, self._run)
                self._last = time.monotonic()
            return _wish(self._connection, self._run)


def _live(connection: sqlite3.Connection, run: int) -> None:
    connection.execute("UPDATE runs SET heartbeat = ? WHERE number = ?", (time.time(), run))


def _wish(connection: sqlite3.Connection, run: int) -> str:
    return str(connection.execute("SELECT wish FROM runs WHERE number = ?", (run,)).fetchone()[0])


def ask(path: str | Path, run: int, wish: str, patience: float = PATIENCE) -> None:
    """Wish something of a run: "run", "pause" or "stop"; its process hears it at once.

    patience: seconds to wait while another process writes.  Raises what `RecordStore` does, and BadInput for a run
    that is not there.
    """
    if wish not in WISHES:
        raise ValueError(f"{wish!r} is nothing to wish")
    path = Path(path)
    address = f"{path.resolve().as_uri()}?mode=rw"
    with (
        sqlite_errors(path),
        closing(sqlite3.connect(address, uri=True, timeout=patience, isolation_level=None)) as connection,
    ):
        if version_of(connection, path) < FORMAT:
            raise BadInput("records", str(path), f"holds no run {run}")
        changed = connection.execute("UPDATE runs SET wish = ? WHERE number = ?", (wish, run)).rowcount
    if not changed:
        raise BadInput("records", str(path), f"holds no run {run}")


def _attempt_row(attempt: Attempt) -> tuple[object, ...]:
    return (
        attempt.number, attempt.trial, attempt.group, attempt.mapping, json.dumps(attempt.values),
        _finite(attempt.promised), attempt.state, attempt.microseconds, attempt.failure, attempt.message,
        attempt.seconds, attempt.worker, attempt.low, attempt.high,
    )  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
