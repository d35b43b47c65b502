"""Makes the recipe of a trial a step of its group's history: one step, by the author tune, that undo takes back."""

from __future__ import annotations

from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from app.live.attachment import Attachment
from app.live.follower import Kept
from app.live.preview import merged
from app.workspace import Workspace
from engine.documents import Problem, Time
from engine.errors import EngineError


@dataclass(frozen=True, slots=True)
class _Wanted:
    text: str
    measured: Time | None
    said: str


class Applying(QObject):
    """A group whose first kernel is not known yet gets its step when it is."""

    refused = Signal(object)
    """The Problem that says why a recipe cannot be applied."""

    def __init__(self, workspace: Workspace, attachment: Attachment) -> None:
        super().__init__()
        self.workspace, self.attachment = workspace, attachment
        self._wanted: dict[str, _Wanted] = {}
        """Group -> the advice of the trial."""
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

        self.attachment.read(trial, group, read, lambda error: self.refused.emit(_problem(error)))

    def _go_on(self, group: str) -> None:
        """Asks for the step once the group's history is there; once the step is, it gets its remark and its time."""
        history = self.workspace.histories.get(group)
        wanted = self._wanted.pop(group, None) if history is not None else None
        if history is not None and wanted is not None:
            try:
                text = merged(history.step.text, wanted.text)
            except EngineError as error:
                self.refused.emit(_problem(error))
                return
            if text == history.step.text:
                return
            measured = wanted.measured if text == wanted.text else None
            self._noted[group] = replace(wanted, text=text, measured=measured)
            self.workspace.edit(group, text)
        noted = self._noted.get(group)
        if history is not None and noted is not None and history.step.text == noted.text:
            del self._noted[group]
            if noted.measured is not None:
                self.workspace.learn(group, noted.text, measured=noted.measured)
            if not history.step.note:
                self.workspace.note(group, history.current, noted.said)

    def _forget(self) -> None:
        self._wanted.clear()
        self._noted.clear()


def _problem(error: EngineError) -> Problem:
    return Problem(error.stage, error.subject, error.reason, error.hint)
