"""The problems panel: one row for each thing that went wrong, never a dialog."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, Signal

from engine.documents.model import ProblemDoc
from views.panel import Panel
from views.rows import RowState, RowView, TreeRow
from views.shapes import paint_verdict
from views.theme import face, semibold
from views.themed_painter import RIGHT, ThemedPainter


class ProblemsView(Panel):
    """Subject, reason, hint; `jump_requested` carries a problem's number in the list."""

    jump_requested = Signal(int)
    clear_requested = Signal()

    def __init__(self) -> None:
        super().__init__("Problems")
        self.list = RowView("Problems", _paint)
        self.list.chevrons = False
        self.list.row_selected.connect(lambda row: self.jump_requested.emit(int(row.key)))
        self.clear_button = self.add_header_icon("cancel", "Clear the list")
        self.clear_button.clicked.connect(self.clear_requested)
        self.body_layout.addWidget(self.list)
        self.show_empty("No problems")

    def show_problems(self, problems: Sequence[ProblemDoc]) -> None:
        """Replaces the list."""
        rows = (
            TreeRow(str(number), each.sentence, each, (), 26) for number, each in enumerate(problems)
        )
        self.list.show_rows(rows)
        self.subtitle.setText(str(len(problems)) if problems else "")
        if problems:
            self.show_body()
        else:
            self.show_empty("No problems")


def _paint(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    problem, box = row.value, state.box.adjusted(36, 0, -12, 0)
    assert isinstance(problem, ProblemDoc)
    verdict = "infeasible" if problem.severity == "error" else "relaxed"
    paint_verdict(painter, QPointF(20, box.center().y()), verdict, 4.5)
    painter.text(box, problem.stage, "text-3", face(11), RIGHT)
    box = box.adjusted(0, 0, -68, 0)
    for text, tint, font in (
        (problem.subject, "text", semibold()), (problem.reason, "text", face()), (problem.hint, "text-3", face()),
    ):  # fmt: skip
        box = box.adjusted(painter.text(box, text, tint, font) + 14, 0, 0, 0) if box.width() > 0 else box
