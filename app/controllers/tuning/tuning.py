"""Controller of the panels of a tuning run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np
from PySide6.QtCore import QObject, QTimer, Signal

from app.controllers.tuning.ablation import Ablation
from app.controllers.tuning.applying import Applying
from app.controllers.tuning.comparison import RunComparison
from app.controllers.tuning.control import RunController
from app.controllers.tuning.figures import causes, cuts, importance, run_choices, shares
from app.controllers.tuning.preview import ChosenTrial, TrialPreview
from app.controllers.tuning.shown import Shown
from app.session.measuring import measuring
from app.session.selection import Selection
from app.session.workspace import Workspace
from engine.documents.model import ModelDoc
from engine.execution.nodes import MEASURED, PREDICTED
from engine.tuning.statistics import rank_correlation
from engine.tuning.strategies import STRATEGIES
from views.format import figure
from views.hierarchy import group_title
from views.tuning.panels import TuningPanels
from views.tuning.trials import NONE
from views.tuning.view import COMPARISON, DIMENSIONS, PROMISE

REPAINT_MS = 100
"""Trials that come faster are shown together."""
REPLAYED = "replayed"
"""The runner that takes times from the records."""
SLOWLY = 5
"""Repaints of the table between two of what is dearer to work out."""


class TuningController(QObject):
    """Shows one group of the run at a time, the selected one where it is searched."""

    state_changed = Signal()
    """What can be asked of the run changed."""

    def __init__(self, panels: TuningPanels, workspace: Workspace) -> None:
        super().__init__()
        self.panels, self.workspace = panels, workspace
        self.control = RunController(workspace)
        attachment = self.control.attachment
        self.preview = TrialPreview(panels.trial, workspace, attachment)
        self.applying = Applying(workspace, attachment)
        self.ablation = Ablation(panels.tuning, workspace, attachment)
        self.comparison = RunComparison(panels.tuning.comparison, self.control)
        self.group = ""
        self._group_before = ""
        """The group of the run that was shown before: of another run of the same search it is shown again."""
        self.selected = NONE
        """The row of the chosen trial."""
        self._can: dict[str, bool] = {}
        """The action states that were announced last."""
        self._ticks = 0
        self._painted: object = None
        """Which trials are in sight: the same ones need not be shown again."""
        self._repaint = QTimer(self, singleShot=True, interval=REPAINT_MS)
        self._repaint.timeout.connect(self._show_by_turns)
        self._parts: deque[Callable[[], None]] = deque()
        """Of the run, that are still to be shown."""
        self._next_turn = QTimer(self, singleShot=True, interval=0)
        self._next_turn.timeout.connect(self._show_next)
        self._connect()

    @property
    def is_settled(self) -> bool:
        """Whether what is written of a run that ended has been read and shown."""
        is_due = self._repaint.isActive() and not self.control.is_live
        is_read = self.control.is_read and self.comparison.is_settled
        return is_read and self.preview.is_settled and not self._parts and not is_due

    @property
    def shown(self) -> Shown | None:
        """The run that is shown."""
        return self.control.shown

    @property
    def best(self) -> int:
        """The row of the shown group's best trial."""
        return self.shown.trials.best(self.shown.trials.rows_of(self.group)) if self.shown and self.group else NONE

    @property
    def has_several(self) -> bool:
        """Whether the shown run is of several groups."""
        return self.shown is not None and len(self.shown.searched) > 1

    def start(self) -> None:
        """Starts a run with the settings of the panel."""
        self.control.start(self.panels.run.settings)

    def apply(self, row: int) -> None:
        """Makes a trial's recipe a step of its group's history."""
        if self.shown is not None and row != NONE and self.control.is_ours:
            group, trial, title = self.shown.trial(row)
            self.applying.apply(group, trial, f"{title} of run {self.shown.follower.number}")

    def apply_best(self) -> None:
        """Makes the best recipe of the shown group a step of its history."""
        self.apply(self.best)

    def apply_all(self) -> None:
        """Makes the best recipe of every group that became faster a step of its history, all of them as one."""
        if self.shown is not None and self.control.is_ours:
            self.applying.apply_all(self.shown.follower.number, self.shown.trials)

    def ablate(self) -> None:
        """Asks what each entry of the shown group's best recipe is worth."""
        best = self.best
        if self.shown is not None and best != NONE and self.control.is_ours:
            self.ablation.start(*self.shown.trial(best))

    def action_states(self) -> dict[str, bool]:
        """Which of the actions can be done now."""
        has_run, is_ours = self.shown is not None, self.control.is_ours
        has_best = is_ours and self.best != NONE
        return {
            "tune-start": self.control.can_start,
            "tune-stop": self.control.is_live,
            **dict.fromkeys(("tune-pause", "tune-detach"), has_run),
            **dict.fromkeys(("tune-best", "tune-ablate"), has_best),
            "tune-best-all": is_ours and self.has_several and bool(self.shown and self.shown.trials.has_time),
            "tune-trial": is_ours and self.selected != NONE,
            "tune-all": self.has_several,
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
        self.preview.show(self._trial_at(row))
        self._tell()

    def close(self) -> None:
        """Ends a process of ours, and lets the records go."""
        self._repaint.stop()
        self._parts.clear()
        self.preview.close()
        self.comparison.close()
        self.control.close()

    def show(self) -> None:
        """Shows the present moment."""
        self._show_state()
        while self._parts:
            self._parts.popleft()()

    def _show_by_turns(self) -> None:
        """The same, a part of the run in each turn of the event loop: keys are heard, and it is painted, between."""
        if self._parts:
            self._show_soon()
        else:
            self._show_state()
            self._show_next()

    def _show_next(self) -> None:
        if self._parts:
            self._parts.popleft()()
            self._next_turn.start()

    def _show_state(self) -> None:
        """Shows what the run is doing; what it found becomes parts to show."""
        if self._parts:
            self._parts.clear()
            self._painted = None  # not all of it was
        panels, control, shown = self.panels, self.control, self.shown
        panels.run.show_ready(control.can_start)
        panels.run.show_choices(tuple(STRATEGIES), self._runners())
        panels.run.show_status(control.status)
        if shown is not None:
            panels.run.show_runs(run_choices(shown.runs, time.time()), shown.follower.number, control.why_fixed)
        if control.refusal is not None:
            panels.tuning.show_refusal(*control.refusal)
        if shown is None or shown.run is None:
            if control.refusal is None:
                panels.tuning.show_nothing(control.can_start, control.is_live)
            panels.trials.show_nothing()
            panels.search.show_nothing()
        else:
            self._find_group()
            self._find_parts(shown)
        if control.is_live:
            self._show_soon()  # a process that falls silent, or answers a request, is noticed without a new trial
        self._tell()

    def _connect(self) -> None:
        panels, workspace, control = self.panels, self.workspace, self.control
        control.changed.connect(self.show)
        control.grown.connect(self._on_grown)
        control.replaced.connect(self._on_replaced)
        self.applying.refused.connect(partial(workspace.add_problem, ""))
        workspace.bus.changed.connect(self._on_selected)
        workspace.machine.changed.connect(self._show_soon)
        run, tuning = panels.run, panels.tuning
        for signal, react in (
            (run.start_requested, self.start), (run.stop_requested, control.stop),
            (run.pause_requested, control.pause_or_resume), (run.resume_requested, control.resume),
            (run.detach_requested, control.put_away), (tuning.start_requested, self.start),
            (tuning.filter_requested, panels.trials.filter.setText),
            (tuning.dismissed, control.dismiss), (tuning.ablation_requested, self.ablate),
            (panels.trials.apply_requested, self.apply_best),
            (panels.trials.apply_all_requested, self.apply_all),
            (panels.trial.apply_requested, lambda: self.apply(self.selected)),
            (run.run_chosen, control.show_run), (self.comparison.changed, self._show_soon),
            (self.comparison.group_selected, self._choose_group),
        ):  # fmt: skip
            signal.connect(react)
        for view in (tuning, panels.trials):
            view.trial_selected.connect(self.select)
        for panel in (tuning, panels.trials, panels.search):
            panel.shown.connect(self._show_all)
        panels.search.group_selected.connect(self._choose_group)
        panels.trials.every.toggled.connect(lambda _: self.show())
        tuning.tab_selected.connect(lambda _: self._show_dear())

    def _choose_group(self, group: str) -> None:
        if self.workspace.group(group) is not None and self.control.is_ours:
            self.workspace.bus.select_group(group)
        self._turn_to(group)

    def _turn_to(self, group: str) -> None:
        if group != self.group:
            self.group, self.selected = group, NONE
            self.preview.show(None)
            self.ablation.forget()
            self.comparison.turn()
            self.show()
            self._show_dear()

    def _trial_at(self, row: int) -> ChosenTrial | None:
        if self.shown is None or self.shown.run is None or row == NONE:
            return None
        trials, origin = self.shown.trials, self.shown.run.request.origin
        time, failure = float(trials.microseconds[row]), trials.text("kind", row)
        came = failure if np.isnan(time) else f"{figure(time)} µs {origin}"
        outcome = ", ".join(filter(None, (came, trials.program(row))))
        return ChosenTrial(*self.shown.trial(row), outcome, failure, self.control.is_ours)

    def _find_group(self) -> None:
        """Turns to a group of the run where none is shown yet: the selected one, else where the search is busy."""
        if not self.group and self.shown is not None and self.shown.run is not None:
            chosen = self.workspace.bus.selection.group
            is_searched = chosen in self.shown.groups and self.control.is_ours
            before = self._group_before if self._group_before in self.shown.groups else self.shown.busiest()
            self.group = chosen if is_searched else before

    def _tell(self) -> None:
        """Tells what can be asked of the run now."""
        self._can = self.action_states()
        self.state_changed.emit()

    def _on_grown(self) -> None:
        """What can be asked follows what was read at once, so that no command is refused until the next repaint."""
        self._find_group()
        if self.action_states() != self._can:
            self._tell()
        self._show_soon()

    def _on_replaced(self) -> None:
        """Nothing that was chosen is there any more."""
        self._group_before, self.group, self.selected = self.group or self._group_before, "", NONE
        self.preview.show(None)
        self.ablation.forget()
        self.show()

    def _on_selected(self, selection: Selection) -> None:
        if self.shown is not None and selection.group in self.shown.groups and self.control.is_ours:
            self._turn_to(selection.group)
        self._tell()

    def _show_soon(self) -> None:
        if not self._repaint.isActive():
            self._repaint.start()

    def _show_all(self) -> None:
        """A panel came into sight: what it did not show while it was hidden is due."""
        self._painted = None
        self._show_soon()

    def _find_parts(self, shown: Shown) -> None:
        """Dots and table where there is more than before; what is dearer now and then, and at the end."""
        present = (shown, len(shown.trials), self.group, self.panels.trials.every.isChecked(), self.control.is_live,
                   self.control.is_ours, self.control.refusal, shown.condemned, self.comparison.moment)  # fmt: skip
        if present == self._painted:
            return
        self._painted = present
        self._ticks += 1
        if self.panels.tuning.isVisible():
            self._parts.append(self.panels.tuning.progress_plot.make_chart)
        self._parts += (self._show_progress, self._show_table)
        if self._ticks % SLOWLY == 1 or shown.is_complete:
            self._parts.append(self._show_dear)

    def _runners(self) -> tuple[str, ...]:
        """What can run trials here."""
        run = self.shown.run if self.shown else None
        found = [PREDICTED]
        model = self.workspace.model
        found += [MEASURED] if measuring(self.workspace.machine, model.target if model else "").can_be else []
        return (*found, REPLAYED) if run and run.request.origin == MEASURED else tuple(found)

    def _model(self) -> ModelDoc | None:
        """The open model, where it knows the groups of the run."""
        return self.workspace.model if self.control.is_ours else None

    def _show_progress(self) -> None:
        """Headline and dots."""
        shown = self.shown
        if shown is None or shown.run is None or self.control.refusal is not None:
            return
        rows, request = shown.trials.rows_of(self.group), shown.run.request
        summary = shown.summary(self.group, rows, self._model())
        room = 0 if self.has_several else request.trials
        self.panels.tuning.show_progress(shown.trials, rows, summary, room if self.control.is_live else len(rows))

    def _show_table(self) -> None:
        shown = self.shown
        if shown is not None and shown.run is not None:
            self.panels.trials.show_trials(shown.trials, self.group, shown.run.request.origin, self.has_several)

    def _show_dear(self) -> None:
        """What is worked out from all trials: funnel, shares, causes, and the tab that is in front."""
        panels, shown = self.panels, self.shown
        if panels.tuning.tab == COMPARISON:
            self.comparison.show(self.group, lambda group: group_title(group, self._model()))
        if shown is None or shown.run is None or not self.group:
            return
        trials, run, origin = shown.trials, shown.run, shown.run.request.origin
        rows = trials.rows_of(self.group)
        if panels.tuning.tab == PROMISE:
            correlation = rank_correlation(trials.promised[rows], trials.microseconds[rows])
            panels.tuning.show_promise(trials, rows, origin, correlation)
        elif panels.tuning.tab == DIMENSIONS:
            panels.tuning.show_dimensions(trials, rows, importance(trials, rows), origin)
        if not panels.search.isVisible():
            return
        mine = [task for task in run.tasks if task.group == self.group]
        panels.search.show_funnel(cuts(mine, len(rows)), group_title(self.group, self._model()))
        titles = {group: group_title(group, self._model()) for group in shown.groups}
        total = shown.rounds[-1].number if shown.rounds else 0
        panels.search.show_rounds(shares(run, shown.rounds, trials, titles), total, run.skipped)
        panels.search.show_failures(causes(trials, rows, shown.examples, self.group))
        panels.search.show_selection(self.group)
