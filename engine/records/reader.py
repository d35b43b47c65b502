"""Read a records file while other processes write it; a window attaches to a run with this.

A reader opens the file read-only.  With a write-ahead log it never blocks a writer, and sees the last committed state.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from engine.records.faults import figure, readable, sqlite_errors
from engine.records.nodes import PAUSED, RUNNING, Attempt, RefusedRecord, Request, Round, Run, TaskRecord, Trial
from engine.records.schema import FORMAT, version_of
from engine.records.store import TRIAL_COLUMNS, RecordStore, trial_of
from engine.support.errors import BadInput
from engine.support.serialization import from_json

_RUNS = "number, started, state, wish, host, pid, heartbeat, request, tasks, skipped, message, refused"
ATTEMPT_COLUMNS = (
    "number, trial, grp, mapping, program, promised, state, microseconds, failure, message, seconds, worker, low, high"
)
ROUND_COLUMNS = "number, kind, grp, mapping, reason, figures, best, attempts, seconds"
CURRENT = 2.0
"""Seconds to wait for a lock; with a write-ahead log readers need one only while the log is reset."""


def require_records(path: Path) -> None:
    """Raise BadInput for an empty file: SQLite takes it for a new database, and would write tables into it."""
    if path.is_file() and not path.stat().st_size:
        raise BadInput("records", str(path), "is empty", "`loomscope tune` makes one")


class RunTables:
    """Reads the runs of one file over a connection.  Raises what `RecordStore` does; any call may."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection, self.path = connection, path

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows at once: an open cursor holds a read lock, and the write-ahead log cannot be moved into the file."""
        with sqlite_errors(self.path):
            return self.connection.execute(query, values).fetchall()

    def _attempts(self, rows: Sequence[tuple[Any, ...]]) -> tuple[Attempt, ...]:
        return tuple(_attempt(row, self.path) for row in rows)

    def version(self) -> int:
        """SQLite's change counter: it differs after another connection wrote, so that rows are read again only then."""
        return int(self._rows("PRAGMA data_version")[0][0])

    def runs(self) -> tuple[Run, ...]:
        """All runs, oldest first."""
        return tuple(_run(row, self.path) for row in self._rows(f"SELECT {_RUNS} FROM runs ORDER BY number"))

    def run(self, number: int | None = None) -> Run:
        """One run, by default the last.  Raises BadInput where there is none."""
        query = f"SELECT {_RUNS} FROM runs WHERE number = ifnull(?, number) ORDER BY number DESC LIMIT 1"
        rows = self._rows(query, number)
        if not rows:
            what = "holds no run" if number is None else f"holds no run {number}"
            raise BadInput("records", str(self.path), what, "`loomscope tune` makes one")
        return _run(rows[0], self.path)

    def attempts(self, run: int, after: int = 0, most: int | None = None) -> tuple[Attempt, ...]:
        """Attempts of a run in the order in which they finished, from number `after` + 1 on, at most so many."""
        query = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE run = ? AND number > ? ORDER BY number LIMIT ?"
        return self._attempts(self._rows(query, run, after, -1 if most is None else most))

    def fastest(self, run: int, count: int, until: int) -> tuple[Attempt, ...]:
        """The fastest attempts of each group of a run, so many, among those up to number `until`."""
        place = "row_number() OVER (PARTITION BY grp ORDER BY microseconds, number) AS place"
        which = "run = ? AND number <= ? AND failure = '' AND microseconds IS NOT NULL AND mapping != ''"
        ranked = f"SELECT *, {place} FROM attempts WHERE {which}"
        query = f"SELECT {ATTEMPT_COLUMNS} FROM ({ranked}) WHERE place <= ? ORDER BY grp, place"
        return self._attempts(self._rows(query, run, until, count))

    def attempts_found_wrong(self, run: int, until: int) -> tuple[Attempt, ...]:
        """Attempts of a run up to number `until` whose results a later check found wrong."""
        which = "run = ? AND number <= ? AND failure != '' AND microseconds IS NOT NULL"
        query = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE {which} ORDER BY number"
        return self._attempts(self._rows(query, run, until))

    def rounds(self, run: int, after: int = 0) -> tuple[Round, ...]:
        """Decisions of a run, from number `after` + 1 on."""
        query = f"SELECT {ROUND_COLUMNS} FROM rounds WHERE run = ? AND number > ? ORDER BY number"
        return tuple(_round(row, self.path) for row in self._rows(query, run, after))

    def trial(self, number: int) -> Trial:
        """One trial with its recipe.  Raises BadInput where there is none of that number."""
        rows = self._rows(f"SELECT {TRIAL_COLUMNS} FROM trials WHERE number = ?", number)
        if not rows:
            raise BadInput("records", str(self.path), f"holds no trial {number}")
        return trial_of(rows[0], self.path)


class RunReader(RunTables):
    """The runs of one file on a connection of its own, read only.

    It may be made in one thread and used in another, by one at a time.  Raises BadInput where there is no file.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        if not path.is_file():
            raise BadInput("records", str(path), "is not there", "`loomscope tune` makes one")
        with sqlite_errors(path):
            super().__init__(_connect(path), path)
            if version_of(self.connection, path) < FORMAT:
                # A reader cannot add the missing tables; opening the file as a store does.
                self.connection.close()
                RecordStore(path).close()
                self.connection = _connect(path)

    def __enter__(self) -> RunReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        self.connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode=ro"
    return sqlite3.connect(address, uri=True, timeout=CURRENT, isolation_level=None, check_same_thread=False)


# The columns stand in the order of the fields.


def _run(row: tuple[Any, ...], path: Path) -> Run:
    number, started, state, wish, host, pid, heartbeat, request, tasks, skipped, message, refused = row
    with readable(path, "a run"):
        return Run(
            number, started, state, wish, host, pid, _figure(heartbeat), from_json(Request, json.loads(request)),
            from_json(tuple[TaskRecord, ...], json.loads(tasks)), from_json(dict[str, str], json.loads(skipped)),
            message, from_json(tuple[RefusedRecord, ...], json.loads(refused)),
        )  # fmt: skip


def _attempt(row: tuple[Any, ...], path: Path) -> Attempt:
    number, trial, group, mapping, program, promised, state, microseconds, failure, message, *rest = row
    seconds, worker, *band = rest
    with readable(path, "an attempt"):
        values = tuple((name, value) for name, value in json.loads(program))
        taken = None if failure else figure(microseconds)  # one that a check found wrong keeps its time in the file
        low, high = map(figure, band)
        return Attempt(
            number, trial, group, mapping, values, _figure(promised), state, taken, failure, message,
            _figure(seconds), worker, low, high,
        )  # fmt: skip


def _round(row: tuple[Any, ...], path: Path) -> Round:
    number, kind, group, mapping, reason, figures, best, attempts, seconds = row
    with readable(path, "a round"):
        plain = from_json(dict[str, float], json.loads(figures))
        return Round(number, kind, group, mapping, reason, plain, _figure(best), attempts, _figure(seconds))


def _figure(value: object) -> float:
    """A figure, infinite where there is none."""
    found = figure(value)
    return math.inf if found is None else found


def is_alive(run: Run) -> bool:
    """Whether a run has a recent heartbeat, and its process is not known to have ended since."""
    return run.state_at(time.time()) in (RUNNING, PAUSED) and not _is_gone(run)


def _is_gone(run: Run) -> bool:
    """Whether a run's process ran on this machine and has ended: one that was killed left its state "running"."""
    if os.name != "posix" or run.host != socket.gethostname():
        return False
    try:
        os.kill(run.pid, 0)  # signal 0 is not delivered: the call only tells whether the process exists
    except ProcessLookupError:
        return True
    except PermissionError:  # it exists, and is another user's
        pass
    return False
