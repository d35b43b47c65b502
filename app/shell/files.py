"""Files of the window: dialogs, recent files, notices about errors, offers to recover."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QSettings, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QMainWindow, QMenu, QMessageBox

from app.session.document import Document, left_title
from app.session.loom_file import SUFFIX
from app.session.recovery import Orphan
from engine.documents.model import ProblemDoc
from views.format import plural
from views.message import detail_of
from views.notice import News, Notice
from views.theme import RESOURCES

RECENT = 8
MODELS = "Models (*.onnx *.pt2 *.json)"
WORKSPACES = f"Workspaces (*{SUFFIX})"
BOTH = f"Models and workspaces (*.onnx *.pt2 *.json *{SUFFIX})"
MEASUREMENTS = "Measurements (*.json)"
STARTS = "Recipes and records of tuning (*.json *.db *.sqlite)"
RECORDS = "Records of tuning, logs of other tuners (*.db *.sqlite *.json *.log *.gz)"
ANY = "All files (*)"
SAMPLES = RESOURCES / "measurements" / "synthetic"
"""Where the dialog for recordings begins: there is one of the built-in example to try."""


class FileActions(QObject):
    """Dialogs, recent files and notices of one window; nothing here stops the window."""

    replay_chosen = Signal(str)
    """A file of times to play."""
    records_chosen = Signal(str)
    """A file of records to follow."""
    other_records_chosen = Signal(str)
    """A file of records to compare the shown run with."""
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
        document.changed_on_disk.connect(self._offer_reload)
        self._after_save: Callable[[], object] | None = None
        """What waits for unsaved edits to be saved."""
        document.saved.connect(lambda _: self._go_on())
        document.refused.connect(lambda *_: self._forget_rest())

    @property
    def title(self) -> str:
        """The document's name, with a star where there are unsaved edits; "" while nothing is open."""
        return f"{self.name}{'*' if self._document.is_modified else ''}" if self.name else ""

    @property
    def name(self) -> str:
        """The name of what is open, or ""."""
        model = self._document.workspace.model
        return "" if model is None else Path(self._document.path or model.path).name or model.name

    def open(self, path: str) -> None:
        """Opens a model or a workspace, once it is clear what becomes of unsaved edits."""
        self.settle_edits(lambda: self._document.open(path))

    def settle_edits(self, then: Callable[[], object]) -> None:
        """Asks what becomes of unsaved edits before they are left; nothing happens where somebody cancels."""
        if not self._document.is_modified:
            then()
            return
        buttons = QMessageBox.StandardButton
        box = QMessageBox(self._window, text=f"Save {plural(self._document.edits, 'edit')} of {self.name}?")
        box.setIcon(QMessageBox.Icon.Question)
        box.setInformativeText("What is not saved is lost.")
        box.setStandardButtons(buttons.Save | buttons.Discard | buttons.Cancel)
        box.setDefaultButton(buttons.Save)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.finished.connect(lambda answer: self._leave(buttons(answer), then))
        box.open()  # not exec: nothing may stop the event loop

    def _leave(self, answer: QMessageBox.StandardButton, then: Callable[[], object]) -> None:
        if answer == QMessageBox.StandardButton.Discard:
            self._document.abandon()
            then()
        elif answer == QMessageBox.StandardButton.Save:
            self.save()
            self._after_save = then

    def _go_on(self) -> None:
        """The edits are saved: what waited for that can be done."""
        then, self._after_save = self._after_save, None
        if then is not None:
            then()

    def _forget_rest(self) -> None:
        self._after_save = None

    def ask_open(self) -> None:
        """Asks for a model or a workspace to open."""
        self._ask("Open a model or a workspace", [BOTH, MODELS, WORKSPACES, ANY], self.open)

    def ask_replay(self) -> None:
        """Asks for a file of times to play."""
        self._ask("Replay a recorded run", [MEASUREMENTS, ANY], self.replay_chosen.emit, SAMPLES)

    def ask_records(self) -> None:
        """Asks for a file of records to follow."""
        self._ask("Open tuning log", [RECORDS, ANY], self.records_chosen.emit)

    def ask_other_records(self) -> None:
        """Asks for a file of records to compare the shown run with."""
        self._ask("Compare with the last run of another log", [RECORDS, ANY], self.other_records_chosen.emit)

    def ask_start(self, chosen: Callable[[str], None]) -> None:
        """Asks for a recipe or a file of records to start the next search from."""
        self._ask("Start from a recipe or records", [STARTS, ANY], chosen)

    def ask_other(self) -> None:
        """Asks for a model or a workspace to compare with."""
        self._ask("Compare with a model or a workspace", [BOTH, MODELS, WORKSPACES, ANY], self.other_chosen.emit)

    def save(self) -> None:
        """Saves where it was saved before, else asks."""
        self._forget_rest()
        if self._document.path:
            self._document.save(self._document.path)
        else:
            self.ask_save()

    def ask_save(self) -> None:
        """Asks where to save."""
        self._forget_rest()
        opened = self._document.workspace.opened
        near = Path(self._document.path or opened.path).with_suffix(SUFFIX)
        dialog = QFileDialog(self._window, "Save the workspace", str(near))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(SUFFIX.removeprefix("."))
        dialog.setNameFilters([WORKSPACES])
        dialog.rejected.connect(self._forget_rest)
        self.open_dialog(dialog, self._document.save)

    def fill_recent(self, menu: QMenu) -> None:
        """Keeps a menu filled with the files opened last."""
        self._menu = menu
        self._show_recent()

    def _ask(
        self, title: str, filters: list[str], chosen: Callable[[str], None], folder: Path | None = None
    ) -> None:
        dialog = QFileDialog(self._window, title, str(folder or ""))
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
            action.triggered.connect(lambda _=False, each=path: self.open(each))
        self._menu.setEnabled(bool(self.recent()))

    def _show_refusal(self, path: str, problem: ProblemDoc) -> None:
        """Says in the window what is wrong with a workspace file; where its model is missing, asks for that."""
        choices: list[tuple[str, Callable[[], None]]] = []
        if problem.subject != Path(path).name and path.endswith(SUFFIX):
            choices.append(("Find the model…", lambda: self._ask_model(path)))
        self._notice.show_news(News(problem.subject, detail_of(problem), choices))

    def _ask_model(self, path: str) -> None:
        self._ask("Find the model", [MODELS, ANY], lambda model: self._document.open_loom(path, model))

    def _offer_reload(self, path: str) -> None:
        title, detail = f"{Path(path).name} changed on disk", "Edits and selection stay where they still apply."
        self._notice.withdraw(title)
        choices = (("Reload", self._document.reload), ("Ignore", lambda: None))
        self._notice.show_news(News(title, detail, choices))

    def _offer(self, orphan: Orphan) -> None:
        left = orphan.left
        title = f"Recover {plural(left.edits, 'edit')} of {left_title(left)}?"
        choices = (
            ("Recover", lambda: self._document.recover(orphan)),
            ("Discard", lambda: self._document.discard(orphan)),
        )
        self._notice.show_news(News(title, "Unsaved changes of a window that ended.", choices))
