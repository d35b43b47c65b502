"""Controller of the Moves panel."""

from __future__ import annotations

from app.controllers.query_queue import QueryQueue
from app.controllers.question import QuestionController
from app.session.workspace import Workspace
from engine.documents.exploration import MovesDoc
from views.moves.view import MovesView


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
