"""Reading and writing user files: sizes are bounded, writes are atomic, errors name the file."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from pathlib import Path

from engine.support.budgets import MAX_TEXT_BYTES
from engine.support.errors import BadInput, EngineError, MissingCapability

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Error numbers that blame the disk, not the file name."""
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""In JSON, half of a character that takes two: no UTF-8 can hold one alone."""
_NO_FOLDER = "name a file in a folder that exists"


def read_bytes(path: str | Path, stage: str, hint: str = "", most: int = MAX_TEXT_BYTES) -> bytes:
    """The bytes of a file.

    BadInput, of that stage and with that hint, where it is missing, no file (a pipe or a device never ends), empty or
    larger than `most` bytes.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise BadInput(stage, str(path), "is not a file", hint)
        if size > most:
            raise BadInput(stage, str(path), f"has {size} bytes, more than {most >> 20} MiB", hint)
        data = path.read_bytes()
    except FileNotFoundError:
        raise BadInput(stage, str(path), "there is no such file", hint) from None
    except OSError as error:
        raise BadInput(stage, str(path), f"cannot be read: {error.strerror or error}", hint) from None
    if not data:
        raise BadInput(stage, str(path), "is empty", hint)
    return data


def read_text(path: str | Path, stage: str, hint: str = "") -> str:
    """The text of a file.  BadInput as of `read_bytes`, and where it is not UTF-8."""
    try:
        return read_bytes(path, stage, hint).decode()
    except UnicodeDecodeError:
        raise BadInput(stage, str(path), "is no text in UTF-8", hint) from None


def read_json(path: str | Path, stage: str, hint: str = "", most: int = MAX_TEXT_BYTES) -> object:
    """The parsed contents of a JSON file.  BadInput as of `read_bytes`, and with the line where it is not JSON."""
    try:
        return parse_json(read_bytes(path, stage, hint, most).decode())
    except json.JSONDecodeError as error:
        reason = "is cut short" if _ends_early(error) else f"is no JSON: {error.msg} in line {error.lineno}"
    except UnicodeDecodeError:
        reason = "is no JSON: its bytes are no text in UTF-8"
    except ValueError as error:
        reason = f"is JSON that {error}"
    raise BadInput(stage, str(path), reason, hint)


def parse_json(text: str) -> object:
    """What a JSON text says.

    Raises JSONDecodeError where it is none, and ValueError ("is nested too deeply") for JSON that no file of ours
    holds: a number of thousands of digits, or text that could not be written again.
    """
    try:
        data = json.loads(text)
        if _HALF.search(text):
            json.dumps(data, ensure_ascii=False).encode()
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("holds half of a Unicode pair") from None
    except ValueError:
        raise ValueError("holds a number with thousands of digits") from None
    return data


def _ends_early(error: json.JSONDecodeError) -> bool:
    """Whether a JSON object lacks its end, as in a file that was copied in part."""
    text = error.doc.strip()
    return text.startswith("{") and (not text.endswith("}") or error.pos >= len(error.doc.rstrip()))


def write_whole(path: str | Path, content: str, stage: str) -> None:
    """Write a text file as `replace_whole` does; raises what `unwritable` says where it cannot be written."""
    check_place(path, stage)
    try:
        replace_whole(Path(path), content.encode())
    except OSError as error:
        raise unwritable(path, stage, error) from error


def unwritable(path: str | Path, stage: str, error: OSError) -> EngineError:
    """The error for a file that could not be written: MissingCapability for a full or broken disk, else BadInput."""
    reason = f"cannot be written: {error.strerror or error}"
    if error.errno in FULL:
        return MissingCapability(stage, str(path), reason, "free some space there, or name another place")
    return BadInput(stage, str(path), reason, "name another place")


def replace_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: readers see the old contents until all of the new ones are on disk.

    A device or a pipe is written as it comes.  Raises OSError, and then the file is what it was.
    """
    place = path.resolve()  # behind a link, the file that it leads to
    if place.exists() and not place.is_file() and not place.is_dir():
        place.write_bytes(data)
        return
    # In the same folder, because a rename is atomic within one file system only.
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if place.is_file():
            shutil.copymode(place, beside)
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)


def check_place(path: str | Path, stage: str) -> None:
    """BadInput if no file can be written at a path; asked before minutes of work that end in that file."""
    try:
        place = Path(path).resolve()
        place.lstat()
    except (FileNotFoundError, NotADirectoryError):  # the folder is looked at below
        pass
    except OSError as error:
        raise unwritable(path, stage, error) from None
    if place.is_dir():
        raise BadInput(stage, str(path), "cannot be written: it is a folder", "name a file in it")
    if not place.parent.is_dir():
        raise BadInput(stage, str(path), f"cannot be written: there is no folder {place.parent}", _NO_FOLDER)
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise BadInput(stage, str(path), "cannot be written: permission denied", "name another place")
