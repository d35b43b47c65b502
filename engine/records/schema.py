"""The tables of a records file: create and upgrade them, and refuse databases of other programs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from engine.records.faults import FOREIGN_HINT
from engine.support.errors import BadInput

APPLICATION = 0x4C6F6F6D
"""SQLite's application id in the file's header: "Loom" in ASCII."""
FORMAT = 3
"""Version of the tables; a newer one is refused, an older one is brought up to it."""

_TRIALS = """
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
_RUNS = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    started TEXT NOT NULL,           -- UTC
    state TEXT NOT NULL, wish TEXT NOT NULL,
    host TEXT NOT NULL, pid INTEGER NOT NULL,
    heartbeat REAL NOT NULL,         -- seconds since 1970
    request TEXT NOT NULL,           -- JSON of the Request
    tasks TEXT NOT NULL,             -- JSON list of TaskRecord
    skipped TEXT NOT NULL,           -- JSON object: group -> why
    message TEXT NOT NULL
)
"""
_ATTEMPTS = """
CREATE TABLE attempts (
    run INTEGER NOT NULL, number INTEGER NOT NULL,
    trial INTEGER,                   -- trials.number
    grp TEXT NOT NULL, mapping TEXT NOT NULL,
    program TEXT NOT NULL,           -- JSON list of [dimension, value]
    promised REAL,                   -- NULL where nothing is promised
    state TEXT NOT NULL, microseconds REAL, failure TEXT NOT NULL, message TEXT NOT NULL,
    seconds REAL NOT NULL, worker TEXT NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID
"""
_ROUNDS = """
CREATE TABLE rounds (
    run INTEGER NOT NULL, number INTEGER NOT NULL,
    kind TEXT NOT NULL, grp TEXT NOT NULL, mapping TEXT NOT NULL, reason TEXT NOT NULL,
    figures TEXT NOT NULL,           -- JSON object
    best REAL,                       -- NULL while nothing ran
    attempts INTEGER NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID
"""
_SPREAD = (
    "ALTER TABLE attempts ADD COLUMN low REAL",  # NULL for a time without samples
    "ALTER TABLE attempts ADD COLUMN high REAL",
)
_REFUSED = "ALTER TABLE runs ADD COLUMN refused TEXT NOT NULL DEFAULT '[]'"  # JSON list of RefusedRecord
STEPS = ((_TRIALS,), (_RUNS, _ATTEMPTS, _ROUNDS), (*_SPREAD, _REFUSED))
"""What each version adds to the one before it."""


def version_of(connection: sqlite3.Connection, path: Path) -> int:
    """The version of a file's tables, 0 for an empty file.  Raises BadInput for one of others or of a newer version."""
    connection.execute("BEGIN")  # one snapshot for all three: another process may be creating the tables right now
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        connection.execute("ROLLBACK")
    if application != APPLICATION and (tables or application or version):
        raise BadInput("records", str(path), "is a database of another program", FOREIGN_HINT)
    if version > FORMAT:
        reason = f"is of format {version}, this version reads up to {FORMAT}"
        raise BadInput("records", str(path), reason, "use the version of Loomscope that wrote it, or newer")
    return int(version)


def upgrade(connection: sqlite3.Connection) -> None:
    """Add the tables and columns that the file lacks.

    The version is read again under the write lock: another process may have upgraded the file meanwhile.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for statements in STEPS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
