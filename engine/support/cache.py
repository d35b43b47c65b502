"""What compilers made, kept on disk under the hash of everything that went in.

Entries are written beside their place and renamed into it, so that concurrent processes only ever see whole ones.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def cache_folder() -> Path:
    """LOOMSCOPE_CACHE, else loomscope in XDG_CACHE_HOME, else ~/.cache/loomscope; made when absent."""
    chosen = os.environ.get("LOOMSCOPE_CACHE")
    if chosen:
        folder = Path(chosen)
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loomscope"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest(*parts: str | bytes) -> str:
    """One name for a sequence of parts; their boundaries count."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()[:40]


def digest_of_files(files: Iterable[Path]) -> str:
    """One name for the contents of files, in order of their paths."""
    ordered = sorted(files)
    return digest(*(part for file in ordered for part in (file.name, file.read_bytes())))


def read_entry(kind: str, name: str) -> bytes | None:
    """A kept entry, or None."""
    try:
        return (cache_folder() / kind / name).read_bytes()
    except OSError:
        return None


def write_entry(kind: str, name: str, data: bytes) -> None:
    """Keep an entry."""
    folder = cache_folder() / kind
    folder.mkdir(parents=True, exist_ok=True)
    handle, path = tempfile.mkstemp(dir=folder, prefix=".new-")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(path, folder / name)
