"""Connects what could be otherwise with its panels: wishes become questions, answers become pictures and edits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from PySide6.QtCore import QObject

from app.controllers.query_queue import Answer, Exploring, Question
from app.session.workspace import Workspace
from engine.documents.exploration import DecisionsDoc, MovesDoc, OrderDoc, SpaceDoc, WarpDoc
from engine.documents.model import ProblemDoc
from views.constraints.view import ConstraintsView
from views.moves.view import MovesView
from views.schedule.view import ADDRESSES, DECISIONS, SPACE, ScheduleView
from views.space.trial import Trial


class Page(Protocol):
    """What shows an answer."""

    def show_loading(self, loading: bool) -> None:
        """Whether something newer is on its way."""


@dataclass(frozen=True, slots=True)
class Preview:
    """An order that breaks dependences, drawn but not applied."""

    question: Question
    answer: OrderDoc
    used: tuple[str, ...]
    """The axes in the order in use."""


class Explored(QObject):
    """Keeps moves, iteration space, decisions and addresses in step with the selected group's advice."""

    def __init__(
        self, schedule: ScheduleView, constraints: ConstraintsView, moves: MovesView, workspace: Workspace
    ) -> None:
        super().__init__()
        self.schedule, self.constraints, self.moves = schedule, constraints, moves
        self.workspace = workspace
        self.exploring = Exploring(workspace.client)
        self._axes: dict[str, tuple[str, ...]] = {}
        """Group -> the dimensions that a person chose to draw."""
        self._counted: set[Question] = set()
        """Addresses that a person asked for."""
        self._trial: tuple[Trial, Question] | None = None
        """What is held over the iteration space."""
        self._dropped: Question | None = None
        """An order that was let go before the worker said what it means."""
        self._preview: Preview | None = None
        self.exploring.answered.connect(self._on_answered)
        self.exploring.state_changed.connect(self.refresh)
        workspace.model_changed.connect(self._forget)
        workspace.kernel_changed.connect(lambda _: self.refresh())
        workspace.bus.changed.connect(lambda _: self.refresh())
        for panel in (schedule, constraints, moves):
            panel.shown.connect(self.refresh)
        schedule.tab_selected.connect(lambda _: self.refresh())
        constraints.instances_requested.connect(lambda _: schedule.select_tab(SPACE))
        moves.apply_requested.connect(self._apply)
        schedule.space.repair_requested.connect(self._apply)
        schedule.space.axes_requested.connect(self._choose_axes)
        schedule.decisions.entry_requested.connect(lambda line: workspace.add_entry(self.group, line))
        schedule.addresses.asked.connect(self._count)
        schedule.space.preview_accepted.connect(self._accept_preview)
        schedule.space.preview_dropped.connect(self._drop_preview)
        schedule.space.canvas.tried.connect(self._try)
        schedule.space.canvas.dropped.connect(self._drop)

    @property
    def group(self) -> str:
        """Name of the selected group."""
        return self.workspace.bus.selection.group

    def question(self, verb: str, legal: bool = False) -> Question | None:
        """The question about the selected group's advice, or its last `legal` one; None until that is known."""
        recipe = self._legal_recipe() if legal else self.workspace.recipe(self.group)
        return None if recipe is None else Question(verb, self.group, recipe)

    def refresh(self) -> None:
        """Says what the visible panels want, and shows what is known."""
        space = self._space_question()
        decisions, moves = self.question("decisions", legal=True), self.question("moves", legal=True)
        addresses = self.question("addresses")
        tab = self.schedule.tab if self.schedule.isVisible() else ""
        wanted = {SPACE: [space], DECISIONS: [decisions], ADDRESSES: self._counting()}.get(tab, [])
        if self.moves.isVisible():
            wanted.append(moves)
        if self.constraints.isVisible():
            wanted += [decisions, moves]
        self.exploring.want(each for each in wanted if each is not None)
        self._show_moves(moves)
        self._show_space(space)
        self._show_decisions(decisions)
        self._show_addresses(addresses)
        self._show_possible(moves, decisions)

    def _legal_recipe(self) -> str | None:
        """What moves start from: the advice that was asked for, or the last legal one where that was refused."""
        asked, history = self.workspace.recipe(self.group), self.workspace.histories.get(self.group)
        return history.step.text if history and self._is_refused() else asked

    def _is_refused(self) -> bool:
        """Whether the advice that was asked for gave no legal kernel."""
        kernel = self.workspace.kernel(self.group)
        return self.workspace.refusal(self.group) is not None or (kernel is not None and not kernel.has_kernel)

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
            self.exploring.retry(question)
            self.refresh()

    def _apply(self, text: str) -> None:
        self.workspace.edit(self.group, text)

    def _forget(self) -> None:
        self._axes.clear()
        self._counted.clear()
        self._trial = self._dropped = self._preview = None
        self.exploring.forget()

    def _choose_axes(self, axes: tuple[str, ...]) -> None:
        self._axes[self.group] = axes
        self.refresh()

    def _try(self, trial: Trial) -> None:
        """Asks what a drop would mean, while it is still held."""
        question = self._order(trial)
        if question is not None:
            self._trial = (trial, question)
            if self.exploring.answer(question) is None:
                self.exploring.ask(question)
            self._show_trial()

    def _drop(self, trial: Trial) -> None:
        """Applies what was dropped, as soon as the worker has said how it reads."""
        self._dropped = self._order(trial)
        if self._dropped is not None and not self._apply_dropped():
            self.exploring.ask(self._dropped)

    def _order(self, trial: Trial) -> Question | None:
        known, question = self._known_space(), self.question("order")
        if known is None or question is None:
            return None
        return replace(question, order=trial.order(known), tiles=trial.tiles(known))

    def _apply_dropped(self) -> bool:
        """Whether the dropped order is known by now; an illegal one is drawn with what it breaks, not applied."""
        question, known = self._dropped, self.exploring.answer(self._dropped) if self._dropped else None
        if known is None or question is None:
            return False
        self._dropped = None
        space = self._known_space()
        if isinstance(known, OrderDoc) and known.legal:
            self._preview = None
            self._apply(known.recipe)
        elif isinstance(known, OrderDoc) and question.order and space is not None:
            used = self._preview.used if self._preview else space.order
            self._preview = Preview(question, known, used) if question.order != used else None
            self.refresh()
        elif isinstance(known, OrderDoc):
            self.schedule.space.verdict.show_refusal(known.because)
        elif isinstance(known, ProblemDoc):
            self.schedule.space.verdict.show_refusal(f"{known.subject}: {known.reason}")
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
        return replace(question, axes=self._axes.get(self.group, ()), order=asked.order if asked else ())

    def _known_space(self) -> SpaceDoc | None:
        question = self._space_question()
        known = self.exploring.answer(question) if question else None
        return known if isinstance(known, SpaceDoc) else None

    def _show_trial(self) -> None:
        if self._trial is not None:
            trial, question = self._trial
            known = self.exploring.answer(question)
            if known is None or isinstance(known, OrderDoc | ProblemDoc):
                self.schedule.space.canvas.show_answer(trial, known)

    def _show_moves(self, question: Question | None) -> None:
        known = self._known(self.moves, question)
        if question is None:
            self.moves.show_nothing()
        elif isinstance(known, MovesDoc):
            legal = self.workspace.legal_kernel(self.group)
            self.moves.show_moves(known, legal.time if legal else None, self._is_refused())
        elif isinstance(known, ProblemDoc):
            self.moves.show_problem(known)

    def _show_space(self, question: Question | None) -> None:
        page = self.schedule.space
        known = self._known(page, question)
        if question is None:
            page.show_nothing()
        elif isinstance(known, SpaceDoc):
            page.show_space(known, self._preview is not None)
        elif isinstance(known, ProblemDoc):
            page.show_problem(known)

    def _show_possible(self, moves: Question | None, decisions: Question | None) -> None:
        """What the menu of entries offers."""
        tried = self.exploring.answer(moves) if moves else None
        table = self.exploring.answer(decisions) if decisions else None
        self.constraints.show_possible(
            tried if isinstance(tried, MovesDoc) else None, table if isinstance(table, DecisionsDoc) else None
        )

    def _show_decisions(self, question: Question | None) -> None:
        page = self.schedule.decisions
        known = self._known(page, question)
        if question is None:
            page.show_nothing()
        elif isinstance(known, DecisionsDoc):
            page.show_decisions(known)
        elif isinstance(known, ProblemDoc):
            page.show_problem(known)

    def _show_addresses(self, question: Question | None) -> None:
        page, baseline = self.schedule.addresses, self._baseline()
        known = self._known(page, question)
        before = self.exploring.answer(baseline) if baseline else None
        if isinstance(known, WarpDoc):
            page.show_addresses(known, before if isinstance(before, WarpDoc) else None)
        elif isinstance(known, ProblemDoc):
            page.show_problem(known)
        else:
            page.show_nothing()

    def _known(self, page: Page, question: Question | None) -> Answer | None:
        """What is known about a question; its page tells whether more is on its way."""
        page.show_loading(question is not None and self.exploring.is_open(question))
        return self.exploring.answer(question) if question else None
