"""The open workspace: the only mutable state of the window, changed by commands and by the worker's answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.session.client import Client, MachineProbe, Pending
from app.session.current_times import present_model, steps_without_time
from app.session.edit_summaries import FIRST_TITLE, title_of
from app.session.fusion_constraints import DormantHistory, heir, rename_histories, same_groups
from app.session.history import Checked, History, HistoryRecord
from app.session.kernel_answers import KernelAnswers, problems_of
from app.session.named_models import EXAMPLE, is_name
from app.session.open_request import OpenRequest
from app.session.preview import Preview
from app.session.selection import Selection, SelectionBus, known_selection
from engine.documents.exploration import ConflictDoc
from engine.documents.model import Check, CompiledDoc, GroupDoc, KernelDoc, ModelDoc, ProblemDoc, Time
from views.overview import Overview, overview, with_times


class Workspace(QObject):
    """One open model, the history of its groups' advice, and everything known about them."""

    model_changed = Signal()
    kernel_changed = Signal(str)
    """What is known about a group's kernel, its advice or its check changed."""
    history_changed = Signal(str)
    """A group's history: its steps, where it stands, what is known about them."""
    times_changed = Signal()
    """Other times of the same kernels: `model` and `overview` have them, with their shares and the total."""
    open_refused = Signal(object, object)
    """Opening and ProblemDoc: a file that could not be opened."""
    problems_changed = Signal()
    opening_changed = Signal(bool)
    saved_path = Signal(str)
    """A file was opened, for the list of recent files."""

    def __init__(self, client: Client, target: str, dimensions: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self.client = client
        self.opened = OpenRequest("", target, dict(dimensions or {}))
        """The file that is open, and for which machine."""
        self.bus = SelectionBus()
        self.overview: Overview | None = None
        """At the times of the groups' present advice."""
        self._as_opened: ModelDoc | None = None
        """At those of the advisers' advice, as the engine made it."""
        self.preview = Preview()
        self.machine = MachineProbe(client)
        self.problems: list[tuple[str, ProblemDoc]] = []
        """(group or "", problem), the oldest first."""
        self.histories: dict[str, History] = {}
        """Of the groups whose first kernel is known, and of those in an opened file."""
        self.asleep: list[DormantHistory] = []
        """Histories of groups that other plans of the model had."""
        self.is_fusing = False
        """Whether other groups are being made: those that are shown may be gone in a moment."""
        self.is_regrouping = False
        """Whether `model_changed` is about other groups of the same model."""
        self._waiting: dict[str, list[str]] = {}
        """Edits of a group that have no kernel yet, in the order in which they were made."""
        self._answers = KernelAnswers()
        self._asked: set[tuple[str, str | None]] = set()
        self.bus.changed.connect(self._on_selected)
        self.history_changed.connect(lambda _: self._show_present())
        client.respawned.connect(self._reopen)
        client.failed.connect(partial(self.add_problem, ""))

    @property
    def shown(self) -> Overview | None:
        """What there is to see: the open model, or the graph of one whose planning goes on, or ended early."""
        return self.overview or self.preview.overview

    @property
    def model(self) -> ModelDoc | None:
        """The open model, at the times of its groups' present advice."""
        return self.overview.model if self.overview else None

    def start(self) -> None:
        """Asks what this machine can do."""
        self.machine.look()

    def open(self, path: str, opening: OpenRequest | None = None) -> None:
        """Opens a file, for the present machine unless `opening` says another; what was open stays until it is read."""
        self.opening_changed.emit(True)
        if not is_name(path):
            path = str(Path(path).absolute())  # the worker has a working directory of its own
        same = OpenRequest(path, self.opened.target, self.opened.dimensions, numerics=self.opened.numerics)
        asked = replace(opening or same, path=path)
        self._request_open(asked, f"Opening {Path(path).name}")

    def recipe(self, group: str) -> str | None:
        """The advice of a group that was asked for last, refused or not; None until its first kernel is known."""
        if self._waiting.get(group):
            return self._waiting[group][-1]
        history = self.histories.get(group)
        return history.text if history else None

    def kernel(self, group: str) -> KernelDoc | None:
        """The kernel of the applied advice, legal or not; None while unknown or refused."""
        return self._answers.kernels.get((group, self.recipe(group) or ""))

    def known_kernel(self, group: str, text: str) -> KernelDoc | None:
        """The kernel of any advice that was asked for before."""
        return self._answers.kernels.get((group, text))

    def legal_kernel(self, group: str) -> KernelDoc | None:
        """The kernel of the step where the group's history stands, or the last one shown: for schedule and code."""
        history = self.histories.get(group)
        present = self._answers.runs(group, history.step.text) if history else None
        return present or self._answers.shown.get(group)

    def is_refused(self, group: str) -> bool:
        """Whether the advice that was asked for gave no legal kernel."""
        kernel = self.kernel(group)
        return self.refusal(group) is not None or (kernel is not None and not kernel.has_kernel)

    def refusal(self, group: str) -> ProblemDoc | None:
        """Why the applied advice gave no kernel at all."""
        return self._answers.refusals.get((group, self.recipe(group) or ""))

    def check(self, group: str) -> Check | None:
        """The check of the applied advice."""
        return self._answers.checks.get((group, self.recipe(group) or ""))

    def group(self, name: str) -> GroupDoc | None:
        """A group of the open model."""
        return next((group for group in self.model.groups if group.name == name), None) if self.model else None

    def trails(self) -> dict[str, HistoryRecord]:
        """The histories of all groups as plain data."""
        return {group: history.trail() for group, history in self.histories.items()}

    def want(self, group: str) -> None:
        """Asks for a group's first kernel, unless it is known."""
        if group not in self.histories and not self._answers.is_known(group, ""):
            self._ask_kernel(group, None)

    def edit(self, group: str, text: str) -> None:
        """Asks for new advice; once its kernel is legal it is a step of the group's history."""
        history = self.histories.get(group)
        if history is None or text == self.recipe(group):
            return
        if text == history.step.text:
            self.go(group, history.current)
            return
        self._waiting.setdefault(group, []).append(text)
        self._show_asked(group)

    def undo(self, group: str) -> None:
        """Takes back what was refused or is under way, else goes to the step before; shown at once from the cache."""
        history, waiting = self.histories[group], self._waiting.get(group)
        if waiting:
            history.refuse(waiting.pop())
        history.undo()
        self._show_asked(group)

    def redo(self, group: str) -> None:
        """Goes to the step that was left last, or asks again for what was taken back."""
        draft = self.histories[group].redo()
        if draft:
            self.edit(group, draft)
        else:
            self._show_asked(group)

    def go(self, group: str, number: int) -> None:
        """Stands at a step of a group's history."""
        self._waiting.pop(group, None)
        self.histories[group].go(number)
        self._show_asked(group)

    def can_undo(self, group: str) -> bool:
        """Whether the group has anything to take back."""
        return bool(self._waiting.get(group)) or (group in self.histories and self.histories[group].can_undo)

    def can_redo(self, group: str) -> bool:
        """Whether the group has anything to make again."""
        return group in self.histories and not self._waiting.get(group) and self.histories[group].can_redo

    def pin(self, group: str, number: int) -> None:
        """Makes a step the baseline that gains are counted from."""
        self.histories[group].baseline = number
        self.history_changed.emit(group)

    def note(self, group: str, number: int, text: str) -> None:
        """Writes a remark to a step."""
        self.histories[group].note(number, text)
        self.history_changed.emit(group)

    def change(self, group: str, change: Callable[..., str], *arguments: object) -> None:
        """Edits a group's advice by a function of `app.session.advice`, which takes the text before the arguments."""
        text = self.recipe(group)
        if text is not None:
            self.edit(group, change(text, *arguments))

    def _show_asked(self, group: str) -> None:
        """Shows what is asked for now; a kernel that is known already comes at once."""
        self.clear_problems(group)
        text = self.recipe(group) or ""
        if not self._answers.is_known(group, text):
            self._ask_kernel(group, text)
        self._settle(group)

    def add_check(self, group: str, text: str, check: Check) -> None:
        """Adds what a check of the kernel under this advice found."""
        self._answers.checks[group, text] = check
        self.learn(group, text, checked=Checked.of(check))
        self.kernel_changed.emit(group)

    def add_conflict(self, group: str, text: str, found: ConflictDoc) -> None:
        """Adds the smallest conflicts and the repairs to what is known of this advice."""
        if self._answers.add_conflict(group, text, found):
            if text == self.recipe(group):
                self.clear_problems(group)  # the same ones with shorter reasons follow
            self._settle(group)

    def add_figures(self, group: str, text: str, figures: tuple[CompiledDoc, ...]) -> None:
        """Adds NVRTC's figures to the kernel under this advice."""
        if self._answers.add_figures(group, text, figures):
            self._settle(group)

    def clear_problems(self, group: str | None = None) -> None:
        """Drops the problems of a group, or all."""
        self.problems = [] if group is None else [each for each in self.problems if each[0] != group]
        self.problems_changed.emit()

    def _request_open(self, opening: OpenRequest, title: str, again: bool = False) -> None:
        on_opened, on_problem = partial(self._on_opened, opening, again), partial(self._on_not_opened, opening)
        on_preview = None if self.overview else self.preview.show
        pending = Pending(ModelDoc, on_opened, on_problem, prepare=overview, on_preview=on_preview)
        self.client.request("open", opening.arguments(), title, pending)

    def _ask_kernel(self, group: str, text: str | None) -> None:
        if (group, text) in self._asked or self.is_fusing:
            return
        self._asked.add((group, text))
        pending = Pending(KernelDoc, partial(self._on_kernel, group, text), partial(self._on_refused, group, text))
        self.client.request("kernel", {"group": group, "recipe": text}, f"Compiling {group}", pending)

    def learn(self, group: str, text: str, predicted: Time | None = None, measured: Time | None = None,
              checked: Checked | None = None) -> None:  # fmt: skip
        """Adds figures to the steps of a group's history that have this advice."""
        if self.histories[group].learn(text, predicted, measured, checked):
            self.history_changed.emit(group)

    def _on_selected(self, selection: Selection) -> None:
        group = selection.group
        if self.group(group) is None:
            return
        history = self.histories.get(group)
        for text in {self.recipe(group), history.step.text if history else None}:
            if not self._answers.is_known(group, text or ""):
                self._ask_kernel(group, text)

    def _on_kernel(self, group: str, text: str | None, kernel: KernelDoc) -> None:
        self._asked.discard((group, text))
        if text is None:
            text = kernel.recipe
            self.histories.setdefault(group, History.start(text, FIRST_TITLE))
        self._answers.add(group, text, kernel)
        if kernel.has_kernel:
            self.histories[group].learn(text, predicted=kernel.time)
        self._settle(group)

    def _on_refused(self, group: str, text: str | None, problem: ProblemDoc) -> None:
        self._asked.discard((group, text))
        self._answers.refusals[group, text or ""] = problem
        if text is None or group in self.histories:
            self._settle(group)

    def _show_present(self) -> None:
        """Brings times, shares and total up to the steps where the histories stand, and says so."""
        if self.overview is not None and self._retime():
            self.times_changed.emit()

    def _retime(self) -> bool:
        """The same without a word; whether anything was not up to date."""
        assert self.overview is not None and self._as_opened is not None
        present = present_model(self._as_opened, self.histories, self._answers.kernels)
        if present == self.overview.model:
            return False
        self.overview = with_times(self.overview, present)
        return True

    def _settle(self, group: str) -> None:
        """Makes steps of the edits whose kernels are legal, a draft of one that is not, and emits the changes."""
        history, waiting = self.histories.get(group), self._waiting.get(group, [])
        if history and history.draft_shown:
            self._take(group, history, history.draft)  # what was refused elsewhere may be legal here
        while history and waiting and self._answers.is_settled(group, waiting[0]):
            self._take(group, history, waiting.pop(0))
        kernel, refusal = self.kernel(group), self.refusal(group)
        if kernel and kernel.has_kernel:
            self._answers.shown[group] = kernel
        for problem in problems_of(kernel) if kernel else ():
            self.add_problem(group, problem)
        if refusal:
            self.add_problem(group, refusal)
        self.kernel_changed.emit(group)
        if history is not None:  # a group whose first kernel was refused has none
            self.history_changed.emit(group)

    def _take(self, group: str, history: History, text: str) -> None:
        """Makes a step of an edit whose kernel is legal, else a draft."""
        known = self._answers.runs(group, text)
        if known is not None:
            history.add(text, title_of(history.step.text, text))
            history.learn(text, predicted=known.time)
        else:
            history.refuse(text)

    def _on_opened(self, opening: OpenRequest, again: bool, opened: Overview) -> None:
        model = opened.model
        same = self.opened.path == opening.path and self._as_opened == model and (again or not opening.trails)
        self.opened = replace(opening, trails={}, asleep=(), selection=Selection(), warnings=())
        if not same:
            self.overview, self._as_opened = opened, model
        self.preview.end(model, self.bus)
        self.opening_changed.emit(False)
        if same:
            return
        self._waiting.clear()
        self._answers = KernelAnswers()
        self.histories = {group: History.of(trail) for group, trail in opening.trails.items()}
        self.asleep = list(opening.asleep)
        self._asked.clear()
        self.problems = [("", problem) for problem in opening.problems(model)]
        self.bus.select(Selection())
        self._retime()
        self.model_changed.emit()
        self.problems_changed.emit()
        for group, text in steps_without_time(self.histories):
            if self.group(group) is not None:
                self._ask_kernel(group, text)
        self.bus.select(known_selection(opening.selection, [group.name for group in model.groups]))
        if opening.loom or opening.path != EXAMPLE:
            self.saved_path.emit(opening.loom or opening.path)

    def adopt(self, opened: Overview) -> None:
        """Takes other groups of the same model over; what is known of groups that are the same stays theirs."""
        old, new = self.model, opened.model
        assert old is not None
        names, selected = same_groups(old, new), heir(self.bus.selection.group, old, new)
        self.histories, self.asleep = rename_histories(self.histories, self.asleep, old, new)
        same = {name for name, now in names.items() if name == now}
        self._answers.keep(same)
        self._waiting = {names[name]: texts for name, texts in self._waiting.items() if name in names}
        self.overview, self._as_opened = opened, new
        self._retime()
        self.is_regrouping = True
        self.model_changed.emit()
        self.is_regrouping = False
        # Statements are numbered within their group: the same name in another group is another statement.
        kept = selected == self.bus.selection.group and selected in same
        self.bus.select_again(self.bus.selection if kept else Selection(selected))
        self.ask_again()

    def ask_again(self) -> None:
        """Asks for the kernels that were not asked for while other groups were being made."""
        self._asked.clear()
        for group, texts in self._waiting.items():
            if texts:
                self._ask_kernel(group, texts[-1])
        self._on_selected(self.bus.selection)

    def _on_not_opened(self, opening: OpenRequest, problem: ProblemDoc) -> None:
        """A file that cannot be read changes nothing: the worker keeps the old one open, too."""
        self.opening_changed.emit(False)
        self.add_problem("", problem)
        self.open_refused.emit(opening, problem)

    def _reopen(self) -> None:
        """A fresh worker knows nothing: it gets the open file again.  Edits under way become drafts."""
        self.is_fusing = False
        self._asked.clear()
        self.opening_changed.emit(False)
        for group, waiting in self._waiting.items():
            if waiting:
                self.histories[group].refuse(waiting.pop())
                self.histories[group].undo()
                waiting.clear()
                self._settle(group)
        if self.opened.path:
            trails, asleep = self.trails(), tuple(self.asleep)
            again = replace(self.opened, trails=trails, asleep=asleep, selection=self.bus.selection)
            self._request_open(again, f"Opening {Path(again.path).name} again", True)
        self._on_selected(self.bus.selection)

    def add_problem(self, group: str, problem: ProblemDoc) -> None:
        """Adds a row to the problems, once."""
        if (group, problem) not in self.problems:
            self.problems.append((group, problem))
            self.problems_changed.emit()
