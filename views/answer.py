"""Panels, and pages of a panel's tabs, that show an answer of the worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QStackedWidget, QVBoxLayout, QWidget

from engine.documents.model import ProblemDoc
from views.panel import LoadingBar, Panel, label
from views.themed import Themed

WAITING = "On its way…"


class AnswerPage(QWidget, Themed):
    """One sentence until there is an answer, then its body; a moving bar while a newer answer is on its way.

    A subclass adds its body as the second of `pages`, and `pages` with what stands around it to `column`.
    """

    def __init__(self, empty: str) -> None:
        super().__init__()
        self._empty = empty
        self.message = label(empty, "hint", wrap=True)
        self.message.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.message.setContentsMargins(32, 0, 32, 0)
        self.progress = LoadingBar(self)
        self.pages = QStackedWidget()
        self.pages.addWidget(self.message)
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(0)

    def show_body(self) -> None:
        """Shows the answer in place of the sentence."""
        self.pages.setCurrentIndex(1)

    def show_nothing(self, sentence: str = "") -> None:
        """Shows a sentence in place of the answer: by default what to do to get one."""
        self.message.setText(sentence or self._empty)
        self.pages.setCurrentIndex(0)

    def show_problem(self, problem: ProblemDoc) -> None:
        """Says why there is no answer."""
        self.show_nothing(problem.sentence)

    def show_loading(self, loading: bool) -> None:
        """The old answer stays while a newer one is on its way; where there is none, a word says that one will come."""
        self.progress.setVisible(loading)
        _tell_waiting(self.message, self._empty, loading)


class AnswerPanel(Panel):
    """A panel that shows the answer to one question, or the sentence `empty` until there is one."""

    def __init__(self, title: str, empty: str, tabs: Sequence[str] = ()) -> None:
        super().__init__(title, tabs)
        self._sentence = empty
        self.show_empty(empty)

    def show_document(self, document: Any) -> None:
        """Shows the document that answers the question."""
        raise NotImplementedError

    def show_nothing(self, sentence: str = "") -> None:
        """No answer: says why, by default what to do to get one."""
        self.show_empty(sentence or self._sentence)

    def show_problem(self, problem: ProblemDoc) -> None:
        """Says why the worker refused."""
        self.show_nothing(problem.sentence)

    def show_loading(self, loading: bool) -> None:
        """The old answer stays while a newer one is on its way; where there is none, a word says that one will come."""
        super().show_loading(loading)
        _tell_waiting(self.empty.sentence, self._sentence, loading)


def _tell_waiting(message: QLabel, empty: str, loading: bool) -> None:
    """Where a label says what to do to get an answer, or that one is on its way: the other where it is so now."""
    if message.text() == (empty if loading else WAITING):
        message.setText(WAITING if loading else empty)
