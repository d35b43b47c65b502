"""Controller of a panel that shows the answer to one question about the selected group's kernel."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject

from app.controllers.query_queue import QueryQueue, Question
from app.session.workspace import Workspace
from views.answer import AnswerPanel


class QuestionController(QObject):
    """Asks while the panel is in sight, about the advice of the last legal kernel."""

    def __init__(self, panel: AnswerPanel, verb: str, workspace: Workspace, queries: QueryQueue) -> None:
        super().__init__()
        self.panel, self.workspace, self.queries = panel, workspace, queries
        self._verb = verb
        panel.shown.connect(self.refresh)
        queries.state_changed.connect(self.refresh)
        workspace.kernel_changed.connect(lambda _: self.refresh())
        workspace.bus.changed.connect(lambda _: self.refresh())

    def refresh(self) -> None:
        """Says what is wanted, and shows what is known."""
        group = self.workspace.bus.selection.group
        recipe = self.workspace.legal_recipe(group)
        question = None if recipe is None else Question(self._verb, group, recipe)
        self.queries.want(self, [question] if self.panel.isVisible() else [])
        self.queries.show_answer(self.panel, question, self.show_document)

    def show_document(self, document: Any) -> None:
        """Shows the answer."""
        self.panel.show_document(document)
