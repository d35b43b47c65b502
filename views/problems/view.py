"""The problems panel: one row for each thing that went wrong, never a dialog."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Signal
from PySide6.QtGui import QPainter

from engine.documents.model import ProblemDoc
from views.panel import Panel
from views.rows import RowState, RowView, TreeRow, draw_text, text_width
from views.shapes import paint_verdict
from views.theme import Theme, face, semibold


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

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        super().set_theme(theme)
        self.list.set_theme(theme)


def _paint(painter: QPainter, row: TreeRow, state: RowState, theme: Theme) -> None:
    problem, box = row.value, state.box
    assert isinstance(problem, ProblemDoc)
    paint_verdict(
        painter, QPointF(20, box.center().y()), "infeasible" if problem.severity == "error" else "relaxed", theme, 4.5
    )
    left = 36.0
    for text, token, font in (
        (problem.subject, "text", semibold()), (problem.reason, "text", face()), (problem.hint, "text-3", face()),
    ):  # fmt: skip
        painter.setFont(font)
        painter.setPen(theme.colour(token))
        draw_text(painter, QRectF(left, box.y(), max(box.right() - 80 - left, 0.0), box.height()), text)
        left += text_width(painter, text) + 14
    painter.setFont(face(11))
    painter.setPen(theme.colour("text-3"))
    draw_text(painter, QRectF(box.right() - 90, box.y(), 78, box.height()), problem.stage, right=True)
