"""One trial: its recipe, its schedule and its text, as a preview beside what is open."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPlainTextEdit, QPushButton, QStackedWidget

from engine.documents.model import KernelDoc, ProblemDoc
from views.code.editor import CodeText
from views.code.find import FindStrip
from views.message import Message
from views.panel import Elided, Panel, bar, label
from views.schedule.tree import ScheduleTreeView
from views.theme import code_face

RECIPE, SCHEDULE, CODE = TABS = ("Recipe", "Schedule", "Code")
APPLY = "One step of the history, by the author tune"
NOTHING = "Click a trial, in the table or in a plot, to see its recipe, schedule and text"


class TrialView(Panel):
    """A preview: nothing is applied without a request."""

    apply_requested = Signal()

    def __init__(self) -> None:
        super().__init__("Trial", TABS)
        self.name, self.outcome = label("", "title"), Elided("hint")
        self.apply = QPushButton("Apply")
        self.apply.setProperty("role", "primary-small")
        self.apply.clicked.connect(self.apply_requested)
        strip, row = bar("subheader", 32)
        row.addWidget(self.name)
        row.addWidget(self.outcome, 1)
        row.addWidget(self.apply)
        self.recipe = QPlainTextEdit()
        self.recipe.setReadOnly(True)
        self.recipe.setFont(code_face())
        self.recipe.setAccessibleName("Recipe of the trial")
        self.recipe.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.recipe.setViewportMargins(8, 6, 0, 0)
        self.schedule = ScheduleTreeView("Schedule tree of the trial")
        self.code = CodeText("Text of the trial")
        self.finder = FindStrip(strip, self.code)
        self.refused = Message(())
        self.pages = QStackedWidget()
        for page in (self.recipe, self.schedule, self.code, self.refused):
            self.pages.addWidget(page)
        self.tab_selected.connect(lambda _: self._turn())
        self.body_layout.addWidget(strip)
        self.body_layout.addWidget(self.finder)
        self.body_layout.addWidget(self.pages, 1)
        self._refused = False
        self.show_empty(NOTHING)

    def show_trial(self, title: str, outcome: str, recipe: str, why_not: str) -> None:
        """Shows what was tried; its kernel comes later.  why_not: what keeps it from being applied, or ""."""
        self._refused = False
        self.name.setText(title)
        self.outcome.setText(outcome)
        self.apply.setEnabled(not why_not)
        self.apply.setToolTip("\n".join(filter(None, (APPLY, why_not))))
        self.recipe.setPlainText(recipe)
        self._turn()
        self.show_body()

    def show_kernel(self, kernel: KernelDoc) -> None:
        """Shows what became of the recipe."""
        self._refused = False
        self.schedule.show_schedule(kernel.schedule)
        labels = {line.line: (line.statements or line.dimensions or ("",))[-1][:5] for line in kernel.lines}
        self.code.show_cuda(kernel.cuda.rstrip("\n"), labels)
        self.show_loading(False)
        self._turn()

    def show_refusal(self, title: str, problem: ProblemDoc) -> None:
        """Says why there is no kernel to look at; the recipe can still be read."""
        self._refused = True
        self.refused.show_refusal(title, problem)
        self.show_loading(False)
        self._turn()

    def show_nothing(self) -> None:
        """No trial is chosen."""
        self.show_loading(False)
        self.show_empty(NOTHING)

    def _turn(self) -> None:
        """The page of the tab in front; where there is no kernel, the reason instead of schedule and text."""
        tab = next(name for name, button in self.tabs.items() if button.isChecked())
        hidden = self._refused and (tab != RECIPE or not self.recipe.toPlainText())
        self.pages.setCurrentIndex(len(TABS) if hidden else TABS.index(tab))
        self.finder.turn_to(self.code if self.pages.currentWidget() is self.code else None)
