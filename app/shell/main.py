"""Starts the window."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QSettings, QTimer
from PySide6.QtWidgets import QApplication

from app.session.client import COMMAND, Client
from app.session.workspace import Workspace
from app.shell.faults import report_faults
from app.shell.gc_control import Collector
from app.shell.later_imports import LaterImports
from app.shell.preferences import memory_limit, preferred_target
from app.shell.sigint import note_interrupts
from app.shell.window import Window
from views.theme import face, load_faces

INTERRUPT_POLL_MS = 200


def application() -> QApplication:
    """The one application object, with the program's name and faces."""
    existing = QApplication.instance()
    if isinstance(existing, QApplication):
        made = existing
    else:
        made = QApplication(sys.argv[:1])
        made.setApplicationName("Loomscope")
        made.setOrganizationName("Loomscope")
        made.setDesktopFileName("loomscope")
        Collector(made)
    made.setStyle("Fusion")
    load_faces()
    made.setFont(face())
    return made


def make_window(
    target: str | None = None,
    dimensions: Mapping[str, int] | None = None,
    theme: str | None = None,
    command: Sequence[str] = COMMAND,
    journals: Path | None = None,
) -> Window:
    """A window with its own worker; nothing is open yet.

    `target`: a GPU's name; None for the preferred one.  `journals`: where unsaved edits are kept.
    """
    settings = QSettings()
    client = Client(command)
    client.limit_memory(memory_limit(settings))
    workspace = Workspace(client, target or preferred_target(settings), dimensions)
    return Window(workspace, theme, journals)


def run(path: str | None, target: str | None = None, dimensions: Mapping[str, int] | None = None) -> int:
    """Opens the window, with a file if there is one, and returns the program's exit code; KeyboardInterrupt ends it."""
    with note_interrupts() as interrupts:
        program = application()
        window = make_window(target, dimensions)
        window.restore_layout()
        window.show()
        window.workspace.start()
        imports = LaterImports()
        QTimer.singleShot(0, imports.start)
        window.document.look_for_orphans()
        if path:
            window.open_file(path)
        poll = QTimer()
        poll.timeout.connect(lambda: program.quit() if interrupts.any else None)
        poll.start(INTERRUPT_POLL_MS)
        with report_faults(window.notice):
            code = program.exec()
        if window.isVisible():
            window.close()
        imports.end()  # here, where another interrupt is only noted: Python's own wait at the end prints it
    return code
