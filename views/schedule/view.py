"""The schedule panel: tree, iteration space, the solver's decisions, addresses of one warp, the pipeline."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from engine.documents.model import KernelDoc
from views.format import compact_shape, made_by, plural
from views.panel import Elided, Panel, bar, label, rule
from views.pipeline.view import PipelinePage
from views.schedule.addresses import AddressesPage
from views.schedule.decisions import DecisionsPage
from views.schedule.tree import Placements, ScheduleTreeView
from views.space.view import SpacePage

TREE, SPACE, DECISIONS, ADDRESSES, PIPELINE = TABS = ("Tree", "Iteration space", "Decisions", "Addresses", "Pipeline")


class ScheduleView(Panel):
    """The schedule in use and what it could be; `statements_selected` carries the names under what was clicked."""

    statements_selected = Signal(tuple)
    entry_requested = Signal(str)
    """The line of an entry about a loop."""
    interchange_requested = Signal(str, str)

    def __init__(self) -> None:
        super().__init__("Schedule", TABS)
        self.space = SpacePage()
        self.decisions = DecisionsPage()
        self.addresses = AddressesPage()
        self.pipeline = PipelinePage()
        self.pages = QStackedWidget()
        for page in (self._make_tree(), self.space, self.decisions, self.addresses, self.pipeline):
            self.pages.addWidget(page)
        for part in (self.tree, self.placements, self.space, self.decisions):
            part.statements_selected.connect(self.statements_selected)
        for tree in (self.tree, self.space.in_use):
            tree.entry_requested.connect(self.entry_requested)
            tree.interchange_requested.connect(self.interchange_requested)
        self.decisions.entry_requested.connect(self.entry_requested)
        self.tab_selected.connect(lambda name: self.pages.setCurrentIndex(TABS.index(name)))
        self.body_layout.addWidget(self.pages)
        self.show_empty("Select a group to see its schedule")

    @property
    def tab(self) -> str:
        """The tab in front."""
        return TABS[self.pages.currentIndex()]

    def show_kernel(self, kernel: KernelDoc, title: str, shape: str, stale: bool = False) -> None:
        """Shows a legal kernel's schedule; `stale`: a later edit was refused and this is the last with code."""
        self.group.setText(title)
        self.shape.setText("last one with a kernel, the edit was refused" if stale else compact_shape(shape))
        self.legality.setText(f"✓  legal, {plural(kernel.dependences, 'dependence')}  ·  {made_by(kernel)}")
        self.legality.setToolTip(kernel.misfit and f"No faster family fits. {kernel.misfit}")
        self.tree.show_schedule(kernel.schedule, statements=kernel.statements)
        self.placements.show_statements(kernel.statements)
        self.space.show_kernel(kernel, stale)
        self.show_body()

    def show_selection(self, statements: Iterable[str], dimension: str = "") -> None:
        """Marks what speaks of the statements, or the band that was chosen by its dimension."""
        wanted = tuple(statements)
        self.tree.show_selection(wanted, dimension)
        self.placements.mark(wanted)
        self.space.show_selection(wanted)
        self.decisions.show_selection(wanted)

    def _make_tree(self) -> QWidget:
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        strip, layout = bar("subheader", 32)
        self.group, self.shape = Elided("title", hug=True), Elided("hint", hug=True)
        self.legality = label("", "second")
        layout.addWidget(self.group, 1000)  # up to its own width, before the shape
        layout.addWidget(self.shape, 100)
        layout.addStretch(1)
        layout.addWidget(self.legality)
        layout.setContentsMargins(12, 0, 12, 0)
        self.tree = ScheduleTreeView("Schedule tree")
        self.placements = Placements()
        column.addWidget(strip)
        column.addWidget(self.tree, 1)
        column.addWidget(rule())
        column.addWidget(self.placements)
        return page
