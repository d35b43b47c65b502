"""Files of the window: dialogs, recent files, notices about errors, offers to recover."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QSettings, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QMainWindow, QMenu

from app.session.document import Document, left_title
from app.session.loom_file import SUFFIX
from app.session.recovery import Orphan
from engine.documents.model import ProblemDoc
from views.format import plural
from views.notice import News, Notice

RECENT = 8
MODELS = "Models (*.onnx *.json)"
WORKSPACES = f"Workspaces (*{SUFFIX})"
BOTH = f"Models and workspaces (*.onnx *.json *{SUFFIX})"
MEASUREMENTS = "Measurements (*.json)"
RECORDS = "Records of tuning (*.db *.sqlite)"
ANY = "All files (*)"


class FileActions(QObject):
    """Dialogs, recent files and notices of one window; nothing here stops the window."""

    replay_chosen = Signal(str)
    """A file of times to play."""
    records_chosen = Signal(str)
    """A file of records to follow."""
    other_chosen = Signal(str)
    """A model or workspace to compare the open one with."""

    def __init__(self, window: QMainWindow, document: Document, settings: QSettings, notice: Notice) -> None:
        super().__init__()
        self._window, self._document = window, document
        self._settings, self._notice = settings, notice
        self._menu: QMenu | None = None
        document.workspace.saved_path.connect(self._remember)
        document.saved.connect(self._remember)
        document.refused.connect(self._show_refusal)
        document.orphan_found.connect(self._offer)

    @property
    def title(self) -> str:
        """The document's name, with a star where there are unsaved edits; "" while nothing is open."""
        model = self._document.workspace.model
        if model is None:
            return ""
        name = Path(self._document.path or model.path).name or model.name
        return f"{name}{'*' if self._document.is_modified else ''}"

    def ask_open(self) -> None:
        """Asks for a model or a workspace to open."""
        self._ask("Open a model or a workspace", [BOTH, MODELS, WORKSPACES, ANY], self._document.open)

    def ask_replay(self) -> None:
        """Asks for a file of times to play."""
        self._ask("Replay a recorded run", [MEASUREMENTS, ANY], self.replay_chosen.emit)

    def ask_records(self) -> None:
        """Asks for a file of records to follow."""
        self._ask("Open tuning log", [RECORDS, ANY], self.records_chosen.emit)

    def ask_other(self) -> None:
        """Asks for a model or a workspace to compare with."""
        self._ask("Compare with a model or a workspace", [BOTH, MODELS, WORKSPACES, ANY], self.other_chosen.emit)

    def save(self) -> None:
        """Saves where it was saved before, else asks."""
        if self._document.path:
            self._document.save(self._document.path)
        else:
            self.ask_save()

    def ask_save(self) -> None:
        """Asks where to save."""
        opened = self._document.workspace.opened
        near = Path(self._document.path or opened.path).with_suffix(SUFFIX)
        dialog = QFileDialog(self._window, "Save the workspace", str(near))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(SUFFIX.removeprefix("."))
        dialog.setNameFilters([WORKSPACES])
        self.open_dialog(dialog, self._document.save)

    def fill_recent(self, menu: QMenu) -> None:
        """Keeps a menu filled with the files opened last."""
        self._menu = menu
        self._show_recent()

    def _ask(self, title: str, filters: list[str], chosen: Callable[[str], None]) -> None:
        dialog = QFileDialog(self._window, title)
        dialog.setNameFilters(filters)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        self.open_dialog(dialog, chosen)

    def open_dialog(self, dialog: QFileDialog, chosen: Callable[[str], None]) -> None:
        """Shows a dialog for files; `chosen` gets the one that was chosen."""
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(chosen)
        dialog.open()

    def _remember(self, path: str) -> None:
        known = [each for each in self.recent() if each != path]
        self._settings.setValue("recent", [path, *known][:RECENT])
        self._show_recent()

    def recent(self) -> list[str]:
        """The files opened last, the newest first."""
        stored = self._settings.value("recent", [])
        if isinstance(stored, str):  # how Qt keeps a list of one
            return [stored]
        return [str(path) for path in stored] if isinstance(stored, list) else []

    def _show_recent(self) -> None:
        if self._menu is None:
            return
        self._menu.clear()
        for path in self.recent():
            action = self._menu.addAction(Path(path).name)
            action.triggered.connect(lambda _=False, each=path: self._document.open(each))
        self._menu.setEnabled(bool(self.recent()))

    def _show_refusal(self, path: str, problem: ProblemDoc) -> None:
        """Says in the window what is wrong with a workspace file; where its model is missing, asks for that."""
        detail = f"{problem.reason}. {problem.hint}" if problem.hint else problem.reason
        choices: list[tuple[str, Callable[[], None]]] = []
        if problem.subject != Path(path).name and path.endswith(SUFFIX):
            choices.append(("Find the model…", lambda: self._ask_model(path)))
        self._notice.show_news(News(problem.subject, detail, choices))

    def _ask_model(self, path: str) -> None:
        self._ask("Find the model", [MODELS, ANY], lambda model: self._document.open_loom(path, model))

    def _offer(self, orphan: Orphan) -> None:
        left = orphan.left
        title = f"Recover {plural(left.edits, 'edit')} of {left_title(left)}?"
        choices = (
            ("Recover", lambda: self._document.recover(orphan)),
            ("Discard", lambda: self._document.discard(orphan)),
        )
        self._notice.show_news(News(title, "Unsaved changes of a window that ended.", choices))
