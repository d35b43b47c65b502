"""Two runs beside each other: which ones, their curves, their groups, and where their best programs differ."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from engine.documents.comparison import GroupComparison
from engine.documents.model import ProblemDoc
from views.choices import choice_box, show_choices
from views.message import Message
from views.panel import Elided, bar, column_heads, label
from views.rows import RowView
from views.tuning.comparison_plot import ComparisonPlot
from views.tuning.comparison_rows import (
    GAIN,
    NEEDED,
    TIME,
    VALUE,
    compared_rows,
    difference_rows,
    paint_compared,
    paint_difference,
)
from views.tuning.nodes import ComparedGroup, RunChoice, RunCurve

WIDEST = 380
"""Pixels that a run's line needs."""
NARROWEST = 350
"""Pixels of the tables."""
HEADS_TIP = (
    "The best times of both runs, what this run's saves of the other's, and how many trials either run needed "
    "until it was as fast as the slower best of both"
)
HEADS, ROW = 28, 24
"""Pixels of the heads over rows, and of a row."""
NOBODY = RunChoice(0, "No other run")
NOTHING = (
    "Choose another run above, of this file or of another log. Both are then shown here: how fast each became, "
    "after how many trials, and where their best programs differ."
)
READING = "The other run is being read…"
SAME = "none: both ran the same"
NO_PROGRAMS = "not known before both runs have a time"
NO_PAIR = "only one of the runs has this group"


class ComparisonView(QWidget):
    """The page of a comparison; it shows what it is told, and tells what was chosen."""

    run_chosen = Signal(int)
    """Number of a run of the shown file; 0 for none."""
    log_requested = Signal()
    group_chosen = Signal(str)
    """Key of a row of groups."""
    dismissed = Signal()
    """What was refused has been read."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Two runs")
        self.choice = choice_box("Compare with", 24)
        self.choice.setMaximumWidth(WIDEST)
        self.choice.activated.connect(lambda _: self._choose())
        self.log = QPushButton("Another log…")
        self.log.setProperty("role", "small")
        self.log.setToolTip("Compare with the last run of another log")
        self.log.clicked.connect(self.log_requested)
        self.note = Elided("small-hint")
        self.plot = ComparisonPlot()
        self.groups = RowView("What both runs found of each group", paint_compared)
        self.differences = RowView("Dimensions in which the best programs differ", paint_difference)
        for rows in (self.groups, self.differences):
            rows.chevrons = False
        self.groups.row_selected.connect(lambda row: self.group_chosen.emit(row.key))
        self.differing = Elided("hint")
        self.empty = Message(())
        self.refused = Message((("Another log…", self.log_requested), ("Back", self.dismissed)))
        self.pages = QStackedWidget()
        self.content = self._make_content()
        for page in (self.content, self.empty, self.refused):
            self.pages.addWidget(page)
        strip, row = bar("subheader", 32)
        row.addWidget(label("Compare with", "small-hint"))
        row.addWidget(self.choice, 3)
        row.addWidget(self.log)
        row.addWidget(self.note, 2)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(strip)
        layout.addWidget(self.pages, 1)
        self.show_nothing()

    def show_choices(self, runs: Sequence[RunChoice], chosen: int) -> None:
        """Which runs there are besides the shown one; chosen: its place among them, -1 for none."""
        show_choices(self.choice, [(one.text, one.number) for one in (NOBODY, *runs)], chosen + 1)

    def show_groups(self, groups: Sequence[ComparedGroup], chosen: str) -> None:
        """Replaces the rows; `chosen`: key of the group of which curves and best programs are shown."""
        if len(groups) != self.groups.rows.rowCount():
            self._fit(len(groups))
        self.groups.show_rows(compared_rows(groups))
        self.groups.mark((chosen,) if chosen else ())
        found = next((each.found for each in groups if each.key == chosen), None)
        self.differences.show_rows(difference_rows(found.differences if found else ()))
        self.differing.setText(_said_of_differences(found))
        self.note.setText(f"No ratio: {found.why_not}" if found and found.why_not else "")
        self.pages.setCurrentWidget(self.content)

    def show_curves(self, own: RunCurve | None, other: RunCurve | None) -> None:
        """Replaces the curves of the chosen group."""
        self.plot.show_curves(own, other)

    def show_nothing(self, is_reading: bool = False) -> None:
        """There is no other run.  is_reading: one has been chosen, of which nothing is known yet."""
        self.empty.show_text("", READING if is_reading else NOTHING)
        self.note.setText("")
        self.pages.setCurrentWidget(self.empty)

    def show_refusal(self, title: str, problem: ProblemDoc) -> None:
        """Says why a run cannot be compared with, and what to do."""
        self.refused.show_refusal(title, problem)
        self.note.setText("")
        self.pages.setCurrentWidget(self.refused)

    def _fit(self, count: int) -> None:
        """Gives so many groups the room for their rows, at most half of it."""
        height = sum(self._tables.sizes()) or self.height()
        taken = min(HEADS + ROW * max(count, 2), height // 2)
        self._tables.setSizes([taken, height - taken])

    def _choose(self) -> None:
        number = self.choice.currentData()
        if number or not self.choice.currentIndex():  # a run of another file is there already
            self.run_chosen.emit(number)

    def _make_content(self) -> QWidget:
        """Curves at the left; groups above best programs at the right."""
        heads = (("This run", TIME), ("Other run", TIME), ("Gain", GAIN), ("Trials", NEEDED))
        self._tables = tables = QSplitter(Qt.Orientation.Vertical)
        head = column_heads("Group", heads)
        head.setToolTip(HEADS_TIP)
        tables.addWidget(_table(head, self.groups))
        tables.setMinimumWidth(NARROWEST)
        strip, row = bar("header", 28)
        row.addWidget(label("Best programs differ in", "title"))
        row.addWidget(self.differing, 1)
        values = column_heads("Dimension", (("This run", VALUE), ("Other run", VALUE)))
        tables.addWidget(_table(strip, values, self.differences))
        made = QSplitter()
        made.addWidget(self.plot)
        made.addWidget(tables)
        for splitter, sizes in ((tables, [300, 220]), (made, [520, 480])):
            splitter.setHandleWidth(1)
            splitter.setChildrenCollapsible(False)
            splitter.setSizes(sizes)
        return made


def _said_of_differences(found: GroupComparison | None) -> str:
    """What stands where no dimension does; "" where one does."""
    if found is None or found.differences:
        return ""
    if not (found.own.origin and found.other.origin):
        return NO_PAIR
    return SAME if found.own.best is not None and found.other.best is not None else NO_PROGRAMS


def _table(*parts: QWidget) -> QWidget:
    """Parts under each other."""
    made = QWidget()
    layout = QVBoxLayout(made)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(0)
    for part in parts:
        layout.addWidget(part)
    return made
