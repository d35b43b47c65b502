"""Connects what could be otherwise with its panels: wishes become questions, answers become pictures and edits."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.exploring import Exploring, Question
from app.workspace import Workspace
from engine.documents import Problem
from engine.exploration import MovesDoc
from views.moves.view import MovesView
from views.panel import Panel


class Explored(QObject):
    """Keeps moves, iteration space, decisions and addresses in step with the selected group's advice."""

    def __init__(self, moves: MovesView, workspace: Workspace) -> None:
        super().__init__()
        self.moves = moves
        self.workspace = workspace
        self.exploring = Exploring(workspace.client)
        self.exploring.answered.connect(self._on_answered)
        self.exploring.state_changed.connect(self.refresh)
        workspace.model_changed.connect(self.exploring.forget)
        workspace.kernel_changed.connect(lambda _: self.refresh())
        workspace.bus.changed.connect(lambda _: self.refresh())
        moves.shown.connect(self.refresh)
        moves.apply_requested.connect(lambda text: workspace.edit(self.group, text))

    @property
    def group(self) -> str:
        """Name of the selected group."""
        return self.workspace.bus.selection.group

    def question(self, verb: str) -> Question | None:
        """The question about the selected group's advice; None until that is known."""
        recipe = self.workspace.recipe(self.group)
        return None if recipe is None else Question(verb, self.group, recipe)

    def refresh(self) -> None:
        """Says what the visible panels want, and shows what is known."""
        wanted = [self.question("moves") if self.moves.isVisible() else None]
        self.exploring.want(each for each in wanted if each is not None)
        self._show_moves()

    def _on_answered(self, question: Question) -> None:
        if question.group == self.group:
            self.refresh()

    def _show_moves(self) -> None:
        question = self.question("moves")
        known = self.exploring.answer(question) if question else None
        self._show_loading(self.moves, question)
        if question is None:
            self.moves.show_nothing()
        elif isinstance(known, MovesDoc):
            legal = self.workspace.legal_kernel(self.group)
            self.moves.show_moves(known, legal.time if legal else None)
        elif isinstance(known, Problem):
            self.moves.show_problem(known)

    def _show_loading(self, panel: Panel, question: Question | None) -> None:
        panel.show_loading(question is not None and self.exploring.is_open(question))
