"""Controllers of panels that show answers of the worker about the selected group's kernel."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject

from app.controllers.query_queue import QueryQueue, Question
from app.session.workspace import Workspace
from engine.documents.exploration import ConflictDoc, MovesDoc
from views.answer import AnswerPanel
from views.constraints.view import ConstraintsView
from views.moves.view import MovesView
from views.panel import Panel


class GroupController(QObject):
    """Keeps panels in step with the advice of the selected group."""

    def __init__(self, workspace: Workspace, queries: QueryQueue, *panels: Panel) -> None:
        super().__init__()
        self.workspace, self.queries = workspace, queries
        queries.state_changed.connect(self.refresh)
        for signal in (workspace.kernel_changed, workspace.bus.changed):
            signal.connect(lambda _: self.refresh())
        for panel in panels:
            panel.shown.connect(self.refresh)

    @property
    def group(self) -> str:
        """Name of the selected group."""
        return self.workspace.bus.selection.group

    def question(self, verb: str, legal: bool = False, **details: object) -> Question | None:
        """The question about the selected group's advice, or its last `legal` one; None until that is known."""
        history, recipe = self.workspace.histories.get(self.group), self.workspace.recipe(self.group)
        if legal and history and self.workspace.is_refused(self.group):
            recipe = history.step.text
        return None if recipe is None else Question(verb, self.group, recipe, details)

    def refresh(self) -> None:
        """Says what the panels in sight want, and shows what is known."""
        raise NotImplementedError


class QuestionController(GroupController):
    """Asks one question while its panel is in sight, about the advice of the last legal kernel."""

    def __init__(self, panel: AnswerPanel, verb: str, workspace: Workspace, queries: QueryQueue) -> None:
        super().__init__(workspace, queries, panel)
        self.panel, self._verb = panel, verb

    def refresh(self) -> None:
        """Says what is wanted, and shows what is known."""
        question = self.question(self._verb, legal=True)
        self.queries.want(self, [question] if self.panel.isVisible() else [])
        self.queries.show_answer(self.panel, question, self.show_document)

    def show_document(self, document: Any) -> None:
        """Shows the answer."""
        self.panel.show_document(document)


class ConflictController(GroupController):
    """Asks for the smallest conflict once the verdicts of an edit are there without it; the next edit cancels that."""

    def __init__(self, panel: ConstraintsView, verb: str, workspace: Workspace, queries: QueryQueue) -> None:
        super().__init__(workspace, queries, panel)
        self._constraints, self._verb = panel, verb
        queries.answered.connect(self._on_answered)

    def refresh(self) -> None:
        """Asks, and says so."""
        kernel = self.workspace.kernel(self.group)
        question = self.question(self._verb) if kernel and not kernel.complete else None
        self.queries.want(self, [question])
        self._constraints.show_looking(question is not None and self.queries.is_open(question))

    def _on_answered(self, question: Question) -> None:
        answer = self.queries.answer(question)
        if isinstance(answer, ConflictDoc) and answer.complete:
            self.workspace.add_conflict(question.group, question.recipe, answer)


class MovesController(QuestionController):
    """Shows the next steps beside the time of the kernel in use, and applies the chosen one."""

    def __init__(self, panel: MovesView, verb: str, workspace: Workspace, queries: QueryQueue) -> None:
        super().__init__(panel, verb, workspace, queries)
        self._moves = panel
        panel.apply_requested.connect(lambda text: workspace.edit(self.group, text))
        panel.statements_selected.connect(workspace.bus.select_statements)

    def show_document(self, document: MovesDoc) -> None:
        """Shows the moves of the last legal advice."""
        legal = self.workspace.legal_kernel(self.group)
        self._moves.show_document(document, legal.time if legal else None, self.workspace.is_refused(self.group))
