"""The document of a window: what of the workspace is saved where, its journal, opening and saving workspace files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.session import loom_file
from app.session.background import Background
from app.session.file_watch import FileWatch
from app.session.history import HistoryRecord, is_plain, without_figures
from app.session.loom_file import LoomFile, ModelReference
from app.session.named_models import EXAMPLE, path_of
from app.session.open_request import OpenRequest
from app.session.recovery import Journal, Left, Orphan, find_orphans
from app.session.selection import Selection
from app.session.workspace import Workspace
from engine.documents.model import ProblemDoc


class Document(QObject):
    """Keeps the workspace, its file and its journal in step.  Reading and writing happen on a thread."""

    state_changed = Signal()
    """Whether there are unsaved edits, or where they are saved."""
    saved = Signal(str)
    refused = Signal(str, object)
    """A workspace file that could not be opened or written, and the Problem that says why."""
    changed_on_disk = Signal(str)
    """The path of the open model, which another program wrote."""
    orphan_found = Signal(object)
    """A journal that was left behind, to be recovered or discarded."""

    def __init__(self, workspace: Workspace, journals: Path) -> None:
        super().__init__()
        self.workspace = workspace
        self.view: dict[str, str] = {}
        """What is in sight, for the file; the window keeps it."""
        self._folder = journals
        self._journal = Journal(journals)
        self._background = Background()
        self._saved: dict[str, HistoryRecord] = {}
        self._dirty: set[str] = set()
        self._orphans: list[Orphan] = []
        self._recovering: Orphan | None = None
        self._abandoned = False
        """Whether the unsaved edits need not be kept once something else is open."""
        self._watch = FileWatch(self._background)
        self._watch.changed.connect(self.changed_on_disk)
        workspace.model_changed.connect(self._on_model)
        workspace.history_changed.connect(self._on_history)
        workspace.open_refused.connect(self._keep)

    @property
    def is_modified(self) -> bool:
        """Whether there are edits that no file holds."""
        return bool(self._dirty)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being read or written."""
        return self._background.is_idle

    @property
    def path(self) -> str:
        """The workspace file, or ""."""
        return self.workspace.opened.loom

    @property
    def edits(self) -> int:
        """Edits that no file holds."""
        lengths = {group: len(self._saved[group].steps) if group in self._saved else 1 for group in self._dirty}
        return sum(max(len(self.workspace.histories[group].steps) - lengths[group], 1) for group in self._dirty)

    def open(self, path: str) -> None:
        """Opens a workspace file or a model; unsaved edits of what is open stay in their journal."""
        if path.lower().endswith(loom_file.SUFFIX):
            self.open_loom(path)
        else:
            self.workspace.open(path)

    def abandon(self) -> None:
        """What is open is left without its unsaved edits: no journal keeps them."""
        self._abandoned = True

    def _keep(self) -> None:
        """What was to be opened cannot be: the edits of what is open stay."""
        self._abandoned = False

    def present(self) -> OpenRequest:
        """What is open as a request to open it again; edits and selection go along, figures of the steps do not."""
        workspace = self.workspace
        trails = without_figures(workspace.trails())
        return replace(
            workspace.opened, trails=trails, asleep=tuple(workspace.asleep), selection=workspace.bus.selection,
            view=dict(self.view), unsaved=bool(trails),
        )  # fmt: skip

    def reload(self) -> None:
        """Reads the open model again; edits of groups that it still has go on."""
        again = self.present()
        self.workspace.open(again.path, again)

    def open_loom(self, path: str, model: str = "") -> None:
        """Opens a workspace file, with another model in place of the one that it names where `model` says so."""
        file = Path(path).absolute()
        self._background.run(
            lambda: _opening(loom_file.read_loom(file), str(file), file.parent, model),
            lambda opening: self.workspace.open(opening.path, opening),
            partial(self._refuse, str(file)),
        )

    def save(self, path: str) -> None:
        """Writes the workspace file; what was there before stays whole until the new one is."""
        file = Path(path).absolute()
        content, opened = self.content(), self.workspace.opened

        def write() -> None:
            loom_file.write_loom(replace(content, model=loom_file.reference_to(opened.path, file.parent)), file)

        def on_written(_: None) -> None:
            if self.workspace.opened.path == opened.path:
                self.workspace.opened = replace(self.workspace.opened, loom=str(file), unsaved=False)
                self._begin(dict(content.groups))
            self.saved.emit(str(file))

        self._background.run(write, on_written, partial(self._refuse, str(file)))

    def content(self) -> LoomFile:
        """The workspace as it is now; the model is named by its path alone."""
        workspace, selection = self.workspace, self.workspace.bus.selection
        opened = workspace.opened
        trails = {group: trail for group, trail in workspace.trails().items() if not is_plain(trail)}
        return LoomFile(
            ModelReference(opened.path), opened.target, dict(opened.dimensions), trails,
            selection.group, selection.statements, dict(self.view), tuple(workspace.asleep),
            opened.rounding(workspace.model),
        )  # fmt: skip

    def look_for_orphans(self) -> None:
        """Looks for edits that a crash, or a window closed without saving, left behind."""
        self._background.run(lambda: find_orphans(self._folder), self._on_orphans, lambda _: None)

    def recover(self, orphan: Orphan) -> None:
        """Opens what was left behind; it is removed once it is in this window's journal."""
        left = orphan.left
        folder = Path(left.loom).parent if left.loom else Path()
        self._orphans.remove(orphan)

        def ready(opening: OpenRequest) -> None:
            self._recovering = orphan
            self.workspace.open(opening.path, replace(opening, unsaved=True))

        def on_refused(problem: ProblemDoc) -> None:
            orphan.release()
            self._refuse(left.loom or left.content.model.path, problem)

        self._background.run(lambda: _opening(left.content, left.loom, folder), ready, on_refused)

    def discard(self, orphan: Orphan) -> None:
        """Removes what was left behind."""
        self._orphans.remove(orphan)
        orphan.discard()
        self._offer()

    def close(self) -> None:
        """Ends files and journals; unsaved edits stay in the journal for the next window."""
        self._watch.watch(None)
        self._background.close()
        for orphan in self._orphans:
            orphan.release()
        self._orphans.clear()
        self._end_recovery(False)
        self._journal.leave() if self.is_modified and not self._abandoned else self._journal.discard()

    def _on_model(self) -> None:
        """A model is open: another one, or the same again for another machine, which takes the edits over."""
        if self.workspace.is_regrouping:
            self._begin({name: trail for name, trail in self._saved.items() if name in self.workspace.histories})
            return
        carried = self.workspace.opened.unsaved and self._recovering is None
        left = self.is_modified and not carried and not self._abandoned
        self._abandoned = False
        self._watch.watch(path_of(self.workspace.opened.path))
        self._journal.leave() if left else self._journal.discard()
        opened, trails = self.workspace.opened, self.workspace.trails()
        self._journal = Journal(self._folder)
        self._saved = {} if opened.unsaved else trails
        self._dirty = {group for group in trails if opened.unsaved and not is_plain(trails[group])}
        self._write(lambda: self._journal.begin(self.content(), opened.loom, self.edits))
        self._end_recovery(opened.unsaved)
        if left:
            self.look_for_orphans()
        self.state_changed.emit()

    def _end_recovery(self, done: bool) -> None:
        """What was recovered is in this window's journal now; what was not stays for another time."""
        orphan, self._recovering = self._recovering, None
        if orphan is not None:
            orphan.discard() if done else orphan.release()
            self._offer()

    def _on_history(self, group: str) -> None:
        """Every change of a history is in the journal before anything else happens."""
        trail = self.workspace.histories[group].trail()
        known = self._saved.get(group)
        same = trail == known if known else is_plain(trail)
        was = self.is_modified
        (self._dirty.discard if same else self._dirty.add)(group)
        if self.is_modified or was:
            self._write(lambda: self._journal.note(group, trail, self.edits))
        self.state_changed.emit()

    def _begin(self, saved: Mapping[str, HistoryRecord]) -> None:
        """Everything up to `saved` is in a file now."""
        self._saved = dict(saved)
        trails = self.workspace.trails()
        self._dirty = {name for name, trail in trails.items() if trail != saved.get(name) and not is_plain(trail)}
        self._write(lambda: self._journal.begin(self.content(), self.path, self.edits))
        self.state_changed.emit()

    def _write(self, act: Callable[[], None]) -> None:
        """Does something to the journal; a folder that cannot be written is reported once and ends the journal."""
        try:
            act()
        except OSError as error:
            reason = f"edits cannot be kept there: {error.strerror}"
            problem = ProblemDoc("workspace", str(self._folder), reason, "save often", "warning")
            self.workspace.add_problem("", problem)

    def _on_orphans(self, found: list[Orphan]) -> None:
        self._orphans += found
        self._offer()

    def _offer(self) -> None:
        if self._orphans:
            self.orphan_found.emit(self._orphans[0])

    def _refuse(self, path: str, problem: ProblemDoc) -> None:
        self._keep()
        self.workspace.add_problem("", problem)
        self.refused.emit(path, problem)


def _opening(content: LoomFile, loom: str, folder: Path, model: str = "") -> OpenRequest:
    """What a workspace asks to be opened, with a warning where its model is not the one that it was saved with."""
    path = model or loom_file.find_model(content.model, folder)
    known, found = content.model.sha256, "" if path == EXAMPLE else loom_file.digest(Path(path))
    warnings: tuple[ProblemDoc, ...] = ()
    if known and found and known != found:
        reason = f"is not the file that {Path(loom).name} was saved with"
        hint = "its histories are kept by group name"
        warnings = (ProblemDoc("workspace", Path(path).name, reason, hint, "warning"),)
    return OpenRequest(
        path, content.target, content.dimensions, content.groups, Selection(content.selection, content.statements),
        content.view, loom, warnings, numerics=content.numerics, asleep=content.asleep,
    )  # fmt: skip


def left_title(left: Left) -> str:
    """What was left behind, by its file's name: "softmax.loom", "bert.onnx"."""
    return path_of(left.loom or left.content.model.path).name
