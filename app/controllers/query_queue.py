"""Questions to the worker about a group: asked while nothing else waits, answers kept per advice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.session.client import Client, Pending
from engine.documents.exploration import QUESTIONS
from engine.documents.model import ProblemDoc
from engine.support.serialization import to_json
from views.answer import AnswerPage, AnswerPanel

PAUSE_MS = 120
"""Milliseconds for which what is wanted must not change before it is asked: arrow keys pass over many groups."""
KEPT = 256
"""Answers that are remembered; the oldest go first."""
ATTEMPTS = 4
"""How often an answer that came back incomplete is asked for."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about a group under some advice; equal questions have equal answers."""

    verb: str
    group: str
    recipe: str
    # A mapping has no hash; questions that are equal agree in the other fields, so their hashes do, too.
    details: Mapping[str, object] = field(default_factory=dict, hash=False)
    """The other arguments of the verb's function, under their names."""

    def arguments(self) -> dict[str, object]:
        """As the worker takes them."""
        return {"group": self.group, "recipe": self.recipe, **{k: to_json(value) for k, value in self.details.items()}}


class QueryQueue(QObject):
    """One question at a time, the most urgent first, and only while the worker has nothing else to do.

    What nobody wants any more is not asked; the answer to a question that was already sent is kept for its advice.
    """

    answered = Signal(object)
    """A Question has its answer."""
    state_changed = Signal()
    """A question was sent, answered or given up."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._answers: dict[Question, object] = {}
        self._attempts: dict[Question, int] = {}
        self._wanted: dict[object, tuple[Question, ...]] = {}
        """Controller -> what it wants, the most urgent first."""
        self._urgent: tuple[Question, ...] = ()
        self._sent: Question | None = None
        self._pause = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._pause.timeout.connect(self._send_next)
        client.jobs_changed.connect(self._on_jobs)
        client.respawned.connect(self._on_respawned)

    @property
    def is_settled(self) -> bool:
        """Whether everything wanted has been answered or given up."""
        return self._sent is None and self._next() is None

    def answer(self, question: Question | None) -> object | None:
        """The document, once it is known; a Problem where the worker refused, None while it has not been answered."""
        return self._answers.get(question) if question else None

    def is_open(self, question: Question) -> bool:
        """Whether a complete answer is still on its way."""
        return question == self._sent or (question in self._all_questions() and self._is_due(question))

    def want(self, controller: object, questions: Iterable[Question | None]) -> None:
        """Replaces what a controller wants, the most urgent first; None stands for what cannot be asked yet."""
        wanted = tuple(question for question in questions if question is not None)
        if wanted != self._wanted.get(controller, ()):
            self._wanted[controller] = wanted
            self._pause.start()
            self.state_changed.emit()

    def ask(self, question: Question) -> None:
        """Asks ahead of everything wanted, without a pause; an older question of the same verb gives way."""
        self.retry(question)
        self._urgent = (question, *(each for each in self._urgent if each.verb != question.verb))
        self._send_next()

    def retry(self, question: Question) -> None:
        """A question that was refused or stopped may be asked again."""
        self._attempts.pop(question, None)
        if isinstance(self._answers.get(question), ProblemDoc):
            del self._answers[question]

    def forget(self) -> None:
        """Another file was opened: nothing known is of use."""
        self._answers.clear()
        self._attempts.clear()
        self._wanted.clear()
        self._urgent = ()
        self.state_changed.emit()

    def show_answer(
        self, widget: AnswerPage | AnswerPanel, question: Question | None, show: Callable[[Any], None]
    ) -> None:
        """Shows what is known: the document by `show`, a refusal, or that nothing is asked.

        While a first answer is on its way the widget keeps what it shows, under its loading bar.
        """
        known = self.answer(question)
        widget.show_loading(question is not None and self.is_open(question))
        if question is None:
            widget.show_nothing()
        elif isinstance(known, ProblemDoc):
            widget.show_problem(known)
        elif known is not None:
            show(known)

    def _all_questions(self) -> tuple[Question, ...]:
        """Everything to be asked, the most urgent first."""
        return (*self._urgent, *(question for wanted in self._wanted.values() for question in wanted))

    def _is_due(self, question: Question) -> bool:
        """Whether a question still has to be asked: never answered, or incompletely because a newer request came."""
        if self._attempts.get(question, 0) >= ATTEMPTS:
            return False
        known = self._answers.get(question)
        return known is None or not getattr(known, "complete", True)

    def _next(self) -> Question | None:
        return next(filter(self._is_due, self._all_questions()), None)

    def _send_next(self) -> None:
        question = self._next()
        if question is None or not self._client.is_idle or not self._client.process_id:
            return  # a worker that does not run has no file open to be asked about
        self._sent = question
        self._attempts[question] = self._attempts.get(question, 0) + 1
        kind = QUESTIONS[question.verb]
        on_answer = partial(self._on_answer, question)
        pending = Pending(kind.document, on_answer, on_answer)  # a refusal is an answer, too
        self._client.request(question.verb, question.arguments(), f"{kind.title} {question.group}", pending)
        self.state_changed.emit()

    def _on_answer(self, question: Question, answer: object) -> None:
        self._sent = None
        self._answers.pop(question, None)  # to the end of the order in which answers are forgotten
        self._answers[question] = answer
        while len(self._answers) > KEPT:
            del self._answers[next(iter(self._answers))]
        self._urgent = tuple(each for each in self._urgent if each != question)
        self.answered.emit(question)
        self.state_changed.emit()

    def _on_jobs(self) -> None:
        """The worker may have become idle: what is still wanted goes next, unless it changed a moment ago."""
        if self._client.is_idle and self._sent is None and not self._pause.isActive():
            self._send_next()

    def _on_respawned(self) -> None:
        """The worker was ended, perhaps because this question took too long: it is not asked again by itself."""
        if self._sent is not None:
            given_up, self._sent = self._sent, None
            stopped = ProblemDoc("window", given_up.group, "this was stopped", "select the group again or edit it")
            self._on_answer(given_up, stopped)
