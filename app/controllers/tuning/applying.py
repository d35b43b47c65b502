"""Makes recipes of trials steps of the history, by the author tune: of one group, or of all as one step for undo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from app.controllers.tuning.attachment import Attachment
from app.controllers.tuning.follower import Best, Follower, Kept
from app.controllers.tuning.preview import merge_advice
from app.session.background import problem_of
from app.session.workspace import Workspace
from engine.documents.model import Time
from engine.support.errors import EngineError
from views.hierarchy import group_title
from views.tuning.trials import Trials


@dataclass(frozen=True, slots=True)
class _Wanted:
    text: str
    measured: Time | None
    said: str


class Applying(QObject):
    """A group whose first kernel is not known yet gets its step when it is; steps of several wait for each other."""

    refused = Signal(object)
    """The Problem that says why a recipe cannot be applied."""
    told = Signal(str)
    """What became of a recipe that was applied: the history need not be in sight."""
    tied = Signal(object)
    """Group -> the advice that was asked for: edits that are one step."""

    def __init__(self, workspace: Workspace, attachment: Attachment) -> None:
        super().__init__()
        self.workspace, self.attachment = workspace, attachment
        self._wanted: dict[str, _Wanted] = {}
        """Group -> the advice of the trial."""
        self._together: dict[str, _Wanted] = {}
        """The same, of groups that get their steps at one time."""
        self._noted: dict[str, _Wanted] = {}
        """Group -> the advice that becomes a step; its remark says of which trial."""
        workspace.history_changed.connect(self._go_on)
        workspace.model_changed.connect(self._forget)

    def apply(self, group: str, trial: int, said: str) -> None:
        """Applies a kept trial; `said` becomes the remark of the step."""

        def read(kept: Kept) -> None:
            self._wanted[group] = _Wanted(kept.text, kept.measured, said)
            self.workspace.bus.select_group(group)
            self._go_on(group)

        self.attachment.read(lambda run: run.kept_trial(trial, group), read, self.refused.emit)

    def apply_all(self, run: int, trials: Trials) -> None:
        """Applies the best of every group that became faster in a run of the open model."""

        def read(found: Mapping[str, Best]) -> None:
            self._together = {
                group: _Wanted(best.kept.text, best.kept.measured, f"Trial {trials.number[best.row]:,} of run {run}")
                for group, best in found.items()
                if self.workspace.group(group) is not None
            }
            for group in self._together:
                self.workspace.want(group)
            self._go_on_together()

        self.attachment.read(Follower.bests, read, self.refused.emit)

    def _go_on(self, group: str) -> None:
        """Asks for the step once the group's history is there; once the step is, it gets its remark and its time."""
        if group in self.workspace.histories and group in self._wanted:
            self._ask(group, self._wanted.pop(group))
        if group in self._together:
            self._go_on_together()
        history, noted = self.workspace.histories.get(group), self._noted.get(group)
        if history is not None and noted is not None and history.step.text == noted.text:
            del self._noted[group]
            if noted.measured is not None:
                self.workspace.learn(group, noted.text, measured=noted.measured)
            if not history.step.note:
                self.workspace.note(group, history.current, noted.said)
            self.told.emit(f"{noted.said} is a step of {group_title(group, self.workspace.model)} now")

    def _go_on_together(self) -> None:
        """Asks for all steps once every group has a history, or is known to get none."""
        workspace = self.workspace
        known = (group in workspace.histories or workspace.refusal(group) for group in self._together)
        if self._together and all(known):
            wanted, self._together = self._together, {}
            texts = {group: self._ask(group, one) for group, one in wanted.items() if group in workspace.histories}
            self.tied.emit({group: text for group, text in texts.items() if text})

    def _ask(self, group: str, wanted: _Wanted) -> str:
        """Asks for a step with the advice of a trial and what the user says now; its text, "" where it is no other."""
        present = self.workspace.histories[group].step.text
        try:
            text = merge_advice(present, wanted.text)
        except EngineError as error:
            self.refused.emit(problem_of(error))
            return ""
        if text == present:
            self.told.emit(f"{wanted.said} is what {group_title(group, self.workspace.model)} has already")
            return ""
        measured = wanted.measured if text == wanted.text else None
        self._noted[group] = replace(wanted, text=text, measured=measured)
        self.workspace.edit(group, text)
        return text

    def _forget(self) -> None:
        for wanted in (self._wanted, self._together, self._noted):
            wanted.clear()
