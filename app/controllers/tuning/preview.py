"""Loads a trial for the Trial panel: advice from the records, kernel from the worker; the latest choice wins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QObject, QTimer

from app.controllers.tuning.attachment import Attachment
from app.controllers.tuning.follower import Kept
from app.session.client import Pending
from app.session.workspace import Workspace
from engine.documents.model import KernelDoc, ProblemDoc
from engine.recipe import Advice
from engine.scheduling.text import from_text, to_text
from views.tuning.trial import TrialView

SETTLE_MS = 120
"""Walking through the table asks for the kernel where one stops."""
USER = "user"


@dataclass(frozen=True, slots=True)
class ChosenTrial:
    """A trial of a group, as it is shown."""

    group: str
    trial: int
    """Where its recipe is kept; 0 where it has none."""
    title: str
    outcome: str
    failure: str
    """Why it has no kernel; ""."""
    is_ours: bool
    """Whether the open model is the run's, so that the worker can make its kernel."""


class TrialPreview(QObject):
    """Fills the trial panel."""

    def __init__(self, view: TrialView, workspace: Workspace, attachment: Attachment) -> None:
        super().__init__()
        self.view, self.workspace, self.attachment = view, workspace, attachment
        self.chosen: ChosenTrial | None = None
        self.text = ""
        """The advice of the chosen trial; "" until it is read."""
        self._settle = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle.timeout.connect(self._read)
        view.shown.connect(self._read)

    @property
    def is_settled(self) -> bool:
        """Whether the chosen trial has been asked for."""
        return not self._settle.isActive()

    def show(self, chosen: ChosenTrial | None) -> None:
        """Shows another trial, or none."""
        self.chosen, self.text = chosen, ""
        if chosen is None:
            self._settle.stop()
            self.view.show_nothing()
            return
        self.view.show_trial(chosen.title, chosen.outcome, "", chosen.failure or "Its recipe is still to be read")
        if not chosen.trial:
            reason = chosen.failure or "kept no recipe"
            self.view.show_refusal(f"{chosen.title} has no kernel", ProblemDoc("tune", chosen.title, reason, ""))
            return
        self.view.show_loading(True)
        self._settle.start()

    def close(self) -> None:
        """Asks for nothing any more."""
        self._settle.stop()

    def _read(self) -> None:
        chosen = self.chosen
        if chosen is not None and chosen.trial and not self.text and self.view.isVisible():
            on_kept, on_problem = partial(self._on_kept, chosen), partial(self._refuse, chosen)
            self.attachment.read(lambda run: run.kept_trial(chosen.trial, chosen.group), on_kept, on_problem)

    def _on_kept(self, chosen: ChosenTrial, kept: Kept) -> None:
        if chosen is not self.chosen or self.text:
            return
        self.text = text = kept.text
        foreign = "" if chosen.is_ours else "is of another model, target or size"
        why_not = f"The run {foreign}" if foreign else chosen.failure or ("" if text else "It kept no recipe")
        self.view.show_trial(chosen.title, chosen.outcome, text, why_not)
        if foreign:
            hint = "open the model of the run to see and apply its kernels"
            self._refuse(chosen, ProblemDoc("tune", "the run", foreign, hint))
        elif not text:
            self._refuse(chosen, ProblemDoc("tune", chosen.title, "kept no recipe", ""))
        else:
            pending = Pending(KernelDoc, partial(self._on_kernel, chosen), partial(self._refuse, chosen))
            arguments = {"group": chosen.group, "recipe": text}
            self.workspace.client.request("kernel", arguments, f"Compiling {chosen.title}", pending)

    def _on_kernel(self, chosen: ChosenTrial, kernel: KernelDoc) -> None:
        if chosen is self.chosen:
            self.view.show_kernel(kernel)

    def _refuse(self, chosen: ChosenTrial, problem: ProblemDoc) -> None:
        if chosen is self.chosen:
            self.view.show_refusal(f"{chosen.title} has no kernel to show", problem)


def merge_advice(present: str, tried: str) -> str:
    """The advice of a trial with the user's own entries as they are now: a search leaves those alone.

    Both are advice in the text form.  BadInput where one cannot be read.
    """
    own = _of_user(from_text(present))
    advice = from_text(tried)
    if own == _of_user(advice):
        return tried
    return to_text((*(one for one in advice if one.author != USER), *own))


def _of_user(advice: tuple[Advice, ...]) -> tuple[Advice, ...]:
    return tuple(one for one in advice if one.author == USER)
