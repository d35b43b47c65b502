"""A line above the constraint tree: why the last edit gave no kernel, and the way to its text."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout

from engine.documents.model import ProblemDoc
from views.panel import PADDING, label, link


class RefusedEdit(QFrame):
    """Hidden while the advice that was asked for could be read and compiled."""

    text_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Refused edit")
        self.reason = label("", "wrong-text", wrap=True)
        self.reason.setMinimumWidth(10)
        self.show_text = link("Show text")
        self.show_text.setToolTip("Show the refused advice as text, at the line that is wrong")
        self.show_text.clicked.connect(self.text_requested)
        box = QFrame()
        box.setProperty("role", "witness")
        row = QHBoxLayout(box)
        row.setContentsMargins(10, 6, 8, 6)
        row.setSpacing(8)
        row.addWidget(self.reason, 1)
        row.addWidget(self.show_text, 0, Qt.AlignmentFlag.AlignTop)
        around = QVBoxLayout(self)
        around.setContentsMargins(PADDING, 6, PADDING, 4)
        around.addWidget(box)
        self.hide()

    def show_problem(self, problem: ProblemDoc | None) -> None:
        """Says why; None where nothing was refused."""
        if problem is not None:
            self.reason.setText(f"Not applied: {problem.sentence}")
            self.reason.setToolTip(problem.hint)
        self.setVisible(problem is not None)
