"""The records file: SQLite with a write-ahead log, so that a trial is kept whole or not at all.

A process may be killed at any moment: once `add` has returned, the trial is in the operating system's page cache, and
the next reader finds it.  A power cut may lose the last trials (`synchronous = NORMAL` does not wait for the disk at
each commit), but never damages the file.  Several processes may write.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, sleep
from types import TracebackType
from typing import Any

from engine.execution.nodes import Failure, Timing
from engine.records.faults import PRIMARY, readable, sqlite_errors
from engine.records.nodes import ORIGINS, Subject, Trial
from engine.records.schema import FORMAT, upgrade, version_of
from engine.support.errors import BadInput
from engine.support.serialization import from_json, to_json

PATIENCE = 10.0
"""Seconds to wait for another writer."""
LOOK = 0.01
"""Seconds between two attempts."""
LOG_PAGES = 4000
"""Pages of 4 KiB in the write-ahead log before a commit moves them into the file, which waits for the disk."""

TRIAL_COLUMNS = "key, origin, kernel, launch, inputs, target, compiler, flags, grp, recipe, because, outcome, failure"
_INSERT = (
    f"INSERT OR IGNORE INTO trials ({TRIAL_COLUMNS}, microseconds, finished) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class KeptTrials:
    """Reads the trials of one file over a connection.  Raises what `RecordStore` does; any call may."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection, self.path = connection, path
        """For the modules of this package, which read and write their own tables."""

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows at once: an open cursor holds a read lock, and the write-ahead log cannot be moved into the file."""
        with sqlite_errors(self.path):
            return self.connection.execute(query, values).fetchall()

    def find(self, subject: Subject, origin: str) -> Trial | None:
        """The kept trial of a subject, or None."""
        query = f"SELECT {TRIAL_COLUMNS} FROM trials WHERE key = ? AND origin = ?"
        rows = self._rows(query, subject.key, origin)
        return trial_of(rows[0], self.path) if rows else None

    def trials(self, origin: str, group: str | None = None, after: int = 0) -> Iterator[Trial]:
        """Trials of one origin as they finished.  group: only those run for it.  after: leave out that many rows."""
        which = "" if group is None else " AND grp = ?"
        values = (origin, after) if group is None else (origin, after, group)
        query = f"SELECT {TRIAL_COLUMNS} FROM trials WHERE origin = ? AND number > ?{which} ORDER BY number"
        with sqlite_errors(self.path):
            for row in self.connection.execute(query, values):
                yield trial_of(row, self.path)

    def counts(self) -> dict[str, tuple[int, dict[str, int]]]:
        """Of each origin that has any: the number of times, and of failures by kind."""
        found: dict[str, tuple[int, dict[str, int]]] = {}
        rows = self._rows("SELECT origin, failure, count(*) FROM trials GROUP BY 1, 2")
        for origin in ORIGINS:
            mine = {failure: number for of, failure, number in rows if of == origin}
            if mine:
                found[origin] = mine.pop("", 0), mine
        return found

    def trial(self, number: int) -> Trial:
        """One trial with its recipe.  Raises BadInput where there is none of that number."""
        rows = self._rows(f"SELECT {TRIAL_COLUMNS} FROM trials WHERE number = ?", number)
        if not rows:
            raise BadInput("records", str(self.path), f"holds no trial {number}")
        return trial_of(rows[0], self.path)


class RecordStore(KeptTrials):
    """Trials in one file, made where it is absent.

    Raises BadInput for a file that is damaged, locked, not ours or of a newer version; any call may.
    MissingCapability where the disk is full: what was kept before stays readable.
    """

    def __init__(self, path: str | Path, patience: float = PATIENCE) -> None:
        """patience: seconds to wait while another process writes."""
        path = Path(path)
        with sqlite_errors(path):
            # Without an isolation level the sqlite3 module opens no transactions of its own.
            super().__init__(sqlite3.connect(path, timeout=patience, isolation_level=None), path)
            try:
                self._open(patience)
            except BaseException:
                self.connection.close()
                raise

    def _begin_log(self, end: float) -> None:
        """Write ahead into a log.  SQLite does not wait for another process that begins one at this moment: we do."""
        while True:
            try:
                self.connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & PRIMARY != sqlite3.SQLITE_BUSY or perf_counter() > end:
                    raise
                sleep(LOOK)

    def _open(self, patience: float) -> None:
        """Check whose file it is, and make or complete its tables."""
        version = version_of(self.connection, self.path)
        self._begin_log(perf_counter() + patience)
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
        if version < FORMAT:
            upgrade(self.connection)
        ((verdict, *_),) = self.connection.execute("PRAGMA quick_check(1)").fetchall()
        if verdict != "ok":
            reason = "is damaged: a part of the file is missing or was overwritten"
            raise BadInput("records", str(self.path), reason, "take a copy from before, or name another file")

    def __enter__(self) -> RecordStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go; a store that was not closed loses nothing."""
        self.connection.close()

    def add(self, trial: Trial) -> bool:
        """Keep a trial; False where the same one is kept already, which then stays."""
        with sqlite_errors(self.path):
            return self.connection.execute(_INSERT, _row(trial, now())).rowcount == 1

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the writes of the block together, or roll them back where anything is raised."""
        try:
            # Inside the `try`: an interrupt may be raised after the statement has taken effect.  IMMEDIATE takes the
            # write lock now; a read lock that is upgraded later fails where another process wrote in between.
            self.connection.execute("BEGIN IMMEDIATE")
            yield
            self.connection.execute("COMMIT")
        finally:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def number_of(self, trial: Trial, finished: str) -> tuple[int, bool]:
        """The number of a trial, which is added where it is new, and whether it was.  Call it inside a transaction.

        finished: UTC.
        """
        row = _row(trial, finished)
        added = self.connection.execute(_INSERT, row)
        if added.rowcount == 1:
            assert added.lastrowid is not None, "a row that was added has a number"
            return added.lastrowid, True
        query = "SELECT number FROM trials WHERE key = ? AND origin = ?"
        (number,) = self.connection.execute(query, row[:2]).fetchone()
        return int(number), False


def trial_of(row: tuple[Any, ...], path: Path) -> Trial:
    """A trial from the values of TRIAL_COLUMNS.  Raises BadInput where they cannot be read."""
    _, origin, kernel, launch, inputs, target, compiler, flags, group, recipe, because, outcome, failure = row
    with readable(path, "a trial"):
        subject = Subject(kernel, launch, inputs, target, compiler, tuple(json.loads(flags)))
        plain = json.loads(outcome)
        result = from_json(Failure, plain) if failure else from_json(Timing, plain)
        return Trial(subject, origin, result, group, recipe, because)


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _row(trial: Trial, finished: str) -> tuple[object, ...]:
    """The values of `_INSERT`."""
    subject, outcome = trial.subject, trial.outcome
    return (
        subject.key, trial.origin, subject.kernel, subject.launch, subject.inputs, subject.target, subject.compiler,
        json.dumps(subject.flags), trial.group, trial.recipe, trial.because, json.dumps(to_json(outcome)),
        outcome.kind if isinstance(outcome, Failure) else "", trial.microseconds, finished,
    )  # fmt: skip
