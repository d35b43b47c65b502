"""A message in the middle of a page: what is missing or was refused, and what to do about it."""

from __future__ import annotations

from pathlib import PurePath

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from engine.documents.model import ProblemDoc
from views.panel import label


def detail_of(problem: ProblemDoc) -> str:
    """What stands below or after the subject of a problem: why, and what to do about it."""
    return f"{problem.reason}; {problem.hint}" if problem.hint else problem.reason


class Message(QWidget):
    """A title, a few lines, at most two buttons."""

    def __init__(self, buttons: tuple[tuple[str, object], ...]) -> None:
        super().__init__()
        self.title = label("", "title")
        self.title.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.text = label("", "hint", wrap=True)
        self.text.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.buttons = [QPushButton(name) for name, _ in buttons]
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addStretch(1)
        for button, (_, wish) in zip(self.buttons, buttons, strict=True):
            button.clicked.connect(wish)
            row.addWidget(button)
        row.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(32, 8, 32, 8)
        layout.setSpacing(10)
        layout.addStretch(1)
        layout.addWidget(self.title)
        layout.addWidget(self.text)
        layout.addLayout(row)
        layout.addStretch(1)

    def show_text(self, title: str, text: str) -> None:
        """Replaces title and lines."""
        self.title.setText(title)
        self.title.setVisible(bool(title))
        self.text.setText(text)
        self.setAccessibleDescription(text)

    def show_refusal(self, title: str, problem: ProblemDoc) -> None:
        """Says why something was refused, and what to do; `title` need not be repeated."""
        known = PurePath(problem.subject).name in title
        said = f"It {problem.reason}" if known else f"{problem.subject}: {problem.reason}"
        lines = (said, problem.hint)
        self.show_text(title, "\n".join(f"{line[:1].upper()}{line[1:]}." for line in lines if line))
