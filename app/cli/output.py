"""How verbs speak: one JSON document or tables on standard output, progress and errors on standard error."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from app.cli.standard_streams import in_words
from app.exit_codes import INTERRUPTED, STEP, TELLS_PROGRESS

if TYPE_CHECKING:
    # Only for the type: importing the engine takes a second that `--help` need not wait for.
    from engine.support.errors import EngineError, MissingCapability

SCHEMA = 1
"""Version of every JSON document; a key that changes its meaning raises it."""

Item = TypeVar("Item")

STANDARD_OUTPUT = "standard output"

WIDE = 200
"""Columns of a table that goes into a file or a pipe."""
QUIET = 15.0
"""Least seconds between two lines that tell progress into a file or a pipe."""


class _Console(Console):
    """A console that passes the error of a closed pipe on, as plain writing does."""

    def on_broken_pipe(self) -> None:
        """Called by rich while it handles the BrokenPipeError."""
        raise


_is_terminal = sys.stdout is not None and sys.stdout.isatty()
stdout = _Console(highlight=False, soft_wrap=True, width=None if _is_terminal else WIDE)
stderr = Console(stderr=True, highlight=False, soft_wrap=True)


_csv: ContextVar[Path | None] = ContextVar("csv", default=None)
"""Where the rows of the next document go instead of standard output."""


@contextlib.contextmanager
def rows_to(path: Path) -> Iterator[None]:
    """While it is open, the first list of rows in a document is written to a CSV file, whole or not at all."""
    from engine.support.files import check_place

    check_place(path, "command line")
    before = _csv.set(path)
    try:
        yield
    finally:
        _csv.reset(before)


def _write_rows(path: Path, document: Mapping[str, Any]) -> None:
    """Figures as they are; what is a list or a document itself stands as JSON in its cell."""
    from engine.support.files import write_whole

    lists = (each for each in document.values() if isinstance(each, list | tuple))
    rows = next((each for each in lists if each and isinstance(each[0], dict)), [])
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    for row in rows:
        writer.writerow({key: _cell(value) for key, value in row.items()})
    write_whole(path, text.getvalue(), "command line")
    say(f"{path}: {len(rows):,} rows")


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False)


def document(**keys: Any) -> None:
    """The one document of a `--json` run."""
    path = _csv.get()
    if path is not None:
        _write_rows(path, keys)
        return
    is_narrow = not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    with _writing():
        sys.stdout.write(json.dumps({"schema": SCHEMA, **keys}, indent=2, ensure_ascii=is_narrow) + "\n")


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Names standard output in its errors, as the system names files."""
    try:
        yield
    except OSError as error:
        error.filename = STANDARD_OUTPUT
        raise


def flush() -> None:
    """Whatever was written reaches its reader, or the error says that it does not."""
    with _writing():
        sys.stdout.flush()


def send(data: bytes) -> None:
    """A file as it is, on standard output."""
    with _writing():
        if isinstance(sys.stdout, _Closed):
            sys.stdout.write("")
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


class _Closed(io.TextIOBase):
    """Standard output of a program that was started with none."""

    lost = False

    def write(self, text: str) -> int:
        """It cannot take anything; from then on it cannot be flushed either."""
        self.lost = True
        return self._refuse()

    def flush(self) -> None:
        """Nothing waits unless something was written."""
        if self.lost:
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EBADF, "it is closed", STANDARD_OUTPUT)


def run(program: Callable[[], object], pipe_closed: int) -> str | int | None:
    """The exit code of a program, with errors of its streams reported; `pipe_closed` where the reader went away."""
    prepare()
    code: str | int | None = None
    for step in (program, flush):  # what waits is written also where the program ended with an error
        try:
            with _writing():  # help: a verb tells its own
                step()
        except SystemExit as end:
            code = end.code
        except KeyboardInterrupt:  # a signal while the verbs are read, before one of them runs
            code = INTERRUPTED
        except BrokenPipeError:
            discard()
            code = pipe_closed
        except OSError as error:
            failure(io_error(error))
            code = 3
    return code


def prepare() -> None:
    """Before anything is written: text that the encoding of a stream lacks is replaced, a closed stream told."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        if stream is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)  # no other file may take its place
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if sys.stdout is None:
        sys.stdout = _Closed()


def io_error(error: OSError) -> MissingCapability:
    """The error for a file or a stream that could not be read or written."""
    from engine.support.errors import MissingCapability
    from engine.support.files import FULL

    if error.filename == STANDARD_OUTPUT:
        discard()
    is_full = error.filename == STANDARD_OUTPUT or error.errno in FULL
    hint = "free some space, or send the output elsewhere" if is_full else "see that it exists and that you may use it"
    return MissingCapability("output", str(error.filename or "a file"), f"{error.strerror or error}", hint)


def discard() -> None:
    """Discard what is left of standard output: its reader has gone."""
    if isinstance(sys.stdout, _Closed):
        sys.stdout.lost = False
    else:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def row_about_group(document: object) -> dict[str, Any]:
    """A document about a group for the one that is printed, where `name` is the group's."""
    from engine.support.serialization import fields_to_json

    fields = fields_to_json(document)
    return {"name": fields.pop("group"), **fields}


def say(text: str) -> None:
    """A line for people, printed as it is."""
    with _writing():
        stdout.print(in_words(text), markup=False)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows for people; a column whose name ends with ">" is aligned to the right."""
    drawn = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        name, right = column.removesuffix(">"), column.endswith(">")
        drawn.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in rows:
        drawn.add_row(*(cell.replace("[", r"\[") for cell in row))  # brackets are shapes here, not rich's markup
    with _writing():
        stdout.print(drawn)


@contextlib.contextmanager
def steps(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar that moves when it is called with (text, done, total).

    Where standard error is no terminal, a line now and then; all steps, where who started this process asked for them.
    """
    if os.environ.get(TELLS_PROGRESS):
        yield _tell_step
        return
    if not stderr.is_terminal:
        yield _occasional_lines()
        return
    with _progress() as progress:
        task = progress.add_task(what, total=None)
        yield lambda text, done, total: progress.update(task, description=text, completed=done, total=total)


def track(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The items, with a progress bar on standard error where that is a terminal."""
    with steps(what) as step:
        step(what, 0, total)
        for done, item in enumerate(items, 1):
            yield item
            step(what, done, total)


def _tell_step(text: str, done: int, total: int) -> None:
    print(STEP + json.dumps([text, done, total]), file=sys.stderr, flush=True)


def _occasional_lines() -> Callable[[str, int, int], None]:
    """Print a step where the last line, or the beginning, is QUIET seconds ago: short work stays silent."""
    told = started = time.monotonic()

    def tell(text: str, done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= QUIET:
            told = now
            note(f"{text} ({done:,} of {total:,}, {now - started:.0f} s)")

    return tell


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=stderr, transient=True)


def failure(error: EngineError, repairs: Sequence[str] = ()) -> None:
    """An error in the user's words: the subject first, the hint on its own line, or the changes that resolve it."""
    warn(f"{error.subject}: {error.reason}")
    if repairs:
        note("  tried and found to help, one at a time:")
        for repair in repairs:
            note(f"    {repair}")
    elif error.hint:
        note(f"  hint: {error.hint}")


def note(text: str) -> None:
    """A line beside the result that is no warning."""
    stderr.print(in_words(text), markup=False)


def warn(text: str) -> None:
    """A line beside the result, red on a terminal: why the exit code is not 0."""
    stderr.print(in_words(text), markup=False, style="red" if stderr.is_terminal else None)
