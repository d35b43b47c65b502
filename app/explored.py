"""Connects what could be otherwise with its panels: wishes become questions, answers become pictures and edits."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.exploring import Exploring, Question
from app.workspace import Workspace
from engine.documents import Problem
from engine.exploration import MovesDoc, OrderDoc, SpaceDoc
from views.moves.view import MovesView
from views.panel import Panel
from views.schedule.view import SPACE, ScheduleView
from views.space.trial import Trial


class Explored(QObject):
    """Keeps moves, iteration space, decisions and addresses in step with the selected group's advice."""

    def __init__(self, schedule: ScheduleView, moves: MovesView, workspace: Workspace) -> None:
        super().__init__()
        self.schedule, self.moves = schedule, moves
        self.workspace = workspace
        self.exploring = Exploring(workspace.client)
        self._axes: dict[str, tuple[str, ...]] = {}
        """Group -> the dimensions that a person chose to draw."""
        self._trial: tuple[Trial, Question] | None = None
        """What is held over the iteration space."""
        self._dropped: Question | None = None
        """An order that was let go before the worker said what it means."""
        self.exploring.answered.connect(self._on_answered)
        self.exploring.state_changed.connect(self.refresh)
        workspace.model_changed.connect(self._forget)
        workspace.kernel_changed.connect(lambda _: self.refresh())
        workspace.bus.changed.connect(lambda _: self.refresh())
        for panel in (schedule, moves):
            panel.shown.connect(self.refresh)
        schedule.tab_selected.connect(lambda _: self.refresh())
        moves.apply_requested.connect(self._apply)
        schedule.space.repair_requested.connect(self._apply)
        schedule.space.axes_requested.connect(self._choose_axes)
        schedule.space.canvas.tried.connect(self._try)
        schedule.space.canvas.dropped.connect(self._drop)

    @property
    def group(self) -> str:
        """Name of the selected group."""
        return self.workspace.bus.selection.group

    def question(
        self, verb: str, axes: tuple[str, ...] = (), tiles: tuple[tuple[str, int], ...] = ()
    ) -> Question | None:
        """The question about the selected group's advice; None until that is known."""
        recipe = self.workspace.recipe(self.group)
        return None if recipe is None else Question(verb, self.group, recipe, axes, tiles)

    def refresh(self) -> None:
        """Says what the visible panels want, and shows what is known."""
        space = self.question("space", self._axes.get(self.group, ()))
        moves = self.question("moves")
        wanted = []
        if self.schedule.isVisible() and self.schedule.tab == SPACE:
            wanted.append(space)
        if self.moves.isVisible():
            wanted.append(moves)
        self.exploring.want(each for each in wanted if each is not None)
        self._show_moves(moves)
        self._show_space(space)

    def _apply(self, text: str) -> None:
        self.workspace.edit(self.group, text)

    def _forget(self) -> None:
        self._axes.clear()
        self._trial = self._dropped = None
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
        known = self._known_space()
        return self.question("order", trial.order(known), trial.tiles(known)) if known is not None else None

    def _apply_dropped(self) -> bool:
        """Whether the dropped order is known by now; an illegal one is applied too and says where it breaks."""
        known = self.exploring.answer(self._dropped) if self._dropped else None
        if isinstance(known, OrderDoc):
            self._dropped = None
            if known.recipe:
                self._apply(known.recipe)
        elif isinstance(known, Problem):
            self._dropped = None
            self.schedule.space.verdict.show_problem(known)
        return known is not None

    def _on_answered(self, question: Question) -> None:
        if question.group != self.group or question.recipe != self.workspace.recipe(self.group):
            return
        if question == self._dropped:
            self._apply_dropped()
        self._show_trial()

    def _known_space(self) -> SpaceDoc | None:
        question = self.question("space", self._axes.get(self.group, ()))
        known = self.exploring.answer(question) if question else None
        return known if isinstance(known, SpaceDoc) else None

    def _show_trial(self) -> None:
        if self._trial is not None:
            trial, question = self._trial
            known = self.exploring.answer(question)
            if known is None or isinstance(known, OrderDoc | Problem):
                self.schedule.space.canvas.show_answer(trial, known)

    def _show_moves(self, question: Question | None) -> None:
        known = self.exploring.answer(question) if question else None
        self._show_loading(self.moves, question)
        if question is None:
            self.moves.show_nothing()
        elif isinstance(known, MovesDoc):
            legal = self.workspace.legal_kernel(self.group)
            self.moves.show_moves(known, legal.time if legal else None)
        elif isinstance(known, Problem):
            self.moves.show_problem(known)

    def _show_space(self, question: Question | None) -> None:
        page = self.schedule.space
        known = self.exploring.answer(question) if question else None
        page.show_loading(question is not None and self.exploring.is_open(question))
        if question is None:
            page.show_nothing()
        elif isinstance(known, SpaceDoc):
            page.show_space(known)
        elif isinstance(known, Problem):
            page.show_problem(known)

    def _show_loading(self, panel: Panel, question: Question | None) -> None:
        panel.show_loading(question is not None and self.exploring.is_open(question))
