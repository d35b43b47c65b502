"""Notices that another program wrote a file, also by putting a new one in its place."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal

from app.session import loom_file
from app.session.background import Background

QUIET_MS = 200
"""How long a file must have been left alone: writers write in parts."""


class FileWatch(QObject):
    """Watches one file; what has other bytes than before is told, once for each change."""

    changed = Signal(str)

    def __init__(self, background: Background) -> None:
        super().__init__()
        self._background = background
        self._path: Path | None = None
        self._digest = ""
        self._watcher = QFileSystemWatcher(self)
        self._pause = QTimer(self, singleShot=True, interval=QUIET_MS)
        self._pause.timeout.connect(self._look)
        for signal in (self._watcher.fileChanged, self._watcher.directoryChanged):
            signal.connect(lambda _: self._pause.start())

    def watch(self, path: Path | None) -> None:
        """Watches another file as it is now; None, or what is no file, ends it."""
        if watched := [*self._watcher.files(), *self._watcher.directories()]:
            self._watcher.removePaths(watched)
        self._pause.stop()
        self._path, self._digest = path if path and path.is_file() else None, ""
        if self._path is not None:
            self._follow(self._path)
            self._compare(self._path, told=False)

    def _follow(self, path: Path) -> None:
        """A file that was replaced is another one, whose name in its folder has to be watched again."""
        self._watcher.addPaths([str(path), str(path.parent)])

    def _look(self) -> None:
        path = self._path
        if path is not None and path.is_file():  # between taking the old one away and putting the new one there is none
            if str(path) not in self._watcher.files():
                self._watcher.addPath(str(path))
            self._compare(path, told=True)

    def _compare(self, path: Path, told: bool) -> None:
        """Reads the file on the thread; its bytes decide, as a time of change alone says little."""

        def on_digest(found: str) -> None:
            if path != self._path or not found or found == self._digest:
                return
            self._digest = found
            if told:
                self.changed.emit(str(path))

        self._background.run(lambda: loom_file.digest(path), on_digest, lambda _: None)
