"""The constraint panel: the same advice as a tree with verdicts and as text."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from engine.documents import EntryDoc, KernelDoc, Problem
from views.constraints.form import EntryForm
from views.constraints.rows import Offer, Refusal, key_of, rows_of, summary
from views.constraints.text import AdviceText
from views.constraints.tree import STAGES, ConstraintTree
from views.format import figure
from views.panel import Panel, bar, label
from views.rows import Row
from views.theme import Theme

TREE, TEXT = "Tree", "Text"


class ConstraintsView(Panel):
    """Advice of all authors; every edit leaves as a signal and comes back as a new document."""

    statements_selected = Signal(tuple)
    apply_requested = Signal(str)
    enabled_requested = Signal(object, bool)
    stages_requested = Signal(object, int)
    entry_requested = Signal(str)
    draft_changed = Signal(bool)

    def __init__(self) -> None:
        super().__init__("Constraints", (TREE, TEXT))
        self._entries: tuple[EntryDoc, ...] = ()
        self.add_button = self.add_header_icon("plus", "Add an entry")
        self.add_button.setCheckable(True)
        strip, self._summary = bar("subheader", 32)
        self._summary.setContentsMargins(12, 0, 12, 0)
        self._summary.setSpacing(12)
        self.form = EntryForm()
        self.form.hide()
        self.form.entry_requested.connect(self.entry_requested)
        self.add_button.toggled.connect(self._show_form)
        self.tree = ConstraintTree()
        self.tree.row_selected.connect(self._select)
        self.tree.enabled_requested.connect(self.enabled_requested)
        self.tree.stages_requested.connect(self.stages_requested)
        self.tree.repair_requested.connect(lambda repair: self.apply_requested.emit(repair.recipe))
        self.stages = StagesBar()
        self.stages.stages_requested.connect(self._request_stages)
        self.text = AdviceText()
        self.text.apply_requested.connect(self.apply_requested)
        self.text.draft_changed.connect(self.draft_changed)
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.form)
        column.addWidget(self.tree, 1)
        column.addWidget(self.stages)
        self.pages = QStackedWidget()
        self.pages.addWidget(page)
        self.pages.addWidget(self.text)
        self.tab_selected.connect(lambda name: self.pages.setCurrentIndex(1 if name == TEXT else 0))
        self.body_layout.addWidget(strip)
        self.body_layout.addWidget(self.pages, 1)
        self.show_empty("Select a group to see what was asked for, by whom, and what came of it")

    def show_kernel(self, kernel: KernelDoc) -> None:
        """Shows the advice of a kernel, legal or not, with its verdicts."""
        self._entries = kernel.entries
        self.tree.show_rows(rows_of(kernel.entries, kernel.repairs))
        self.text.show_text(kernel.group, kernel.recipe)
        self.stages.show_stages(_stages_entry(kernel.entries), kernel.stages)
        self.form.show_choices([each.name for each in kernel.statements], _dimensions(kernel))
        self._show_summary(kernel)
        self.show_body()

    def show_problem(self, problem: Problem | None) -> None:
        """Says why the last text was refused; the draft stays."""
        self.text.show_problem(problem)
        if problem:
            self.select_tab(TEXT)

    def show_selection(self, statements: Iterable[str]) -> None:
        """Marks the entries that speak of the statements."""
        wanted = frozenset(statements)
        marked = [key_of(entry) for entry in self._entries if entry.statements and wanted.issuperset(entry.statements)]
        self.tree.mark(marked)

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        super().set_theme(theme)
        self.tree.set_theme(theme)
        self.text.set_theme(theme)

    def _select(self, row: Row) -> None:
        value = row.value
        if isinstance(value, Refusal):
            value = value.entry
        if not isinstance(value, Offer):
            self.statements_selected.emit(value.statements if isinstance(value, EntryDoc) else value)

    def _show_form(self, shown: bool) -> None:
        self.form.setVisible(shown)
        if shown:
            self.select_tab(TREE)
            self.form.value.setFocus()

    def _request_stages(self, stages: int) -> None:
        entry = _stages_entry(self._entries)
        if entry:
            self.stages_requested.emit(entry, stages)

    def _show_summary(self, kernel: KernelDoc) -> None:
        while self._summary.count():
            old = self._summary.takeAt(0).widget()
            if old is not None:
                old.deleteLater()
        for outcome, count in summary(kernel.entries):
            mark = "✓ " if outcome == "honoured" else ""
            self._summary.addWidget(label(f"{mark}{count} {outcome}", "wrong" if outcome == "infeasible" else ""))
        self._summary.addStretch(1)
        self._summary.addWidget(label(f"{figure(kernel.milliseconds)} ms", "small-hint"))


class StagesBar(QWidget):
    """One, two or three stages of the copies into shared memory."""

    stages_requested = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        strip, row = bar("header", 34)
        self._label = label("", "second")
        row.addWidget(self._label, 1)
        self._group = QButtonGroup(self)
        self.buttons: dict[int, QToolButton] = {}
        for count in STAGES:
            button = self.buttons[count] = QToolButton()
            button.setText(str(count))
            button.setCheckable(True)
            button.setProperty("role", "segment")
            button.setToolTip(
                f"{count} buffers: copies run {count - 1} steps ahead" if count > 1 else "Copy, then compute"
            )
            button.clicked.connect(lambda _=False, n=count: self.stages_requested.emit(n))
            self._group.addButton(button)
            row.addWidget(button)
        layout.addWidget(strip)
        self.hide()

    def show_stages(self, entry: EntryDoc | None, stages: int) -> None:
        """Offers the choice where the advice has an entry for it."""
        self.setVisible(entry is not None)
        if entry:
            self._label.setText(f"Stages of {entry.dimension}")
        if stages in self.buttons:
            self.buttons[stages].setChecked(True)


def _stages_entry(entries: Iterable[EntryDoc]) -> EntryDoc | None:
    return next((entry for entry in entries if "mark stages" in entry.text), None)


def _dimensions(kernel: KernelDoc) -> list[str]:
    found: list[str] = []
    waiting = [kernel.schedule]
    while waiting:
        node = waiting.pop(0)
        waiting += node.children
        if node.dimension:
            found.append(node.dimension)
    return found
