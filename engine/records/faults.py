"""SQLite's errors for a damaged, foreign, locked or full file, as EngineErrors with a hint."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from engine.support.errors import BadInput, EngineError, MissingCapability

PRIMARY = 0xFF
"""Mask of the primary result code; the higher bits of an extended code say where it came from."""

FOREIGN_HINT = "name another file: records are kept in files of their own"
_ERRORS: dict[int, tuple[type[EngineError], str, str]] = {
    sqlite3.SQLITE_NOTADB: (BadInput, "is no file of records", FOREIGN_HINT),
    sqlite3.SQLITE_CORRUPT: (
        BadInput, "is damaged: a part of the file is missing or was overwritten",
        "take a copy from before, or name another file; `sqlite3 FILE .recover` saves what is left",
    ),
    sqlite3.SQLITE_BUSY: (
        BadInput, "is locked by another program that writes to it", "wait until it is done, or name another file",
    ),
    sqlite3.SQLITE_LOCKED: (BadInput, "is locked", "wait until the other program is done, or name another file"),
    sqlite3.SQLITE_FULL: (
        MissingCapability, "cannot grow: the disk is full", "free some space and resume: every finished trial is kept",
    ),
    sqlite3.SQLITE_IOERR: (
        MissingCapability, "cannot be read or written: the disk fails or is full",
        "free some space and resume: every finished trial is kept",
    ),
    sqlite3.SQLITE_READONLY: (BadInput, "may not be written", "give yourself the right to write, or name another file"),
    sqlite3.SQLITE_PERM: (BadInput, "may not be opened", "give yourself the right to, or name another file"),
    sqlite3.SQLITE_CANTOPEN: (BadInput, "cannot be opened or made", "look at the folder: is it there, may you write?"),
}  # fmt: skip


@contextlib.contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors about a file as EngineErrors that name it."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & PRIMARY
        kind, reason, hint = _ERRORS.get(code, (BadInput, f"cannot be used as records: {error}", FOREIGN_HINT))
        raise kind("records", str(path), reason, hint) from error
    except UnicodeDecodeError as error:  # SQLite does not look at the text that it returns
        kind, reason, hint = _ERRORS[sqlite3.SQLITE_CORRUPT]
        raise kind("records", str(path), reason, hint) from error


@contextlib.contextmanager
def readable(path: Path, what: str) -> Iterator[None]:
    """Raise BadInput where the values of a row are not what its columns are for: bad or deep JSON, other types."""
    try:
        yield
    except (ValueError, TypeError, RecursionError, BadInput) as error:
        hint = "take a copy from before, or name another file"
        raise BadInput("records", str(path), f"holds {what} that cannot be read: {error}", hint) from error


def figure(value: object) -> float | None:
    """A column of figures; TypeError for text in it, which SQLite lets in."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{value!r:.40} is no number")
