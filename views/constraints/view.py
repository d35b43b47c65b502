"""The constraint panel: the same advice as a tree with verdicts and as text."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPoint, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QButtonGroup, QMenu, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from engine.documents.exploration import DecisionsDoc, MovesDoc
from engine.documents.model import EntryDoc, KernelDoc, ProblemDoc, ScenarioDoc
from views.constraints.form import EntryForm
from views.constraints.menu import fill
from views.constraints.refused import RefusedEdit
from views.constraints.rows import EntryRefusal, Links, Offer, as_text, key_of, rows_of
from views.constraints.summary import KernelState, OutcomeCounts
from views.constraints.text import AdviceText
from views.constraints.tree import STAGES, ConstraintTreeView
from views.panel import Elided, Panel, bar
from views.rows import TreeRow

TREE, TEXT = "Tree", "Text"


class ConstraintsView(Panel):
    """Advice of all authors; every edit leaves as a signal and comes back as a new document."""

    statements_selected = Signal(tuple)
    apply_requested = Signal(str)
    enabled_requested = Signal(object, bool)
    stages_requested = Signal(object, int)
    entry_requested = Signal(str)
    required_requested = Signal(object, bool)
    removal_requested = Signal(object)
    scenario_moved = Signal(tuple, int)
    pasted = Signal(str)
    instances_requested = Signal(object)
    draft_changed = Signal(bool)

    def __init__(self) -> None:
        super().__init__("Constraints", (TREE, TEXT))
        self._entries: tuple[EntryDoc, ...] = ()
        self._scenarios: tuple[ScenarioDoc, ...] = ()
        self._moves: MovesDoc | None = None
        self._decisions: DecisionsDoc | None = None
        self.add_button = self.add_header_icon("plus", "Add an entry: what is possible here (Insert)")
        self.kernel_state = KernelState()
        self.summary = OutcomeCounts()
        self.form = EntryForm()
        self.form.hide()
        self.form.entry_requested.connect(self.entry_requested)
        self.form.closed.connect(self._close_form)
        self.menu = QMenu(self)
        self.menu.aboutToShow.connect(self._fill_menu)
        self.add_button.clicked.connect(self.open_menu)
        self.tree = ConstraintTreeView()
        self.tree.menu_requested.connect(self.open_menu)
        self.tree.required_requested.connect(self.required_requested)
        self.tree.removal_requested.connect(self.removal_requested)
        self.tree.scenario_moved.connect(self.scenario_moved)
        self.tree.pasted.connect(self.pasted)
        self.tree.instances_requested.connect(self.instances_requested)
        self.tree.copy_requested.connect(self._copy)
        self.tree.text_requested.connect(self._edit_line)
        self.tree.row_selected.connect(self._select)
        self.tree.enabled_requested.connect(self.enabled_requested)
        self.tree.stages_requested.connect(self.stages_requested)
        self.tree.repair_requested.connect(lambda repair: self.apply_requested.emit(repair.recipe))
        self.refused = RefusedEdit()
        self.refused.text_requested.connect(self._show_text)
        self.stages = StagesBar()
        self.stages.stages_requested.connect(self._request_stages)
        self.text = AdviceText()
        self.text.apply_requested.connect(self.apply_requested)
        self.text.draft_changed.connect(self.draft_changed)
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.refused)
        column.addWidget(self.form)
        column.addWidget(self.tree, 1)
        column.addWidget(self.stages)
        self.pages = QStackedWidget()
        self.pages.addWidget(page)
        self.pages.addWidget(self.text)
        self.tab_selected.connect(lambda name: self.pages.setCurrentIndex(1 if name == TEXT else 0))
        self.body_layout.addWidget(self.kernel_state)
        self.body_layout.addWidget(self.summary)
        self.body_layout.addWidget(self.pages, 1)
        self.show_empty("Select a group to see what was asked for, by whom, and what came of it")

    def show_kernel(self, kernel: KernelDoc, recipe: str) -> None:
        """Shows the advice of a kernel, legal or not, with its verdicts; `recipe`: the text that was asked for last."""
        self._entries, self._scenarios = kernel.entries, kernel.scenarios
        self.tree.show_rows(rows_of(kernel.entries, kernel.repairs, kernel.scenarios))
        self.text.show_text(kernel.group, recipe)
        self.stages.show_stages(_stages_entry(kernel.entries), kernel.stages)
        self.form.show_choices([each.name for each in kernel.statements], _dimensions(kernel))
        self.kernel_state.show_kernel(kernel)
        self.summary.show_entries(kernel.entries, kernel.milliseconds)
        self.show_body()

    def show_looking(self, looking: bool) -> None:
        """Whether the smallest conflict is still looked for: the verdicts may name more entries than it has."""
        self.kernel_state.show_looking(looking)

    def show_possible(self, moves: MovesDoc | None, decisions: DecisionsDoc | None) -> None:
        """What the menu of entries offers; None while it is being tried."""
        self._moves, self._decisions = moves, decisions

    def open_menu(self) -> None:
        """Opens the menu of entries under its button."""
        self.select_tab(TREE)
        self.menu.popup(self.add_button.mapToGlobal(QPoint(0, self.add_button.height())))

    def show_problem(self, problem: ProblemDoc | None) -> None:
        """Says why the last edit was refused, in the tab that is in front and in the other one."""
        self.refused.show_problem(problem)
        self.text.show_problem(problem)

    def show_selection(self, statements: Iterable[str]) -> None:
        """Marks the entries that speak of the statements."""
        wanted = frozenset(statements)
        marked = [key_of(entry) for entry in self._entries if entry.statements and wanted.issuperset(entry.statements)]
        self.tree.mark(marked)

    def _select(self, row: TreeRow) -> None:
        value = row.value
        if isinstance(value, EntryRefusal):
            value = value.entry
        if isinstance(value, EntryDoc):
            self.statements_selected.emit(value.statements)
        elif isinstance(value, ScenarioDoc):
            self.tree.mark((row.key,))
        elif not isinstance(value, Offer | Links):
            self.statements_selected.emit(value)

    def _fill_menu(self) -> None:
        self.menu.clear()
        fill(self.menu, self._moves, self._decisions, self.apply_requested.emit, self.entry_requested.emit)
        self.menu.addSeparator()
        self.menu.addAction("Write an Entry…").triggered.connect(self._show_form)
        paste = self.menu.addAction("Paste Entries\tCtrl+V")
        paste.setEnabled(bool(QGuiApplication.clipboard().text().strip()))
        paste.triggered.connect(self.tree.paste)

    def _show_form(self) -> None:
        self.form.show()
        self.form.value.setFocus()

    def _close_form(self) -> None:
        self.tree.setFocus()
        self.form.hide()

    def _show_text(self) -> None:
        self.select_tab(TEXT)
        self.text.edit.setFocus()

    def _edit_line(self, entry: EntryDoc) -> None:
        """Shows an entry in the text, where it can be changed."""
        earlier = [other.text for other in self._entries[: self._entries.index(entry)]]
        self.select_tab(TEXT)
        self.text.show_entry(entry.text, earlier.count(entry.text))

    def _copy(self, value: object) -> None:
        text = as_text(value, self._entries, self._scenarios)
        if text:
            QGuiApplication.clipboard().setText(text)

    def _request_stages(self, stages: int) -> None:
        entry = _stages_entry(self._entries)
        if entry:
            self.stages_requested.emit(entry, stages)


class StagesBar(QWidget):
    """How many stages the copies into shared memory have."""

    stages_requested = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        strip, row = bar("header", 34)
        row.setSpacing(2)
        self._label = Elided("second")
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
