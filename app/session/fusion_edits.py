"""Edits of groups: tried while dragging, carried out by the worker, kept as steps that can be undone."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Signal

from app.session.client import Pending
from app.session.fusion_constraints import FREE, FUSION, fixed_arguments, fixed_now, fixed_of, fixed_text
from app.session.history import NO_STEP, History
from app.session.workspace import Workspace
from engine.documents.exploration import JOIN, RELEASE, SPLIT, TAKE_OUT, AttemptDoc, FusionEdit, WhyDoc
from engine.documents.model import ModelDoc, ProblemDoc
from engine.fusion.stitching.nodes import Fixed
from views.format import plural
from views.overview import Overview, overview

FIRST_TITLE = "Default fusion"
Pair = tuple[str, str]
"""Two launches, "GROUP#INSTANCE"."""
Answer = AttemptDoc | WhyDoc | ProblemDoc


class FusionEdits(QObject):
    """What the user fixes about groups.  One question is under way at a time; of those that wait, the newest counts."""

    answered = Signal(object)
    """A FusionEdit, or a pair of launches, has its answer."""
    state_changed = Signal()
    """Other groups are being made, or are made."""
    refused = Signal(object, object)
    """A FusionEdit that cannot be carried out (None for a step of the history), and the Problem that says why."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self.workspace = workspace
        self._answers: dict[FusionEdit | Pair, Answer] = {}
        self._sent: FusionEdit | Pair | None = None
        self._waiting: FusionEdit | Pair | None = None
        self._wanted: FusionEdit | None = None
        """To be carried out once it is known to be legal."""
        workspace.model_changed.connect(self._forget)
        workspace.times_changed.connect(self._on_times)
        workspace.client.respawned.connect(self._on_respawned)

    @property
    def history(self) -> History:
        """The steps of what is fixed; the first is what the search chose by itself."""
        workspace = self.workspace
        if FUSION not in workspace.histories:
            workspace.histories[FUSION] = History.start(FREE, FIRST_TITLE)
            self._learn_total()
        return workspace.histories[FUSION]

    @property
    def fixed(self) -> Fixed:
        """What is fixed now."""
        return fixed_of(fixed_now(self.workspace.histories))

    @property
    def is_busy(self) -> bool:
        """Whether other groups are being made."""
        return self.workspace.is_fusing or self._wanted is not None

    @property
    def is_settled(self) -> bool:
        """Whether every question is answered and nothing is being made."""
        return self._sent is None and self._waiting is None and not self.is_busy

    def answer(self, question: FusionEdit | Pair) -> Answer | None:
        """What is known; None while it is not."""
        return self._answers.get(question)

    def ask(self, question: FusionEdit | Pair) -> Answer | None:
        """The answer where it is known; else it is asked for, ahead of what waited."""
        known = self._answers.get(question)
        if known is None and question != self._sent:
            self._waiting = question
            self._send()
        return known

    def carry_out(self, wish: FusionEdit) -> None:
        """Makes the groups that are wished for; `refused` follows where they cannot be."""
        if not self.is_busy and self.workspace.model is not None:
            self._wanted = wish
            self.ask(wish)
            self._carry_out_known()

    def release_all(self) -> None:
        """Leaves everything to the search again."""
        if not self.is_busy and self.history.step.text != FREE:
            self._fuse(FREE, "Unpin all")

    def undo(self) -> None:
        """Goes to the step before."""
        self.go(self.history.step.parent)

    def redo(self) -> None:
        """Goes to the step that was left last."""
        self.go(self.history.next_step)

    def go(self, number: int) -> None:
        """Stands at a step of the history."""
        if number != NO_STEP and number != self.history.current and not self.is_busy:
            self._fuse(self.history.steps[number].text, "", number)

    def _learn_total(self) -> bool:
        """The present step of the groups takes what the whole model takes now; whether that is news."""
        model, history = self.workspace.model, self.workspace.histories.get(FUSION)
        if model is None or model.total is None or history is None:
            return False
        return bool(history.learn(history.step.text, predicted=model.total))

    def _on_times(self) -> None:
        """Not while other groups come in: until the step is taken, the history stands at that of the old ones."""
        if not self.workspace.is_fusing and self._learn_total():
            self.workspace.history_changed.emit(FUSION)

    def _send(self) -> None:
        question = self._waiting
        if self._sent is not None or question is None or self.workspace.is_fusing:
            return
        self._sent, self._waiting = question, None
        on_answer = partial(self._on_answer, question)  # a refusal is an answer, too: it says why not
        client = self.workspace.client
        if isinstance(question, FusionEdit):
            arguments: dict[str, object] = {"kind": question.kind, "operators": list(question.operators)}
            client.request("attempt", arguments, "Trying other groups", Pending(AttemptDoc, on_answer, on_answer))
        else:
            arguments = {"producer": question[0], "consumer": question[1]}
            title = "Looking why two kernels are two"
            client.request("why", arguments, title, Pending(WhyDoc, on_answer, on_answer))

    def _on_answer(self, question: FusionEdit | Pair, answer: Answer) -> None:
        self._sent = None
        self._answers[question] = answer
        self.answered.emit(question)
        self._carry_out_known()
        self._send()

    def _carry_out_known(self) -> None:
        wish = self._wanted
        known = self._answers.get(wish) if wish else None
        if wish is None or known is None:
            return
        self._wanted = None
        if isinstance(known, AttemptDoc) and known.legal:
            self._fuse(fixed_text(known.groups, known.apart), _title(wish, known), wish=wish)
        else:
            self._refuse(wish, known if isinstance(known, ProblemDoc) else _problem(wish, known))

    def _fuse(self, text: str, title: str, number: int = NO_STEP, wish: FusionEdit | None = None) -> None:
        """Has the groups made; the step is taken, or `number` is stood at, when they are."""
        workspace, history = self.workspace, self.history

        def on_model(opened: Overview) -> None:
            workspace.is_fusing = False
            (history.add(text, title) if number == NO_STEP else history.go(number))
            workspace.adopt(opened)
            self._learn_total()
            workspace.history_changed.emit(FUSION)
            self.state_changed.emit()

        def on_problem(problem: ProblemDoc) -> None:
            workspace.is_fusing = False
            self._refuse(wish, problem)
            workspace.ask_again()

        workspace.is_fusing = True
        pending = Pending(ModelDoc, on_model, on_problem, prepare=overview)
        workspace.client.request("fuse", fixed_arguments(text), title or "Going to another step of the groups", pending)
        self.state_changed.emit()

    def _refuse(self, wish: FusionEdit | None, problem: ProblemDoc) -> None:
        self.workspace.add_problem("", problem)
        self.refused.emit(wish, problem)
        self.state_changed.emit()

    def _forget(self) -> None:
        """Answers are about one plan."""
        self._answers.clear()
        self._waiting = self._wanted = None

    def _on_respawned(self) -> None:
        """Questions to a worker that was ended are never answered; the groups stay as they are."""
        self._sent = self._waiting = self._wanted = None
        self.state_changed.emit()


def _problem(wish: FusionEdit, refused: AttemptDoc | WhyDoc | None) -> ProblemDoc:
    reason, hint = (refused.because, refused.hint) if isinstance(refused, AttemptDoc) else ("cannot be", "")
    return ProblemDoc("fuse", " + ".join(wish.operators), reason, hint)


def _title(wish: FusionEdit, found: AttemptDoc) -> str:
    """A step in few words: "Merge 4 operators, × 12"."""
    names = [name.rstrip("/").rpartition("/")[2] for name in wish.operators]
    said = {
        JOIN: f"Merge {' + '.join(names) if len(names) < 3 else plural(len(names), 'operator')}",
        SPLIT: f"Split at {names[-1]}",
        TAKE_OUT: f"Take out {names[-1]}",
        RELEASE: f"Unpin {names[0] if len(names) == 1 else plural(len(names), 'operator')}",
    }[wish.kind]
    return said + (f" × {found.places:,}" if found.places > 1 else "")
