"""On-disk cache of compiler outputs, keyed by a hash of all inputs.

Entries are written beside their place and renamed into it, so that concurrent processes only ever see whole ones, and
each holds the hash of its contents: what a crash, a full disk or a hand has damaged is made again, never used.
Only the user may be able to write there, for some entries are run.  What was used least recently goes when the cache
has grown past its limit; an entry's modification time is when it was last used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from engine.support.errors import BadInput, MissingCapability
from engine.support.leftovers import lock, prefix, sweep, temporary_folder

PLACE_HINT = "free some space there, or name another folder with LOOMSCOPE_CACHE"
SUMS = "SHA256SUMS"
"""File of a folder entry that holds the hash of each of its files."""
KINDS = ("checked", "cubin", "emulator", "machine", "native", "ptx", "suites")
"""Folders of the cache, whose entries are deleted where there are too many; nothing else in it is."""
LIMIT = "LOOMSCOPE_CACHE_GIB"
DEFAULT_LIMIT = 2.0
_NEW = "new"
"""Folder for what is being written."""
_TRIMMED = "trimmed"
"""File whose modification time is when the size of the cache was last looked at."""
_TRIM_SECONDS = 600.0
_TRIM_SHARE = 16
"""The size is looked at after a process wrote this part of the limit, or _TRIM_SECONDS after the last look."""
_OVERHEAD = 8192
"""Bytes on disk that an entry takes beside its data: blocks filled in part, its folder."""
_USE_SECONDS = 60.0
"""An entry's last use is noted to the minute, so that few reads write."""
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_PRIVATE = 0o700


def cache_folder() -> Path:
    """LOOMSCOPE_CACHE, else loomscope in XDG_CACHE_HOME, else ~/.cache/loomscope; made when absent.

    Raises MissingCapability where it cannot be made, and where others than the user can write there.
    """
    chosen = os.environ.get("LOOMSCOPE_CACHE")
    if chosen:
        folder = Path(chosen)
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loomscope"
    return _own(folder)


def cache_limit() -> int:
    """Bytes that the cache may hold.  Raises BadInput where LOOMSCOPE_CACHE_GIB is no number above 0."""
    text = os.environ.get(LIMIT, "")
    try:
        limit = float(text or DEFAULT_LIMIT)
    except ValueError:
        limit = 0.0
    if not 0 < limit < float("inf"):
        raise BadInput("cache", f"{LIMIT}={text}", "is no number above 0", f"the default is {DEFAULT_LIMIT:g} GiB")
    return int(limit * 2**30)


@dataclass(frozen=True, slots=True)
class CacheState:
    """What the cache holds."""

    folder: Path
    entries: int
    bytes: int
    limit: int


def cache_state() -> CacheState:
    """Raises MissingCapability as `cache_folder` does."""
    entries = _list_entries(cache_folder())
    return CacheState(cache_folder(), len(entries), sum(entry.bytes for entry in entries), cache_limit())


def clear_cache() -> CacheState:
    """Delete every entry; the state before."""
    before = cache_state()
    for entry in _list_entries(before.folder):
        _delete(entry.path)
    sweep_leftovers()
    return before


def sweep_leftovers() -> None:
    """Remove what killed processes left in the cache and among the temporary files; called where a program starts."""
    try:
        places = [cache_folder() / _NEW]
    except MissingCapability:
        places = []
    sweep(*places)


@dataclass(frozen=True, slots=True)
class _CacheEntry:
    path: Path
    used: float
    bytes: int


def _list_entries(cache: Path) -> list[_CacheEntry]:
    entries = []
    for kind in KINDS:
        with suppress(OSError), os.scandir(cache / kind) as found:
            for each in found:
                with suppress(OSError):  # another process deleted it
                    entries.append(_CacheEntry(Path(each.path), each.stat().st_mtime, _size(each)))
    return entries


def _size(entry: os.DirEntry[str]) -> int:
    """Bytes of a file or of the files in a folder, in whole blocks of the disk."""
    if not entry.is_dir(follow_symlinks=False):
        return entry.stat(follow_symlinks=False).st_blocks * 512
    with os.scandir(entry.path) as files:
        return sum(map(_size, files))


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


_written = 0
"""Bytes that this process wrote since it last looked at the size of the cache."""


def _trim(size: int) -> None:
    """After an entry of that size was written: where the cache is past its limit, delete the least recently used."""
    global _written
    _written += size + _OVERHEAD
    cache, limit = cache_folder(), cache_limit()
    stamp = cache / _TRIMMED
    try:
        is_due = _written > limit / _TRIM_SHARE or time.time() - stamp.stat().st_mtime > _TRIM_SECONDS
    except OSError:
        is_due = True
    if not is_due:
        return
    _written = 0
    with suppress(OSError):  # on a full disk this is wanted most
        stamp.touch()
    entries = sorted(_list_entries(cache), key=lambda entry: entry.used)
    total = sum(entry.bytes for entry in entries)
    # The margin is what all processes may write until one of them looks again.
    wanted = limit - 2 * limit // _TRIM_SHARE
    if total <= limit - limit // _TRIM_SHARE:
        return
    for entry in entries:
        if total <= wanted:
            break
        _delete(entry.path)
        total -= entry.bytes


def _note_use(path: Path) -> None:
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > _USE_SECONDS:
            os.utime(path)


def _own(folder: Path) -> Path:
    """The folder, created if absent.  MissingCapability if another user could plant files in it."""
    try:
        folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        state = folder.stat()
    except FileExistsError as error:
        hint = f"delete {folder}, or name another folder with LOOMSCOPE_CACHE"
        raise MissingCapability("cache", str(folder), "is a file where a folder is wanted", hint) from error
    except OSError as error:
        raise unwritable(folder, error) from error
    # Windows keeps the user's folders private by access lists, which stat does not show.
    if os.name != "posix":
        return folder
    if state.st_uid != os.geteuid():
        hint = f"name a folder of your own with LOOMSCOPE_CACHE, or delete {folder}"
        raise MissingCapability("cache", str(folder), "belongs to another user, and what it holds is run", hint)
    if state.st_mode & stat.S_IWOTH or (state.st_mode & stat.S_IWGRP and not _is_private(state.st_gid)):
        hint = f"delete what you do not trust there, then: chmod -R go-w {folder}; or name another with LOOMSCOPE_CACHE"
        raise MissingCapability("cache", str(folder), "others can write there, and what it holds is run", hint)
    return folder


def _is_private(group: int) -> bool:
    """Whether a Unix group has the user as its only member, as the group created with an account does."""
    import grp
    import pwd

    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_gid == user.pw_gid and found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}


def unwritable(path: Path, error: OSError) -> MissingCapability:
    """The error for a cache path that cannot be written."""
    return MissingCapability("cache", str(path), f"cannot be written: {error.strerror or error}", PLACE_HINT)


def digest(*parts: str | bytes) -> str:
    """A hash of a sequence of parts.  Lengths are hashed too, so that ("ab", "c") and ("a", "bc") differ."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()[:40]


def digest_of_files(files: Iterable[Path]) -> str:
    """A hash of the contents of files, in order of their paths."""
    ordered = sorted(files)
    return digest(*(part for file in ordered for part in (file.name, file.read_bytes())))


def read_entry(kind: str, name: str) -> bytes | None:
    """The contents of an entry; None if it is absent or its checksum does not match."""
    path = _own(cache_folder() / kind) / name
    head, _, body = (_own_bytes(path) or b"").partition(b"\n")
    if head != _sum(body):
        return None
    _note_use(path)
    return body


def write_entry(kind: str, name: str, data: bytes) -> None:
    """Write an entry.  Raises MissingCapability where it cannot be written."""
    _replace(_own(cache_folder() / kind) / name, _sum(data) + b"\n" + data)


def keep_file(kind: str, name: str, data: bytes) -> Path:
    """The path of a cache file with exactly these bytes, for programs that read files.  Raises MissingCapability where
    it cannot be written."""
    path = _own(cache_folder() / kind) / name
    if _own_bytes(path) != data:
        _replace(path, data)
    _note_use(path.parent)
    return path


def _replace(path: Path, data: bytes) -> None:
    """Write a file atomically, with permissions for the user alone."""
    beside = None
    try:
        handle, beside = tempfile.mkstemp(dir=_own(cache_folder() / _NEW), prefix=prefix())
        # mkstemp creates the file with mode 600.
        with os.fdopen(handle, "wb") as file:
            lock(handle)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.is_dir():  # nothing of ours
            shutil.rmtree(path)
        os.replace(beside, path)
    except OSError as error:
        if beside is not None:
            Path(beside).unlink(missing_ok=True)
        raise unwritable(path, error) from error
    _trim(len(data))


def read_folder(kind: str, name: str) -> Path | None:
    """The path of a cached folder; None if it is absent or a file in it fails its checksum."""
    folder = _own(cache_folder() / kind) / name
    sums = _own_bytes(folder / SUMS)
    lines = (sums or b"").decode(errors="replace").splitlines()
    for line in lines:
        wanted, _, file = line.partition("  ")
        data = _own_bytes(folder / file)
        if data is None or _sum(data).decode() != wanted:
            return None
    if not lines:
        return None
    _note_use(folder)
    return folder


def keep_folder(kind: str, name: str, made: Path) -> Path:
    """Move a folder of files, made in a `workplace` of that kind, into the cache; its path there.

    Raises MissingCapability where it cannot be written.
    """
    place = _own(cache_folder() / kind) / name
    try:
        files = sorted(file for file in made.iterdir() if file.is_file())
        size = sum(file.stat().st_size for file in files)
        (made / SUMS).write_text("".join(f"{_sum(f.read_bytes()).decode()}  {f.name}\n" for f in files))
        for file in (*files, made / SUMS):
            file.chmod(file.stat().st_mode & ~_OTHERS)  # what a compiler wrote has the user's own mask
            _flush(file)
        try:
            # Renaming onto an existing folder that is not empty fails, unlike os.replace for files.
            os.rename(made, place)
        except OSError:
            if read_folder(kind, name) is None:  # else another process was faster; its files are the same
                shutil.rmtree(place, ignore_errors=True)
                place.unlink(missing_ok=True)
                os.rename(made, place)
    except OSError as error:
        if read_folder(kind, name) is None:
            raise unwritable(place, error) from error
    else:
        _trim(size)
    return place


@contextmanager
def workplace(kind: str) -> Iterator[Path]:
    """A temporary folder on the same file system as the entries of a kind, so that it can be renamed into place;
    removed on exit.

    Raises MissingCapability where it cannot be made.
    """
    beside = _own(cache_folder() / _NEW)
    _own(cache_folder() / kind)
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder(beside))
        except OSError as error:
            raise unwritable(beside, error) from error
        yield folder


def _sum(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def _own_bytes(path: Path) -> bytes | None:
    """The bytes of a regular file that only the user can write; None for any other path."""
    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            foreign = os.name == "posix" and (state.st_uid != os.geteuid() or state.st_mode & _OTHERS)
            return None if foreign or not stat.S_ISREG(state.st_mode) else file.read()
    except OSError:
        return None


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
