"""What can be taken out of the window: one registry of files, tables and pictures.

Reports and sources are made by the command line's own verbs from a copy of the workspace as it is, so that both ways
give the same files; that happens in a process of its own, and the window stays usable.  What is being written stands
among the jobs, says how far it is, and can be stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog

from app.controllers.tuning.launch import RunProcess
from app.session.loom_file import SUFFIX, reference_to, write_loom
from app.shell.panels import PANELS
from app.shell.pictures import save_picture
from app.shell.table_export import TableExport
from engine.documents.model import ProblemDoc
from engine.documents.pipeline import ChartDoc
from engine.support.errors import BadInput, EngineError
from views.format import plural
from views.problems.jobs import JobState

if TYPE_CHECKING:
    from app.shell.window import Window

STAGE = "export"
JOB = 0
"""Number of an export among the jobs; the worker's begin at 1."""
PICTURES = ("SVG (*.svg)", "PNG (*.png)")


@dataclass(frozen=True, slots=True)
class VerbInfo:
    """A verb of the command line that writes a workspace in another form."""

    verb: str
    title: str
    """Of the dialog."""
    options: tuple[str, ...] = ()
    suffix: str = ""
    """Of the file that it writes; "" for a folder."""


VERBS = {
    # The checks that the histories recorded are in the report; to run them all again takes minutes.
    "export-report": VerbInfo("report", "Write a report", ("--no-check",), ".html"),
    "export-cuda": VerbInfo("generate", "Folder for the CUDA sources"),
    "export-torch": VerbInfo("generate", "Folder for the PyTorch operators", ("--with", "torch")),
}
"""Action -> what makes its files."""


@dataclass(frozen=True, slots=True)
class VerbCall:
    """One call of a verb."""

    info: VerbInfo
    workspace: Path
    out: str

    def arguments(self) -> tuple[str, ...]:
        """As the command line takes them."""
        return (self.info.verb, str(self.workspace), "-o", self.out, *self.info.options)


class Exports(QObject):
    """Asks where, and writes; one export at a time."""

    state_changed = Signal()
    """`job` is another one, or has come further."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._window = window
        self.job: JobState | None = None
        """What is being written, for the list of jobs."""
        self._process = RunProcess(STAGE, tells_progress=True)
        self._process.ended.connect(self._on_ended)
        self._process.moved.connect(self._on_moved)
        self._tables = TableExport(STAGE)
        self._tables.ended.connect(self._on_tables)
        self._tables.moved.connect(self._on_moved)
        self._copy: TemporaryDirectory[str] | None = None
        self._out = ""

    def reactions(self) -> dict[str, Callable[[], None]]:
        """Action -> what asks for its place."""
        return {
            **{name: partial(self.ask, name) for name in VERBS},
            **{info.picture_action: partial(self.ask_picture, info.name) for info in PANELS},
            "export-tables": self.ask_tables,
            "export-trace": self.ask_trace,
        }

    @property
    def is_busy(self) -> bool:
        """Whether files are being written."""
        return self.job is not None

    def ask(self, action: str) -> None:
        """Asks for the place of what an action of `VERBS` writes."""
        info = VERBS[action]
        dialog = QFileDialog(self._window, info.title, str(self._near(info.suffix)))
        if info.suffix:
            dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
            dialog.setDefaultSuffix(info.suffix.removeprefix("."))
            dialog.setNameFilters([f"HTML (*{info.suffix})"])
        else:
            dialog.setFileMode(QFileDialog.FileMode.Directory)
        self._window.files.open_dialog(dialog, partial(self.write, action))

    def ask_tables(self) -> None:
        """Asks for the folder of the tables."""
        dialog = QFileDialog(self._window, "Folder for the tables", str(self._near("").parent))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        self._window.files.open_dialog(dialog, self.write_tables)

    def ask_trace(self) -> None:
        """Asks for the place of the trace of the pipeline's chart."""
        chart = self._window.panels.schedule.pipeline.chart
        if chart is None:
            return
        dialog = QFileDialog(self._window, "Trace events", str(self._near("").parent / f"{chart.group}.json"))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("json")
        dialog.setNameFilters(["Trace events (*.json)"])
        self._window.files.open_dialog(dialog, partial(self.write_trace, chart))

    def ask_picture(self, panel: str) -> None:
        """Asks for the place of a panel's picture."""
        dialog = QFileDialog(self._window, f"Picture of {panel}", str(self._near("").parent / f"{panel}.svg"))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("svg")
        dialog.setNameFilters(list(PICTURES))
        self._window.files.open_dialog(dialog, partial(self.write_picture, panel))

    def write(self, action: str, out: str) -> None:
        """Starts the verb of an action on a copy of the workspace."""
        self.cancel()
        self._copy, self._out = TemporaryDirectory(prefix="loomscope-export-"), out
        folder, document = Path(self._copy.name), self._window.document
        content, opened = document.content(), document.workspace.opened
        copy = folder / f"{Path(self._window.files.title.rstrip('*')).stem or 'model'}{SUFFIX}"
        try:
            write_loom(replace(content, model=reference_to(opened.path, folder)), copy)
        except BadInput as error:
            self._refuse(error)
            return
        self._process.start(VerbCall(VERBS[action], copy, out))
        self._begin()

    def write_tables(self, folder: str) -> None:
        """Starts to write every table that has rows as one CSV file."""
        self.cancel()
        self._out = folder
        self._begin()
        self._tables.start(self._window.panels.by_name(), Path(folder))

    def write_trace(self, chart: ChartDoc, out: str) -> None:
        """Writes a pipeline's chart as trace events, as `predict --trace` does."""
        from engine.explore.chrome_trace import write_trace

        try:
            write_trace(Path(out), chart, STAGE)
        except EngineError as error:
            self._refuse(error)
        else:
            self._window.status.say(f"Wrote {Path(out).name}")

    def write_picture(self, panel: str, out: str) -> None:
        """Writes a panel as it is drawn now."""
        try:
            save_picture(self._window.docks[panel], out)
        except EngineError as error:
            self._refuse(error)
        else:
            self._window.status.say(f"Wrote {Path(out).name}")

    def cancel(self) -> None:
        """Ends what is being written; no file is left in part."""
        self._process.kill()
        self._tables.cancel()
        self._forget()

    def close(self) -> None:
        """Ends the process with the window."""
        self._process.close()
        self._tables.close()
        self._forget()

    def _near(self, suffix: str) -> Path:
        opened = self._window.document.workspace.opened
        return Path(self._window.document.path or opened.path).absolute().with_suffix(suffix)

    def _begin(self) -> None:
        name = Path(self._out).name
        self.job = JobState(JOB, f"Writing {name}", "", 0, 0)
        self._window.status.say(f"Writing {name}…")
        self.state_changed.emit()

    def _on_moved(self, text: str, done: int, total: int) -> None:
        if self.job is not None:
            self.job = replace(self.job, text=text, done=done, total=total)
            self.state_changed.emit()

    def _on_tables(self, problem: ProblemDoc | None, count: int) -> None:
        folder = self._out
        self._forget()
        if problem is None:
            self._window.status.say(f"Wrote {plural(count, 'table')} to {Path(folder).name}")
        else:
            self._window.workspace.add_problem("", problem)

    def _on_ended(self, problem: ProblemDoc | None) -> None:
        out = self._out
        self._forget()
        if problem is None:
            self._window.status.say(f"Wrote {Path(out).name}")
        else:
            self._window.status.say(f"{Path(out).name} was not written")
            self._window.workspace.add_problem("", problem)

    def _refuse(self, error: EngineError) -> None:
        self._forget()
        self._window.workspace.add_problem("", ProblemDoc(STAGE, error.subject, error.reason, error.hint))

    def _forget(self) -> None:
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None
        if self.job is not None:
            self.job = None
            self.state_changed.emit()
