"""Questions about what could be otherwise: asked of the worker while nothing else waits, answers kept per advice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from app.session.client import Client, Pending
from engine.documents.exploration import DecisionsDoc, MovesDoc, OrderDoc, SpaceDoc, WarpDoc
from engine.documents.model import ProblemDoc
from engine.documents.pipeline import ChartDoc, ListingDoc, VariantDoc
from engine.support.serialization import to_json
from engine.tensorize.space import GemmConfig

KINDS = {
    "moves": MovesDoc,
    "decisions": DecisionsDoc,
    "space": SpaceDoc,
    "order": OrderDoc,
    "addresses": WarpDoc,
    "chart": ChartDoc,
    "variant": VariantDoc,
    "listing": ListingDoc,
}
"""Verb -> the document that answers it."""

TITLES = {
    "moves": "Trying the next steps of",
    "decisions": "Looking at the decisions of",
    "space": "Drawing the iteration space of",
    "order": "Trying an order of",
    "addresses": "Running one block of",
    "chart": "Drawing the pipeline of",
    "variant": "Compiling other knobs of",
    "listing": "Listing the instructions of",
}
PAUSE_MS = 120
"""How long wishes must stand still before they are sent."""
KEPT = 256
"""Answers that are remembered; the oldest go first."""
ATTEMPTS = 4
"""How often an answer that came back incomplete is asked for."""

Answer = MovesDoc | DecisionsDoc | SpaceDoc | OrderDoc | WarpDoc | ChartDoc | VariantDoc | ListingDoc | ProblemDoc


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about a group under some advice; equal questions have equal answers."""

    verb: str
    group: str
    recipe: str
    axes: tuple[str, ...] = ()
    """Of "space": the dimensions to draw; empty leaves the choice to the worker."""
    order: tuple[str, ...] = ()
    """Of "space" and "order": dimensions outermost first as they are asked for; empty for the order in use."""
    tiles: tuple[tuple[str, int], ...] = ()
    """Of "order": values of one tile along a dimension."""
    knobs: GemmConfig | None = None
    """Of "variant": what the kernel would stand at."""
    language: str = ""
    """Of "listing": "PTX" or "SASS"."""

    def arguments(self) -> dict[str, object]:
        """As the worker takes them."""
        common: dict[str, object] = {"group": self.group, "recipe": self.recipe}
        if self.verb == "space":
            return common | {"axes": list(self.axes), "order": list(self.order)}
        if self.verb == "order":
            return common | {"order": list(self.order), "tiles": dict(self.tiles)}
        if self.verb == "variant":
            return common | {"knobs": to_json(self.knobs)}
        if self.verb == "listing":
            return common | {"language": self.language}
        return common


class Exploring(QObject):
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
        self._answers: dict[Question, Answer] = {}
        self._attempts: dict[Question, int] = {}
        self._wanted: tuple[Question, ...] = ()
        self._urgent: tuple[Question, ...] = ()
        self._sent: Question | None = None
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(PAUSE_MS)
        self._pause.timeout.connect(self._send_next)
        client.jobs_changed.connect(self._on_jobs)
        client.respawned.connect(self._on_respawned)

    @property
    def is_settled(self) -> bool:
        """Whether everything wanted has been answered or given up."""
        return self._sent is None and self._next() is None

    def answer(self, question: Question) -> Answer | None:
        """What is known; a Problem where the worker refused, None while it has not been answered."""
        return self._answers.get(question)

    def is_open(self, question: Question) -> bool:
        """Whether a complete answer is still on its way."""
        return question == self._sent or (question in (*self._urgent, *self._wanted) and self._is_due(question))

    def want(self, questions: Iterable[Question]) -> None:
        """Replaces what is wanted, the most urgent first."""
        wanted = tuple(questions)
        if wanted != self._wanted:
            self._wanted = wanted
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
        self._wanted = self._urgent = ()
        self.state_changed.emit()

    def _is_due(self, question: Question) -> bool:
        """Whether a question still has to be asked: never answered, or incompletely because a newer request came."""
        if self._attempts.get(question, 0) >= ATTEMPTS:
            return False
        known = self._answers.get(question)
        return known is None or (isinstance(known, MovesDoc) and not known.complete)

    def _next(self) -> Question | None:
        return next((each for each in (*self._urgent, *self._wanted) if self._is_due(each)), None)

    def _send_next(self) -> None:
        question = self._next()
        if question is None or not self._client.is_idle or not self._client.process_id:
            return  # a worker that does not run has no file open to be asked about
        self._sent = question
        self._attempts[question] = self._attempts.get(question, 0) + 1
        pending = Pending(
            KINDS[question.verb],
            lambda answer: self._on_answer(question, answer),
            lambda problem: self._on_answer(question, problem),
        )
        self._client.request(question.verb, question.arguments(), f"{TITLES[question.verb]} {question.group}", pending)
        self.state_changed.emit()

    def _on_answer(self, question: Question, answer: Answer) -> None:
        self._sent = None
        self._answers.pop(question, None)
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
