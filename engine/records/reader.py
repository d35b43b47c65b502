"""Open a file of records to read it while other processes write it; a window attaches to a run with this.

A reader opens the file read-only.  With a write-ahead log it never blocks a writer, and sees the last committed state.
A log of another tuner is read as a file of one run.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from time import perf_counter, sleep
from types import TracebackType

from engine.records.faults import PRIMARY, sqlite_errors
from engine.records.other_tuners.run import log_database
from engine.records.schema import FORMAT, version_of
from engine.records.store import LOOK, RecordStore
from engine.records.tables import MAKE_HINT, RunTables
from engine.support.errors import BadInput

CURRENT = 2.0
"""Seconds to wait for a lock; with a write-ahead log readers need one only while the log is reset."""
MAKING = 0.5
"""Seconds to wait for the first bytes of a file that is empty: another process may be making it."""
SMALLEST = 512
"""Bytes of a database: SQLite takes the shortest texts for empty ones."""


class RunReader(RunTables):
    """The runs of one file on a connection of its own, read only.

    It may be made in one thread and used in another, by one at a time.  Raises BadInput where there is no file, or an
    empty one, or one that is neither records nor a log of a tuner that is known.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        if not path.is_file():
            raise BadInput("records", str(path), "is not there", MAKE_HINT)
        if _stays_empty(path):
            # SQLite takes it for a new database, and would write tables into it.
            raise BadInput("records", str(path), "is empty", MAKE_HINT)
        with sqlite_errors(path):
            super().__init__(_open_database(path) if is_database(path) else log_database(path), path)

    def __enter__(self) -> RunReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        self.connection.close()


def _stays_empty(path: Path) -> bool:
    """Whether a file is empty, and no other process is making it at this moment."""
    end = perf_counter() + MAKING
    while not path.stat().st_size:
        if perf_counter() > end:
            return True
        sleep(LOOK)
    return False


def is_database(path: Path) -> bool:
    """Whether a file is one of records, or cannot be looked at now, and not a text.

    SQLite looks at it: closing a handle of our own would drop every lock of this process on the file, and a writer
    that ends would then delete the write-ahead log beneath its readers.
    """
    if path.stat().st_size < SMALLEST:
        return False
    with closing(_connect(path)) as connection:
        try:
            connection.execute("PRAGMA schema_version").fetchone()
        except sqlite3.Error as error:
            return getattr(error, "sqlite_errorcode", 0) & PRIMARY != sqlite3.SQLITE_NOTADB
    return True


def _open_database(path: Path) -> sqlite3.Connection:
    with closing(_connect(path)) as connection:
        is_complete = version_of(connection, path) == FORMAT
    if not is_complete:
        # A reader cannot add the missing tables; opening the file as a store does.
        RecordStore(path).close()
    return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode=ro"
    return sqlite3.connect(address, uri=True, timeout=CURRENT, isolation_level=None, check_same_thread=False)
