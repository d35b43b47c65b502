"""The file of trials: SQLite with a write-ahead log, so that a trial is kept whole or not at all.

A process may be killed at any moment: what `add` has returned for is in the log of the operating system, and the next
reader finds it.  (A power cut may lose the last moments, never what was there before.)  Several processes may write.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from engine.errors import BadInput
from engine.records.faults import FOREIGN_HINT, told
from engine.records.nodes import ORIGINS, Subject, Trial
from engine.run.nodes import Failure, Timing
from engine.text import from_json, to_json

APPLICATION = 0x4C6F6F6D
""" "Loom" in the file's header: whose file it is."""
FORMAT = 1
"""Version of the tables; a newer one is refused."""
PATIENCE = 10.0
"""Seconds to wait for another writer."""

_TABLES = """
CREATE TABLE trials (
    number INTEGER PRIMARY KEY,      -- in the order in which they finished
    key TEXT NOT NULL,               -- Subject.key
    origin TEXT NOT NULL,
    kernel TEXT NOT NULL, launch TEXT NOT NULL, inputs TEXT NOT NULL, target TEXT NOT NULL, compiler TEXT NOT NULL,
    flags TEXT NOT NULL,             -- JSON list
    grp TEXT NOT NULL, recipe TEXT NOT NULL, because TEXT NOT NULL,
    microseconds REAL,               -- NULL for a failure
    failure TEXT NOT NULL,           -- its kind; '' for a time
    outcome TEXT NOT NULL,           -- JSON of the Timing or Failure
    finished TEXT NOT NULL,          -- UTC
    UNIQUE (key, origin)
)
"""
_COLUMNS = "key, origin, kernel, launch, inputs, target, compiler, flags, grp, recipe, because, outcome, failure"
_INSERT = (
    f"INSERT OR IGNORE INTO trials ({_COLUMNS}, microseconds, finished) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class RecordStore:
    """Trials in one file, made where it is absent.

    Raises BadInput for a file that is damaged, locked, not ours or of a newer version; any call may.  OverBudget where
    the disk is full: what was kept before stays readable.
    """

    def __init__(self, path: str | Path, patience: float = PATIENCE) -> None:
        """patience: seconds to wait while another process writes."""
        self.path = Path(path)
        with told(self.path):
            self._connection = sqlite3.connect(self.path, timeout=patience, isolation_level=None)
            try:
                self._open()
            except BaseException:
                self._connection.close()
                raise

    def _open(self) -> None:
        """Check whose file it is, and make its table where there is none."""
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION and (tables or application or version):
            raise BadInput("records", str(self.path), "is a database of another program", FOREIGN_HINT)
        if version > FORMAT:
            reason = f"is of format {version}, this version reads up to {FORMAT}"
            raise BadInput("records", str(self.path), reason, "use the version of Loomscope that wrote it, or newer")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        if not tables:
            self._create()
        ((verdict, *_),) = self._connection.execute("PRAGMA quick_check(1)").fetchall()
        if verdict != "ok":
            reason = "is damaged: a part of the file is missing or was overwritten"
            raise BadInput("records", str(self.path), reason, "take a copy from before, or name another file")

    def _create(self) -> None:
        """The table, by whichever process comes first."""
        self._connection.execute("BEGIN IMMEDIATE")
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            self._connection.execute(_TABLES)
            self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
            self._connection.execute(f"PRAGMA user_version = {FORMAT}")
        self._connection.execute("COMMIT")

    def __enter__(self) -> RecordStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go; a store that was not closed loses nothing."""
        self._connection.close()

    def add(self, trial: Trial) -> bool:
        """Keep a trial; False where the same one is kept already, which then stays."""
        with told(self.path):
            return self._connection.execute(_INSERT, _row(trial)).rowcount == 1

    def add_all(self, trials: Iterable[Trial]) -> int:
        """Keep many trials at once, all of them or none; how many were new."""
        with told(self.path):
            before = self._connection.total_changes
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(_INSERT, map(_row, trials))
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            return self._connection.total_changes - before

    def find(self, subject: Subject, origin: str) -> Trial | None:
        """The kept trial of a subject, or None."""
        with told(self.path):
            row = self._connection.execute(
                f"SELECT {_COLUMNS} FROM trials WHERE key = ? AND origin = ?", (subject.key, origin)
            ).fetchone()
        return None if row is None else self._trial(row)

    def trials(self, origin: str, group: str | None = None, after: int = 0) -> Iterator[Trial]:
        """Trials of one origin as they finished.  group: only those run for it.  after: leave out that many rows."""
        which = "" if group is None else " AND grp = ?"
        values = (origin, after) if group is None else (origin, after, group)
        query = f"SELECT {_COLUMNS} FROM trials WHERE origin = ? AND number > ?{which} ORDER BY number"
        with told(self.path):
            for row in self._connection.execute(query, values):
                yield self._trial(row)

    def best(self, origin: str, group: str, target: str, count: int = 1) -> tuple[Trial, ...]:
        """The fastest trials of a group on a target, fastest first."""
        query = (
            f"SELECT {_COLUMNS} FROM trials WHERE origin = ? AND grp = ? AND target = ? AND microseconds IS NOT NULL "
            "ORDER BY microseconds, number LIMIT ?"
        )
        with told(self.path):
            return tuple(map(self._trial, self._connection.execute(query, (origin, group, target, count)).fetchall()))

    def counts(self) -> dict[str, tuple[int, dict[str, int]]]:
        """Of each origin that has any: the number of times, and of failures by kind."""
        found: dict[str, tuple[int, dict[str, int]]] = {}
        with told(self.path):
            rows = self._connection.execute("SELECT origin, failure, count(*) FROM trials GROUP BY 1, 2").fetchall()
        for origin in ORIGINS:
            mine = {failure: number for of, failure, number in rows if of == origin}
            if mine:
                found[origin] = mine.pop("", 0), mine
        return found

    def _trial(self, row: tuple[Any, ...]) -> Trial:
        _, origin, kernel, launch, inputs, target, compiler, flags, group, recipe, because, outcome, failure = row
        try:
            subject = Subject(kernel, launch, inputs, target, compiler, tuple(json.loads(flags)))
            plain = json.loads(outcome)
            result = from_json(Failure, plain) if failure else from_json(Timing, plain)
            return Trial(subject, origin, result, group, recipe, because)
        except ValueError as error:
            raise BadInput("records", str(self.path), f"holds a trial that cannot be read: {error}") from error


def _row(trial: Trial) -> tuple[object, ...]:
    """The values of `_INSERT`."""
    subject, outcome = trial.subject, trial.outcome
    return (
        subject.key, trial.origin, subject.kernel, subject.launch, subject.inputs, subject.target, subject.compiler,
        json.dumps(subject.flags), trial.group, trial.recipe, trial.because, json.dumps(to_json(outcome)),
        outcome.kind if isinstance(outcome, Failure) else "", trial.microseconds,
        datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip
