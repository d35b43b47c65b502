"""Fills the panels of a tuning run, and carries out what is asked of it: start, pause, stop, resume, apply."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from app.example import path_of
from app.groups import fixed_now
from app.live.ablation import Ablation
from app.live.applying import Applying
from app.live.attachment import Attachment
from app.live.figures import causes, cuts, importance, shares
from app.live.follower import Follower, Update
from app.live.launch import Order, RunProcess, order_again, recipe_beside, records_of, write_present
from app.live.preview import Chosen, Preview
from app.live.shown import Shown
from app.selection import Selection
from app.workspace import Workspace
from engine.documents import Problem
from engine.errors import EngineError
from engine.records.nodes import GO, PAUSE, PAUSED, RUNNING, STOP, STOPPED, Request
from engine.run.nodes import MEASURED, PREDICTED
from engine.tune.statistics import rank_correlation
from engine.tune.strategies import STRATEGIES
from views.format import figure
from views.tuning.nodes import STARTING, STOPPING, Status
from views.tuning.panels import TuningPanels
from views.tuning.trials import NONE
from views.tuning.view import DIMENSIONS, PROMISE

REPAINT_MS = 100
"""Trials that come faster are shown together."""
REPLAYED = "replayed"
"""The runner that takes times from the records."""
SLOWLY = 5
"""Repaints of the table between two of what is dearer to work out."""
KILL_MS = 120
"""A process of ours that has not stopped by then is ended: everything finished is in its records."""


class LiveTuning(QObject):
    """One run at a time, whoever started it."""

    state_changed = Signal()
    """What can be asked of the run changed."""

    def __init__(self, panels: TuningPanels, workspace: Workspace) -> None:
        super().__init__()
        self.panels, self.workspace = panels, workspace
        self.command: Sequence[str] = (sys.executable, "-m", "app")
        """What a run is started with."""
        self.attachment = Attachment()
        self.process = RunProcess()
        self.preview = Preview(panels.trial, workspace, self.attachment)
        self.applying = Applying(workspace, self.attachment)
        self.ablation = Ablation(panels.tuning, workspace, self.attachment)
        self.shown: Shown | None = None
        self.group = ""
        self.selected = NONE
        """The row of the chosen trial."""
        self._is_starting = False
        """Whether a process is about to be started: its recipe is being written."""
        self._refusal: tuple[str, Problem] | None = None
        self._ticks = 0
        self._repaint = QTimer(self)
        self._repaint.setSingleShot(True)
        self._repaint.setInterval(REPAINT_MS)
        self._repaint.timeout.connect(self.show)
        self._connect()

    @property
    def is_ours(self) -> bool:
        """Whether the run is of the open model, so that its recipes mean something here."""
        run, opened = self.shown.run if self.shown else None, self.workspace.opened
        if run is None or self.workspace.model is None:
            return False
        return same_model(run.request, opened.path, opened.target)

    @property
    def refusal(self) -> Problem | None:
        """Why the last file or start was refused, until it is read."""
        return self._refusal[1] if self._refusal else None

    @property
    def is_settled(self) -> bool:
        """Whether what is written of a run that ended has been read and shown."""
        is_read = self.shown is None or self.shown.is_complete
        return is_read and self.preview.is_settled and self.attachment.is_idle and not self.is_live

    @property
    def can_start(self) -> bool:
        """Whether a run can be started now."""
        return self.workspace.model is not None and not self.is_live

    @property
    def is_live(self) -> bool:
        """Whether a run that is shown works or waits to."""
        is_ours = self._is_starting or bool(self.process.process_id)
        return is_ours or (self.shown is not None and self.shown.status().is_live)

    @property
    def best(self) -> int:
        """The row of the shown group's best trial."""
        return self.shown.trials.best(self.shown.trials.rows_of(self.group)) if self.shown else NONE

    def start(self) -> None:
        """Starts a run of the open model with its present advice; it is followed like any other."""
        if not self.can_start:
            return
        opened, chosen = self.workspace.opened, self.panels.run.settings
        only = self.workspace.bus.selection.group if chosen.selected_only else ""
        records = records_of(opened.path, opened.target)
        order = Order(
            str(path_of(opened.path)) if opened.path == "example" else opened.path, opened.target, opened.dimensions,
            chosen.strategy, chosen.runner, chosen.trials, chosen.minutes, only, records,
            recipe_beside(records),
        )  # fmt: skip
        self.put_away()
        self._is_starting = True
        self.show()
        self._write_recipe(order, lambda: self.attachment.start_after(records, lambda: self._begin(order)))

    def pause_or_resume(self) -> None:
        """Pauses a run that works, goes on with any other."""
        if self.shown is not None and self.shown.state == RUNNING:
            self.attachment.ask(PAUSE)
        else:
            self.resume()

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
        self.show()

    def resume(self) -> None:
        """Goes on with a run that is paused, or starts the process of one that ended again."""
        shown = self.shown
        if shown is None or shown.run is None:
            return
        if shown.state == PAUSED:
            self.attachment.ask(GO)
        elif not self.is_live:
            shown.overlay, shown.problem = STARTING, None
            self.process.start(order_again(shown.run.request, shown.path), self.command)
            self.show()

    def attach(self, path: str) -> None:
        """Follows the last run of a file of records."""
        self._refusal = None
        self.attachment.attach(Path(path))

    def put_away(self) -> None:
        """Shows no run any more."""
        self.attachment.detach()
        self.shown, self.selected = None, NONE
        self._refusal = None
        self.preview.show(None)
        self.show()

    def apply(self, row: int) -> None:
        """Makes a trial's recipe a step of its group's history."""
        if self.shown is not None and row != NONE and self.is_ours:
            trial = int(self.shown.trials.column("trial")[row])
            said = f"Trial {int(self.shown.trials.number[row]):,} of run {self.shown.follower.number}"
            self.applying.apply(self.shown.trials.text("group", row), trial, said)

    def apply_best(self) -> None:
        """Makes the best recipe of the shown group a step of its history."""
        self.apply(self.best)

    def ablate(self) -> None:
        """Asks what each entry of the shown group's best recipe is worth."""
        best = self.best
        if self.shown is not None and best != NONE and self.is_ours:
            trial = int(self.shown.trials.column("trial")[best])
            self.ablation.start(self.group, trial, f"Trial {int(self.shown.trials.number[best]):,}")

    def enabled(self) -> dict[str, bool]:
        """Which of the actions can be done now."""
        has_best = self.best != NONE and self.is_ours
        return {
            "tune-start": self.can_start,
            "tune-pause": self.shown is not None,
            "tune-stop": self.is_live,
            "tune-detach": self.shown is not None,
            "tune-best": has_best,
            "tune-trial": self.selected != NONE and self.is_ours,
            "tune-ablate": has_best,
            "tune-all": self.shown is not None and len(self.shown.groups) > 1,
        }

    def select(self, row: int) -> None:
        """Chooses a trial, everywhere."""
        if self.shown is None or row == self.selected:
            return
        self.selected = row
        group = self.shown.trials.text("group", row)
        if group != self.group:
            self.group = group
            self.show()
        self.panels.tuning.show_selection(row)
        self.panels.trials.show_selection(row)
        self.preview.show(self._chosen(row))
        self.state_changed.emit()

    def close(self) -> None:
        """Ends a process of ours, and lets the records go."""
        self._repaint.stop()
        self.process.close()
        self.attachment.close()

    def _connect(self) -> None:
        panels, workspace = self.panels, self.workspace
        self.attachment.attached.connect(self._on_attached)
        self.attachment.updated.connect(self._on_update)
        self.attachment.refused.connect(self._on_refused)
        self.process.ended.connect(self._on_ended)
        self.applying.refused.connect(self._on_not_applied)
        workspace.model_changed.connect(self._on_model)
        workspace.bus.changed.connect(self._on_selected)
        workspace.machine_changed.connect(self._show_soon)
        run = panels.run
        for signal, react in (
            (run.start_requested, self.start), (run.stop_requested, self.stop),
            (run.pause_requested, self.pause_or_resume), (run.resume_requested, self.resume),
            (run.detach_requested, self.put_away),
            (panels.tuning.start_requested, self.start), (panels.tuning.dismissed, self._dismiss),
            (panels.trials.apply_requested, self.apply_best), (panels.tuning.ablation_requested, self.ablate),
            (panels.trial.apply_requested, lambda: self.apply(self.selected)),
        ):  # fmt: skip
            signal.connect(react)
        for view in (panels.tuning, panels.trials):
            view.trial_selected.connect(self.select)
            view.shown.connect(self._show_soon)
        panels.search.shown.connect(self._show_soon)
        panels.search.group_selected.connect(self._choose_group)
        panels.trials.every.toggled.connect(lambda _: self.show())
        panels.tuning.tab_selected.connect(lambda _: self._show_dear())

    def _begin(self, order: Order) -> None:
        self._is_starting = False
        self.process.start(order, self.command)
        self.show()

    def _write_recipe(self, order: Order, done: object) -> None:
        """Writes the advice as it is now, then calls `done`; says why it cannot be written."""
        workspace, path = self.workspace, order.recipe
        assert path is not None
        known = {name: history.step.text for name, history in workspace.histories.items() if workspace.group(name)}
        fixed = fixed_now(workspace.histories)

        def write() -> None:
            write_present(path, order.target, order.dimensions, fixed, known)

        self.attachment.run(write, done, lambda error: self._on_refused(path, error))  # type: ignore[arg-type]

    def _kill(self) -> None:
        """Ends a process that has not answered."""
        if self.shown is not None and self.shown.overlay == STOPPING and self.process.process_id:
            self.process.kill()
            self.attachment.note_stopped()
            self.shown.overlay = STOPPED
            self.show()

    def _choose_group(self, group: str) -> None:
        if self.workspace.group(group) is not None and self.is_ours:
            self.workspace.bus.select_group(group)
        self._turn_to(group)

    def _turn_to(self, group: str) -> None:
        if group != self.group:
            self.group, self.selected = group, NONE
            self.preview.show(None)
            self.ablation.forget()
            self.show()

    def _chosen(self, row: int) -> Chosen | None:
        if self.shown is None or row == NONE:
            return None
        trials = self.shown.trials
        group, number = trials.text("group", row), int(trials.number[row])
        time, failure = float(trials.microseconds[row]), trials.text("kind", row)
        came = failure if np.isnan(time) else f"{figure(time)} µs {self.shown.run.request.origin}"  # type: ignore[union-attr]
        outcome = ", ".join(filter(None, (came, trials.program(row))))
        return Chosen(group, int(trials.column("trial")[row]), f"Trial {number:,}", outcome, failure, self.is_ours)

    def _on_attached(self, follower: Follower) -> None:
        assert self.attachment.path is not None
        self.shown, self.selected, self.group = Shown.of(self.attachment.path, follower), NONE, ""
        self._refusal = None
        self.preview.show(None)
        self.ablation.forget()
        self._show_soon()

    def _on_update(self, update: Update) -> None:
        if self.shown is not None:
            self.shown.take(update)
            self._show_soon()

    def _on_refused(self, path: Path, error: EngineError) -> None:
        self._is_starting = False
        problem = Problem(error.stage, error.subject, error.reason, error.hint)
        self._refusal = f"{path.name} cannot be used", problem
        self.workspace.add_problem("", problem)
        self.show()

    def _on_not_applied(self, problem: Problem) -> None:
        self.workspace.add_problem("", problem)

    def _on_ended(self, problem: Problem | None) -> None:
        """A process that ended by itself."""
        if self.shown is not None:
            self.shown.overlay, self.shown.problem = "", problem
        elif problem is not None:
            self.attachment.detach()
            self._refusal = "The run could not be started", problem
        if problem is not None:
            self.workspace.add_problem("", problem)
        self.show()

    def _on_model(self) -> None:
        """Offers the last run of the model that was opened, where there is one."""
        if self.workspace.is_regrouping:
            return
        opened = self.workspace.opened
        if self.shown is None and not self.process.process_id:
            records = records_of(opened.path, opened.target)
            if records.is_file():
                self.attachment.attach(records, quiet=True)
        self._show_soon()

    def _on_selected(self, selection: Selection) -> None:
        if self.shown is not None and selection.group in self.shown.groups and self.is_ours:
            self._turn_to(selection.group)
        self.state_changed.emit()

    def _dismiss(self) -> None:
        self._refusal = None
        self.show()

    def _show_soon(self) -> None:
        if not self._repaint.isActive():
            self._repaint.start()

    def show(self) -> None:
        """Shows the present moment."""
        panels, shown = self.panels, self.shown
        panels.run.show_ready(self.can_start)
        panels.run.show_choices(tuple(STRATEGIES), self._runners())
        panels.trials.apply.setEnabled(self.best != NONE and self.is_ours)
        if self._refusal is not None:
            panels.tuning.show_refusal(*self._refusal)
        if shown is None or shown.run is None:
            panels.run.show_status(_BEGINNING if self.is_live else None)
            if self._refusal is None:
                panels.tuning.show_nothing()
            panels.trials.show_nothing()
            panels.search.show_nothing()
            self.state_changed.emit()
            return
        self.group = self.group or self._first_group(shown)
        panels.run.show_status(shown.status())
        self._show_trials(shown)
        self._ticks += 1
        if self._ticks % SLOWLY == 1 or not self.is_live:
            self._show_dear()
        if self.is_live:
            self._show_soon()  # a process that falls silent, or answers a wish, is seen without a trial
        self.state_changed.emit()

    def _runners(self) -> tuple[str, ...]:
        """What can run trials here."""
        run = self.shown.run if self.shown else None
        found = [PREDICTED]
        found += [MEASURED] if self.workspace.gpu and not self.workspace.lacking else []
        return (*found, REPLAYED) if run and run.request.origin == MEASURED else tuple(found)

    def _first_group(self, shown: Shown) -> str:
        chosen = self.workspace.bus.selection.group
        return chosen if chosen in shown.groups and self.is_ours else shown.busiest()

    def _show_trials(self, shown: Shown) -> None:
        """Dots and table: what moves with every trial."""
        panels, trials, model = self.panels, shown.trials, self.workspace.model if self.is_ours else None
        assert shown.run is not None
        rows = trials.rows_of(self.group)
        if self._refusal is None:
            summary = shown.summary(self.group, rows, model)
            room = shown.run.request.trials if len(shown.groups) == 1 else 0
            room = room if self.is_live else len(rows)
            panels.tuning.show_progress(trials, rows, summary, room)
        several = len(shown.groups) > 1
        panels.trials.show_trials(trials, self.group, shown.run.request.origin, several)

    def _show_dear(self) -> None:
        """What is worked out from all trials: funnel, shares, causes, and the tab that is in front."""
        panels, shown = self.panels, self.shown
        if shown is None or shown.run is None:
            return
        trials, run, origin = shown.trials, shown.run, shown.run.request.origin
        rows = trials.rows_of(self.group)
        model = self.workspace.model if self.is_ours else None
        if panels.tuning.tab == PROMISE:
            correlation = rank_correlation(trials.promised[rows], trials.microseconds[rows])
            panels.tuning.show_promise(trials, rows, origin, correlation)
        elif panels.tuning.tab == DIMENSIONS:
            panels.tuning.show_importance(importance(trials, rows), origin)
        if not panels.search.isVisible():
            return
        mine = [task for task in run.tasks if task.group == self.group]
        panels.search.show_funnel(cuts(mine, len(rows)), shown.title(self.group, model))
        titles = {group: shown.title(group, model) for group in shown.groups}
        total = shown.rounds[-1].number if shown.rounds else 0
        panels.search.show_rounds(shares(run, shown.rounds, trials, titles), total, run.skipped)
        panels.search.show_failures(causes(trials, rows, shown.examples, self.group))
        panels.search.show_selection(self.group)


_BEGINNING = Status("Tuning", STARTING, 0, 0, "", ())


def same_model(request: Request, path: str, target: str) -> bool:
    """Whether a run is of a file and a target."""
    return request.target == target and str(path_of(request.source)) == str(path_of(path))
