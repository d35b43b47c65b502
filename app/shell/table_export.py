"""Tables of all panels as CSV files: one panel after the other, so that the window goes on between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

from app.session.background import Background
from engine.documents.model import ProblemDoc
from engine.support.files import replace_whole, unwritable
from views.tables import Table, comma_separated, tables_in


class TableExport(QObject):
    """Takes the rows from the widgets on the window's thread, and writes them on another."""

    moved = Signal(str, int, int)
    """The panel that comes next, panels that are done, and all."""
    ended = Signal(object, int)
    """The Problem, or None, and how many tables were written."""

    def __init__(self, stage: str) -> None:
        """stage: of the problems."""
        super().__init__()
        self._stage = stage
        self._background = Background()
        self._panels: list[tuple[str, QWidget]] = []
        self._folder = Path()
        self._next = self._count = 0
        self._turn = 0
        """Which export it is: what is heard of a cancelled one is dropped."""
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._take)

    def start(self, panels: Mapping[str, QWidget], folder: Path) -> None:
        """Begins with the first panel in a later event."""
        self.cancel()
        self._panels, self._folder = list(panels.items()), folder
        self._next = self._count = 0
        self._go_on()

    def cancel(self) -> None:
        """No further file is written; those that are whole stay."""
        self._turn += 1
        self._soon.stop()

    def close(self) -> None:
        """Waits for the file that is being written."""
        self.cancel()
        self._background.close()

    def _go_on(self) -> None:
        if self._next < len(self._panels):
            self.moved.emit(self._panels[self._next][0], self._next, len(self._panels))
            self._soon.start()
        else:
            self.ended.emit(None, self._count)

    def _take(self) -> None:
        """The tables of one panel."""
        name, panel = self._panels[self._next]
        files = {self._folder / f"{name}-{_words(title)}.csv": table for title, table in tables_in(panel)}
        work = partial(_write, files, self._stage)
        self._background.run(work, partial(self._on_written, self._turn), partial(self._on_error, self._turn))

    def _on_written(self, turn: int, count: int) -> None:
        if turn == self._turn:
            self._next, self._count = self._next + 1, self._count + count
            self._go_on()

    def _on_error(self, turn: int, problem: ProblemDoc) -> None:
        if turn == self._turn:
            self.ended.emit(problem, self._count)


def _words(title: str) -> str:
    """A table's name as part of a file's."""
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _write(files: Mapping[Path, Table], stage: str) -> int:
    """Writes tables; how many."""
    for path, table in files.items():
        try:
            replace_whole(path, comma_separated(table).encode())
        except OSError as error:
            raise unwritable(path.parent, stage, error) from error
    return len(files)
