"""`-` in place of a file: what is piped in, as a copy that any reader opens; what is written, sent on at the end.

Readers and writers of files know nothing of it: they get the path of a private file.
The engine is imported inside functions, so that `--help` is quick.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import typer

STREAM = "-"
_PRIVATE = re.compile(r"[^\s'\"]*/loomscope-\d+-\w+/standard-(input|output)(\.\w+)?")
"""The path of a private file."""


def read_file(text: str | Path) -> Path:
    """The path of a file that is read; `-` is a copy of standard input."""
    from app.session.named_models import copy_of_standard_input

    return copy_of_standard_input() if str(text) == STREAM else Path(text)


def written_file(text: str | Path, ending: str = "") -> Path:
    """The path of a file that is written; `-` is standard output, which gets what a file with that ending would."""
    from engine.support.leftovers import process_folder

    return process_folder() / f"standard-output{ending}" if str(text) == STREAM else Path(text)


def place_on_disk(text: str | Path) -> Path:
    """The path of a folder, or of a file that is read and written: no stream can stand for it."""
    if str(text) == STREAM:
        raise typer.BadParameter("a stream cannot stand for this: name a place on disk")
    return Path(text)


def written_table(text: str | Path) -> Path:
    """The path of a table that is written, in standard output as comma-separated values."""
    return written_file(text, ".csv")


@contextlib.contextmanager
def send_on(operands: Mapping[str, object], send: Callable[[bytes], None]) -> Iterator[None]:
    """Run a verb in it: what it writes to `-` is sent to standard output at its end, its words go to standard error.

    BadInput where two files, or a file and the document of --json, are one stream.
    """
    given = [str(each) for value in operands.values() for each in (value if isinstance(value, list) else [value])]
    read = [each for each in given if each == STREAM or _stream_of(each) == "input"]
    written = [each for each in given if _stream_of(each) == "output"]
    if len(read) > 1 or len(written) + (operands.get("json") is True) > 1:
        _refuse("standard input" if len(read) > 1 else "standard output")
    if not written:
        yield
        return
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:  # a search that is interrupted has written its best
        if Path(written[0]).is_file():
            send(Path(written[0]).read_bytes())


def in_words(text: str) -> str:
    """A message with "standard input" or "standard output" in place of the private file's path."""
    return _PRIVATE.sub(r"standard \1", text)


def _stream_of(path: str) -> str | None:
    found = _PRIVATE.fullmatch(path)
    return found[1] if found else None


def _refuse(stream: str) -> None:
    from engine.support.errors import BadInput

    raise BadInput("command line", stream, "is asked to be two things at once", "name a file for all but one of them")
