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
from engine.records.schema import FORMAT, version_of
from engine.records.store import PATIENCE, RecordStore, now
from engine.records.tables import ATTEMPT_COLUMNS, ROUND_COLUMNS, RunTables, is_alive
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
        self.store, self.number, self._tables = store, number, RunTables(store.connection, store.path)
        self.was_new = True
        """Whether the last trial was not kept before."""

    @staticmethod
    def start(
        store: RecordStore, request: Request, tasks: Sequence[TaskRecord] = (),
        skipped: Mapping[str, str] | None = None, refused: Sequence[RefusedRecord] = (), started: str | None = None,
    ) -> RunLog:  # fmt: skip
        """A new run of this process.  started: UTC, by default now; "" where nobody knows."""
        columns = {
            "started": now() if started is None else started, "wish": GO, **_this_process(),
            "request": _plain(request), "tasks": _plain(tuple(tasks)),
            "skipped": _plain(skipped or {}), "refused": _plain(tuple(refused)),
        }  # fmt: skip
        query = f"INSERT INTO runs ({', '.join(columns)}) VALUES (?{', ?' * (len(columns) - 1)})"
        with sqlite_errors(store.path):
            number = store.connection.execute(query, tuple(columns.values())).lastrowid
        assert number is not None, "a row that was added has a number"
        return RunLog(store, number)

    @staticmethod
    def last(store: RecordStore) -> Run:
        """The run that was started last.  Raises BadInput where there is none."""
        return RunTables(store.connection, store.path).run()

    @staticmethod
    def resume(store: RecordStore, number: int | None = None) -> RunLog:
        """Take a run over, by default the last: its process is this one from now on.

        Raises BadInput where there is none, and where another process is at it.
        """
        with sqlite_errors(store.path), store.transaction():
            run = RunTables(store.connection, store.path).run(number)
            if is_alive(run) and (run.host, run.pid) != (socket.gethostname(), os.getpid()):
                reason = f"run {run.number} is {run.state} in process {run.pid} on {run.host}"
                raise BadInput("records", str(store.path), reason, "stop it first, or wait until it is done")
            log = RunLog(store, run.number)
            log._update(wish=GO, **_this_process())
        return log

    def run(self) -> Run:
        """What is kept of it."""
        return self._tables.run(self.number)

    def attempts(self) -> tuple[Attempt, ...]:
        """All that it tried."""
        return self._tables.attempts(self.number)

    def rounds(self) -> tuple[Round, ...]:
        """All that it decided."""
        return self._tables.rounds(self.number)

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
            _live(self.store.connection, self.number)
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
            _plain(decision.figures), _finite(decision.best), decision.attempts, decision.seconds,
        )  # fmt: skip
        with sqlite_errors(self.store.path):
            self.store.connection.execute(_ADD_ROUND, values)

    def set_request(self, request: Request) -> None:
        """Keep what a run that goes on is asked for now."""
        self._update(request=_plain(request))

    def set_groups(
        self, tasks: Sequence[TaskRecord], skipped: Mapping[str, str], refused: Sequence[RefusedRecord]
    ) -> None:
        """Keep what can be chosen in the groups whose spaces are known, and why others and some mappings are left out.
        """
        self._update(tasks=_plain(tuple(tasks)), skipped=_plain(skipped), refused=_plain(tuple(refused)))

    def set_state(self, state: str, message: str = "") -> None:
        """Set the state, with the reason where the run ended."""
        self._update(state=state, message=message, heartbeat=time.time())

    def _update(self, **columns: object) -> None:
        """Set columns of the run's row."""
        query = f"UPDATE runs SET {', '.join(f'{name} = ?' for name in columns)} WHERE number = ?"
        with sqlite_errors(self.store.path):
            self.store.connection.execute(query, (*columns.values(), self.number))

    def beat(self) -> str:
        """Give a sign of life; what a person wishes meanwhile: "run", "pause" or "stop"."""
        with sqlite_errors(self.store.path):
            _live(self.store.connection, self.number)
            return _wish(self.store.connection, self.number)


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


def _this_process() -> dict[str, object]:
    """The columns of a run that this process has begun to write."""
    columns: dict[str, object] = {"state": RUNNING, "message": "", "heartbeat": time.time()}
    return {**columns, "host": socket.gethostname(), "pid": os.getpid()}


def _plain(value: object) -> str:
    return json.dumps(to_json(value))


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
        # A file of an older format has no table of runs.
        query = "UPDATE runs SET wish = ? WHERE number = ?"
        changed = version_of(connection, path) == FORMAT and connection.execute(query, (wish, run)).rowcount
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
