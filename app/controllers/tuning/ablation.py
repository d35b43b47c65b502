"""What each entry of the best recipe is worth: the worker takes it back and predicts the kernel again."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject

from app.controllers.tuning.attachment import Attachment
from app.controllers.tuning.follower import Kept
from app.session.client import Pending
from app.session.workspace import Workspace
from engine.documents.ablation import AblationDoc
from engine.documents.model import ProblemDoc
from views.tuning.view import TuningView


class Ablation(QObject):
    """One recipe at a time."""

    def __init__(self, view: TuningView, workspace: Workspace, attachment: Attachment) -> None:
        super().__init__()
        self.view, self.workspace, self.attachment = view, workspace, attachment
        self.found: AblationDoc | None = None
        self._asked = 0
        """Number of the present recipe: answers about older ones are dropped."""

    def start(self, group: str, trial: int, title: str) -> None:
        """Begins with a kept trial of a group of the open model."""
        self.forget()
        self.view.show_ablation(None, f"{title}: every entry is taken back in turn…")
        on_kept = partial(self._on_kept, self._asked, group, title)
        self.attachment.read(lambda run: run.kept_trial(trial, group), on_kept, partial(self._refuse, self._asked))

    def forget(self) -> None:
        """Another run or group: nothing known is about it."""
        self._asked += 1
        self.found = None
        self.view.show_ablation(None)

    def _on_kept(self, number: int, group: str, title: str, best: Kept) -> None:
        follower = self.attachment.follower
        if number == self._asked and follower is not None:
            arguments = {"group": group, "recipe": best.text, "before": follower.start(group)}
            on_found, on_problem = partial(self._on_found, number, title), partial(self._refuse, number)
            pending = Pending(AblationDoc, on_found, on_problem)
            self.workspace.client.request("ablation", arguments, f"Ablation of {title}", pending)

    def _on_found(self, number: int, title: str, found: AblationDoc) -> None:
        if number == self._asked:
            self.found = found
            self.view.show_ablation(found, title)

    def _refuse(self, number: int, problem: ProblemDoc) -> None:
        if number == self._asked:
            self.view.show_ablation(None, problem.sentence)
