"""The tuning run that is shown: start, pause, stop, resume, attach; one at a time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.controllers.tuning.attachment import Attachment
from app.controllers.tuning.follower import Follower, RunUpdate
from app.controllers.tuning.launch import Order, RunProcess, order_again, recipe_beside, records_of, write_present
from app.controllers.tuning.shown import Shown
from app.session.fusion_constraints import fixed_now
from app.session.named_models import is_name, path_of
from app.session.open_request import OpenRequest
from app.session.workspace import Workspace
from engine.documents.model import ProblemDoc
from engine.records.nodes import GO, PAUSE, PAUSED, RUNNING, STOP, STOPPED, Request
from views.tuning.nodes import STARTING, STOPPING, Status
from views.tuning.run import RunSettings

KILL_MS = 100
"""A process of ours that has not stopped by then is ended: everything finished is in its records."""
BEGINNING = Status("Tuning", STARTING, 0, 0, "", ())


class RunController(QObject):
    """Knows the run as far as it has been read; shows nothing."""

    changed = Signal()
    """Something else can be asked, or was refused."""
    grown = Signal()
    """More of the run has been read."""
    replaced = Signal()
    """Another run is followed from now on, or none."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self.workspace = workspace
        self.command: Sequence[str] = (sys.executable, "-m", "app")
        """What a run is started with."""
        self.attachment = Attachment()
        self.process = RunProcess()
        self.shown: Shown | None = None
        self.refusal: tuple[str, ProblemDoc] | None = None
        """What was refused, and why, until it is read."""
        self._is_starting = False
        """Whether a process is about to be started: its recipe is being written."""
        self.attachment.attached.connect(self._on_attached)
        self.attachment.updated.connect(self._on_update)
        self.attachment.refused.connect(self._on_refused)
        self.process.ended.connect(self._on_ended)
        workspace.model_changed.connect(self._on_model)

    @property
    def is_ours(self) -> bool:
        """Whether the run is of the open model, so that its recipes mean something here."""
        run = self.shown.run if self.shown else None
        return run is not None and self.workspace.model is not None and is_of(run.request, self.workspace.opened)

    @property
    def is_live(self) -> bool:
        """Whether a run that is shown, or about to be, works or waits to."""
        is_begun = self._is_starting or bool(self.process.process_id)
        return is_begun or (self.shown is not None and self.shown.status().is_live)

    @property
    def can_start(self) -> bool:
        """Whether a run can be started now."""
        return self.workspace.model is not None and not self.is_live

    @property
    def why_fixed(self) -> str:
        """Why no other run of the file can be shown now; "" where one can."""
        is_busy = self._is_starting or bool(self.process.process_id)
        return "Another run can be shown once this one has ended; compare with it in “Two runs”" if is_busy else ""

    @property
    def is_read(self) -> bool:
        """Whether a run that ended has been read to its end."""
        return self.attachment.is_idle and not self.is_live and (self.shown is None or self.shown.is_complete)

    @property
    def status(self) -> Status | None:
        """The run in the panel's words; None where there is none."""
        if self.shown is not None and self.shown.run is not None:
            return self.shown.status()
        return BEGINNING if self.is_live else None  # its process runs, but nothing is in the records yet

    def start(self, settings: RunSettings) -> None:
        """Starts a run of the open model with its present advice; it is followed like any other."""
        if not self.can_start:
            return
        opened, records = self.workspace.opened, records_of(self.workspace.opened.path, self.workspace.opened.target)
        only = self.workspace.bus.selection.group if settings.selected_only else ""
        order = Order(
            opened.path, opened.target, opened.dimensions, settings.strategy, settings.runner, settings.trials,
            settings.minutes, only, records, recipe_beside(records), settings.start,
        )  # fmt: skip
        self._is_starting = True  # before the old run goes, so that what waits for the new one knows of it
        self.put_away()
        self.changed.emit()
        self._write_recipe(order)

    def pause_or_resume(self) -> None:
        """Pauses a run that works, goes on with any other."""
        if self.shown is not None and self.shown.state == RUNNING:
            self.attachment.ask(PAUSE)
        else:
            self.resume()

    def resume(self) -> None:
        """Goes on with a run that is paused, or starts the process of one that ended again."""
        shown = self.shown
        if shown is None or shown.run is None:
            return
        if shown.state == PAUSED:
            self.attachment.ask(GO)
        elif not self.is_live and shown.is_last:
            shown.overlay, shown.problem = STARTING, None
            self.process.start(order_again(shown.run.request, shown.path), self.command)
            self.changed.emit()

    def stop(self) -> None:
        """Ends the run and keeps its best; a process of ours that does not answer is ended."""
        if self.shown is None:
            self.process.kill()
            self.attachment.detach()
        elif self.is_live:
            self.shown.overlay = STOPPING
            self.attachment.ask(STOP)
            if self.process.process_id:
                QTimer.singleShot(KILL_MS, self, self._kill)
        self.changed.emit()

    def attach(self, path: str) -> None:
        """Follows the last run of a file of records."""
        self.refusal = None
        self.attachment.attach(Path(path))

    def show_run(self, number: int) -> None:
        """Follows another run of the file that is shown, unless a process of this window is at work there."""
        shown = self.shown
        if shown is not None and number != shown.follower.number and not self.why_fixed:
            self.refusal = None
            self.attachment.attach(shown.path, number)

    def put_away(self) -> None:
        """Shows no run any more."""
        self.attachment.detach()
        self.shown = self.refusal = None
        self.replaced.emit()

    def dismiss(self) -> None:
        """What was refused has been read."""
        self.refusal = None
        self.changed.emit()

    def close(self) -> None:
        """Ends a process of ours, and lets the records go."""
        self.process.close()
        self.attachment.close()

    def _write_recipe(self, order: Order) -> None:
        """Writes the advice as it is now, then begins; says why it cannot be written."""
        workspace, path = self.workspace, recipe_beside(order.records)
        known = {name: history.step.text for name, history in workspace.histories.items() if workspace.group(name)}
        fixed = fixed_now(workspace.histories)
        rounding = workspace.opened.rounding(workspace.model)
        write = partial(write_present, path, order.target, order.dimensions, rounding, fixed, known)

        def begin() -> None:
            self._is_starting = False
            self.process.start(order, self.command)
            self.changed.emit()

        start = partial(self.attachment.start_after, order.records, begin)
        self.attachment.run(write, start, partial(self._on_refused, path))

    def _kill(self) -> None:
        """Ends a process that has not answered."""
        if self.shown is not None and self.shown.overlay == STOPPING and self.process.process_id:
            self.process.kill()
            self.attachment.note_stopped()
            self.shown.overlay = STOPPED
            self.changed.emit()

    def _on_attached(self, follower: Follower) -> None:
        assert self.attachment.path is not None
        self.shown, self.refusal = Shown.of(self.attachment.path, follower), None
        self.replaced.emit()

    def _on_update(self, update: RunUpdate) -> None:
        if self.shown is not None:
            was_stopping = self.shown.overlay == STOPPING
            self.shown.take(update)
            if was_stopping and self.shown.overlay != STOPPING:
                self.process.kill()  # its last word was the state: what is left of it only takes its time to go
                self.changed.emit()
            self.grown.emit()

    def _on_refused(self, path: Path, problem: ProblemDoc) -> None:
        self._is_starting = False
        self.refusal = f"{path.name} cannot be used", problem
        self.workspace.add_problem("", problem)
        self.changed.emit()

    def _on_ended(self, problem: ProblemDoc | None) -> None:
        """A process that ended by itself."""
        if self.shown is not None:
            self.shown.overlay, self.shown.problem = "", problem
        elif problem is not None:
            self.attachment.detach()
            self.refusal = "The run could not be started", problem
        if problem is not None:
            self.workspace.add_problem("", problem)
        self.changed.emit()

    def _on_model(self) -> None:
        """Offers the last run of the model that was opened; that of another one goes, unless it is its own or works."""
        if not self.workspace.is_regrouping and not self.is_live and not self.is_ours:
            records = records_of(self.workspace.opened.path, self.workspace.opened.target)
            if records.is_file():
                self.attachment.attach(records, quiet=True)
            elif self.shown is not None:
                self.put_away()
        self.changed.emit()


def is_of(request: Request, opened: OpenRequest) -> bool:
    """Whether a run is of what is open: the file, the target, the sizes of its dimensions."""
    if request.target != opened.target or any(
        request.dimensions.get(name, size) != size for name, size in opened.dimensions.items()
    ):
        return False
    return request.source == opened.path or _full(request.source) == _full(opened.path)


def _full(source: str) -> str:
    """A file by its absolute path, without the links that lead to it: a run notes it so."""
    return str((path_of(source) if is_name(source) else Path(source)).resolve())
