"""Controller of the Schedule panel's pages about other schedules, and of what the constraint tree offers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from app.controllers.query_queue import QueryQueue, Question
from app.controllers.question import GroupController
from app.session.advice import with_pasted
from app.session.workspace import Workspace
from engine.documents.exploration import DecisionsDoc, MovesDoc, OrderDoc, SpaceDoc, WarpDoc
from engine.documents.model import ProblemDoc
from views.constraints.view import ConstraintsView
from views.schedule.loops import loops_of
from views.schedule.view import ADDRESSES, DECISIONS, SPACE, ScheduleView
from views.space.trial import AxisDrag

Document = TypeVar("Document")


@dataclass(frozen=True, slots=True)
class OrderPreview:
    """An order that breaks dependences, drawn but not applied."""

    question: Question
    answer: OrderDoc
    used: tuple[str, ...]
    """The axes in the order in use."""


class ExplorationController(GroupController):
    """Keeps iteration space, decisions, addresses and offers in step with the selected group's advice."""

    def __init__(
        self, schedule: ScheduleView, constraints: ConstraintsView, workspace: Workspace, queries: QueryQueue
    ) -> None:
        super().__init__(workspace, queries, schedule, constraints)
        self.schedule, self.constraints = schedule, constraints
        self._axes: dict[str, tuple[str, ...]] = {}
        """Group -> the dimensions that the user chose to draw."""
        self._counted: set[Question] = set()
        """Addresses that the user asked for: the emulator runs for them."""
        self._trial: tuple[AxisDrag, Question] | None = None
        """What is held over the iteration space."""
        self._dropped: Question | None = None
        """An order that was let go before the worker said what it means."""
        self._preview: OrderPreview | None = None
        queries.answered.connect(self._on_answered)
        workspace.model_changed.connect(self._forget)
        schedule.tab_selected.connect(lambda _: self.refresh())
        constraints.instances_requested.connect(lambda _: schedule.select_tab(SPACE))
        schedule.space.repair_requested.connect(self._apply)
        schedule.space.axes_requested.connect(self._choose_axes)
        schedule.entry_requested.connect(lambda line: workspace.change(self.group, with_pasted, line))
        schedule.interchange_requested.connect(self._interchange)
        schedule.addresses.asked.connect(self._count)
        schedule.space.preview_accepted.connect(self._accept_preview)
        schedule.space.preview_dropped.connect(self._drop_preview)
        schedule.space.canvas.tried.connect(self._try)
        schedule.space.canvas.dropped.connect(self._drop)

    def refresh(self) -> None:
        """Says what the visible panels want, and shows what is known."""
        space = self._space_question()
        decisions, moves = self.question("decisions", legal=True), self.question("moves", legal=True)
        addresses = self.question("addresses")
        tab = self.schedule.tab if self.schedule.isVisible() else ""
        wanted = {SPACE: [space], DECISIONS: [decisions], ADDRESSES: self._counting()}.get(tab, [])
        if self.constraints.isVisible():
            wanted += [decisions, moves]
        self.queries.want(self, wanted)
        show = self.queries.show_answer
        show(self.schedule.space, space, self._show_space)
        show(self.schedule.decisions, decisions, self.schedule.decisions.show_decisions)
        if self.queries.answer(addresses) is None:  # what was counted under other advice would pass for this one's
            self.schedule.addresses.show_nothing()
        show(self.schedule.addresses, addresses, self._show_addresses)
        self._show_possible(moves, decisions)

    def _counting(self) -> list[Question | None]:
        """The addresses to be counted: those of the present advice and those of the baseline to compare with."""
        now, baseline = self.question("addresses"), self._baseline()
        return [now, baseline] if now in self._counted else []

    def _baseline(self) -> Question | None:
        """The addresses of the baseline's advice; None where it is the present one."""
        history = self.workspace.histories.get(self.group)
        if history is None:
            return None
        question = Question("addresses", self.group, history.steps[history.baseline].text)
        return question if question != self.question("addresses") else None

    def _count(self) -> None:
        question = self.question("addresses")
        if question is not None:
            self._counted.add(question)
            self.queries.retry(question)
            self.refresh()

    def _apply(self, text: str) -> None:
        self.workspace.edit(self.group, text)

    def _forget(self) -> None:
        self._axes.clear()
        self._counted.clear()
        self._trial = self._dropped = self._preview = None

    def _choose_axes(self, axes: tuple[str, ...]) -> None:
        self._axes[self.group] = axes
        self.refresh()

    def _try(self, trial: AxisDrag) -> None:
        """Asks what a drop would mean, while it is still held."""
        question = self._order(trial)
        if question is not None:
            self._trial = (trial, question)
            if self.queries.answer(question) is None:
                self.queries.ask(question)
            self._show_trial()

    def _drop(self, trial: AxisDrag) -> None:
        """Applies what was dropped, as soon as the worker has said how it reads."""
        self._dropped = self._order(trial)
        if self._dropped is not None and not self._apply_dropped():
            self.queries.ask(self._dropped)

    def _interchange(self, first: str, second: str) -> None:
        """Asks for two loops in each other's place; an order that breaks something is drawn."""
        kernel, question = self.workspace.legal_kernel(self.group), self.question("order", legal=True)
        if kernel is None or question is None:
            return
        names = sorted((first, second), key=loops_of(kernel.schedule).index)
        self._dropped = replace(question, details={"order": tuple(reversed(names)), "tiles": {}})
        if not self._apply_dropped():
            self.queries.ask(self._dropped)

    def _order(self, trial: AxisDrag) -> Question | None:
        known, question = self._known_space(), self.question("order")
        if known is None or question is None:
            return None
        return replace(question, details={"order": trial.order(known), "tiles": dict(trial.tiles(known))})

    def _apply_dropped(self) -> bool:
        """Whether the dropped order is known by now; an illegal one is drawn with what it breaks, not applied."""
        question, known = self._dropped, self.queries.answer(self._dropped)
        if known is None or question is None:
            return False
        self._dropped = None
        space, order = self._known_space(), question.details["order"]
        if isinstance(known, OrderDoc) and known.legal:
            self._preview = None
            self._apply(known.recipe)
        elif isinstance(known, OrderDoc) and order:
            used = self._preview.used if self._preview else space.order if space else ()
            self._preview = OrderPreview(question, known, used) if order != used else None
            self.schedule.select_tab(SPACE)
            self.refresh()
        elif isinstance(known, OrderDoc):
            self.schedule.space.verdict.show_refusal(known.because)
        elif isinstance(known, ProblemDoc):
            self.schedule.space.verdict.show_refusal(known.sentence)
        return True

    def _accept_preview(self) -> None:
        """Applies what was drawn although it breaks something: the conflict then says by whom it is refused."""
        if self._preview is not None:
            self._apply(self._preview.answer.recipe)

    def _drop_preview(self) -> None:
        self._preview = None
        self.refresh()

    def _on_answered(self, question: Question) -> None:
        if question.group != self.group:
            return
        if question == self._dropped:
            self._apply_dropped()
        self._show_trial()

    def _space_question(self) -> Question | None:
        """With the axes that were chosen, and in the order that is drawn without being applied.

        Advice that cannot even be read has no order to draw; then it is the last legal one.
        """
        question = self.question("space", legal=self.workspace.refusal(self.group) is not None)
        if question is None:
            return None
        asked = self._preview.question if self._preview else None
        if asked is not None and (asked.group, asked.recipe) != (question.group, question.recipe):
            self._preview = asked = None
        order = asked.details["order"] if asked else ()
        return replace(question, details={"axes": self._axes.get(self.group, ()), "order": order})

    def _known_space(self) -> SpaceDoc | None:
        return self._document_of(self._space_question(), SpaceDoc)

    def _document_of(self, question: Question | None, kind: type[Document]) -> Document | None:
        """The document that answers a question; None where none has come, or the worker refused."""
        found = self.queries.answer(question)
        return found if isinstance(found, kind) else None

    def _show_trial(self) -> None:
        if self._trial is not None:
            trial, question = self._trial
            known = self.queries.answer(question)
            if known is None or isinstance(known, OrderDoc | ProblemDoc):
                self.schedule.space.canvas.show_answer(trial, known)

    def _show_space(self, document: SpaceDoc) -> None:
        self.schedule.space.show_space(document, self._preview is not None)

    def _show_addresses(self, document: WarpDoc) -> None:
        self.schedule.addresses.show_addresses(document, self._document_of(self._baseline(), WarpDoc))

    def _show_possible(self, moves: Question | None, decisions: Question | None) -> None:
        """What the menu of entries offers."""
        tried, table = self._document_of(moves, MovesDoc), self._document_of(decisions, DecisionsDoc)
        self.constraints.show_possible(tried, table)
