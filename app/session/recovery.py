"""Journals: every edit of a window on disk as soon as it is made, so that a crash loses none.

A journal is a file of JSON lines in the user's data folder: first a whole workspace, then one line for each change.
Its window holds a lock on it.  A journal that nobody holds and that has edits in it is what a crash, or a window that
was closed without saving, left behind.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from itertools import chain, compress, repeat
from operator import is_not, ne
from pathlib import Path
from typing import IO, Any

from PySide6.QtCore import QLockFile, QStandardPaths

from app.session.history import History, HistoryRecord, HistoryStep
from app.session.loom_file import LoomFile, as_plain, from_plain
from engine.support.errors import BadInput
from engine.support.files import parse_json
from engine.support.serialization import from_json, to_json

SUFFIX = ".journal"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """What became different in one group's history."""

    group: str
    steps: tuple[tuple[int, HistoryStep], ...]
    """Steps that are new or know more, with their numbers."""
    current: int
    baseline: int
    visited: tuple[tuple[int, int], ...]
    draft: str
    edits: int
    """Edits that are not saved, this one included."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a journal holds that was left behind."""

    content: LoomFile
    loom: str
    """The workspace file that was open, or ""."""
    edits: int
    """Edits since that file was saved."""


def journal_folder() -> Path:
    """Where this user's journals are."""
    return Path(QStandardPaths.writableLocation(QStandardPaths.StandardLocation.AppDataLocation)) / "journals"


class Journal:
    """The journal of one window; nothing is on disk before the first change."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{uuid.uuid4().hex}{SUFFIX}"
        self._lock = _lock(self.path)
        self._file: IO[str] | None = None
        self._written: dict[str, HistoryRecord] = {}
        self._base: tuple[LoomFile, str, int] | None = None

    def begin(self, content: LoomFile, loom: str, edits: int) -> None:
        """Starts anew from a workspace with `edits` unsaved ones; those are on disk when this returns."""
        self.discard()
        self._written = dict(content.groups)
        self._base = content, loom, edits
        if edits:
            self._open()

    def note(self, group: str, trail: HistoryRecord, edits: int) -> None:
        """Puts what changed in a group's history on disk.  OSError where the folder cannot be written."""
        change = _change(group, self._written.get(group), trail, edits)
        if change is None or self._base is None:
            return
        if self._file is None:
            self._open()
        assert self._file is not None
        self._file.write(json.dumps(to_json(change), ensure_ascii=False) + "\n")
        self._file.flush()  # what the system has survives the end of this process, whatever ends it
        self._written[group] = trail

    def discard(self) -> None:
        """Removes the journal from disk: everything in it is saved, or it was declined."""
        self.leave(keep=False)

    def leave(self, keep: bool = True) -> None:
        """Lets go of the journal; by default it stays on disk for a later window."""
        if self._file is not None:
            self._file.close()
            self._file = None
            if not keep:
                self.path.unlink(missing_ok=True)
        self._lock.unlock()

    def _open(self) -> None:
        assert self._base is not None
        content, loom, edits = self._base
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock.tryLock(0)
        self._file = self.path.open("w", encoding="utf-8")
        header = {"loom": loom, "edits": edits, "workspace": as_plain(content)}
        self._file.write(json.dumps(header, ensure_ascii=False) + "\n")
        self._file.flush()  # the next crash may come before the buffer is full


class Orphan:
    """A journal that was left behind; while it is held, no other window offers it."""

    def __init__(self, path: Path, lock: QLockFile, left: Left) -> None:
        self.path, self.left = path, left
        self._lock = lock

    def discard(self) -> None:
        """Removes it."""
        self.path.unlink(missing_ok=True)
        self._lock.unlock()

    def release(self) -> None:
        """Lets go of it; another window may offer it."""
        self._lock.unlock()


def find_orphans(folder: Path) -> list[Orphan]:
    """The journals that were left behind with edits in them, the newest first; each is held until it is let go."""
    found: list[Orphan] = []
    for path in sorted(folder.glob(f"*{SUFFIX}"), key=_age):
        lock = _lock(path)
        if not lock.tryLock(0):
            continue
        left = read_journal(path)
        if left is not None and left.edits:
            found.append(Orphan(path, lock, left))
        else:
            lock.unlock()
    return found


def read_journal(path: Path) -> Left | None:
    """What a journal holds, up to the line that was being written; None where not even its first line is whole."""
    try:
        lines = path.read_bytes().split(b"\n")
        header: Any = parse_json(lines[0].decode())
        content = from_plain(header["workspace"], path.name)
        loom, edits = from_json(str, header["loom"]), from_json(int, header["edits"])
        groups = dict(content.groups)
        for line in lines[1:]:
            change = _follow(groups, line)
            if change is None:
                break  # cut short
            content = replace(content, selection=change.group, statements=())
            edits = change.edits
        for trail in groups.values():
            History.of(trail)
    except (OSError, ValueError, KeyError, TypeError, BadInput):
        return None
    return Left(replace(content, groups=groups), loom, edits)


def _change(group: str, old: HistoryRecord | None, new: HistoryRecord, edits: int) -> JournalEntry | None:
    """What `new` has and `old` has not; None where they are equal."""
    if old == new:
        return None
    # Steps and visits keep their places, so that what is equal is passed over without Python's loops.
    before, known = (old.steps, old.visited) if old else ((), ())
    steps = tuple(compress(enumerate(new.steps), map(is_not, new.steps, chain(before, repeat(None)))))
    visited = tuple(compress(new.visited, map(ne, new.visited, chain(known, repeat(None)))))
    return JournalEntry(group, steps, new.current, new.baseline, visited, new.draft, edits)


def _follow(trails: dict[str, HistoryRecord], line: bytes) -> JournalEntry | None:
    """Applies one line of a journal; None for a line that is not whole."""
    try:
        change = from_json(JournalEntry, parse_json(line.decode()))
    except (ValueError, BadInput):
        return None
    before = trails.get(change.group, HistoryRecord(()))  # a group whose first kernel came after the journal began
    steps, visited = dict(enumerate(before.steps)) | dict(change.steps), dict(before.visited) | dict(change.visited)
    kept = tuple(steps.values()), change.current, change.baseline, tuple(visited.items())
    trails[change.group] = HistoryRecord(*kept, change.draft)
    return change


def _age(path: Path) -> float:
    """Orders journals, the newest first; one that another window removes meanwhile comes last."""
    try:
        return -path.stat().st_mtime
    except OSError:
        return 0.0


def _lock(path: Path) -> QLockFile:
    """The lock of a journal; that of a process that is gone does not count."""
    lock = QLockFile(str(path.with_suffix(".lock")))
    lock.setStaleLockTime(0)  # a window may stay open for days: only the end of its process frees a lock
    return lock
