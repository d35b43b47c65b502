"""The history panel: a chip for each step with its time and gain, branches below, what was won at the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QLineEdit, QVBoxLayout, QWidget

from views.history.canvas import NOBODY, Chip, HistoryCanvas
from views.history.layout import StepTree
from views.panel import Panel, label, link
from views.theme import Theme
from views.themed import Themed

COLUMN, GAP = 118, 8
"""Pixels of a figure at least, and between two."""
ROOM = 4 * 226
"""Pixels that chips keep; figures at the right end are left out before."""
EMPTY = "Select a group to see the steps of its advice"


@dataclass(frozen=True, slots=True)
class StepFigure:
    """One figure of a step: what it is, the figure, and what stands behind it."""

    caption: str
    figure: str
    detail: str
    tone: str = ""
    """ "better" or "worse" colours the figure."""


class HistoryView(Panel):
    """Steps of one group; a click selects one, a double-click or Return goes there, a remark is written below."""

    step_selected = Signal(int)
    step_requested = Signal(int)
    compare_requested = Signal()
    noted = Signal(int, str)
    """A step and its new remark."""

    def __init__(self) -> None:
        super().__init__("History")
        self.canvas = HistoryCanvas()
        self.canvas.step_selected.connect(self.step_selected)
        self.canvas.step_requested.connect(self.step_requested)
        self.compare = link("Compare with baseline")
        self.compare.setToolTip("The selected step beside the baseline: entries, schedule, code, figures (D)")
        self.compare.clicked.connect(self.compare_requested)
        self.header_layout.addWidget(self.compare)
        self.header_layout.addWidget(label("D", "key"))
        self.summary = StepSummary()
        self.summary.note.editingFinished.connect(self._write_note)
        row = QWidget()
        layout = QHBoxLayout(row)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.canvas, 1)
        layout.addWidget(self.summary)
        self.body_layout.addWidget(row)
        self._group = ""
        self.show_nothing()

    @property
    def selected(self) -> int:
        """The selected step; -1 while no group has one."""
        return self.canvas.selected

    def show_steps(self, group: str, title: str, tree: StepTree, chip: Callable[[int], Chip]) -> None:
        """Shows a group's tree; `chip` gives a step as it is shown."""
        if group != self._group:
            self._group = group
            self.canvas.clear()
        self.subtitle.setText(title)
        self.canvas.show_steps(tree, chip)
        self.compare.setEnabled(len(tree.parents) > 1)
        self.show_body()

    def show_summary(self, figures: Sequence[StepFigure], note: str) -> None:
        """Shows the figures of the selected step and its remark."""
        self.summary.show_figures(figures, note)
        self._fold()

    def show_nothing(self) -> None:
        """No group is selected, or nothing is known about it."""
        self._group = ""
        self.canvas.clear()
        self.subtitle.setText("")
        self.compare.setEnabled(False)
        self.show_empty(EMPTY)

    def edit_note(self) -> None:
        """Puts the cursor into the remark of the selected step."""
        if self.selected != NOBODY:
            self.summary.note.setFocus(Qt.FocusReason.ShortcutFocusReason)
            self.summary.note.selectAll()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leaves figures out before the chips have no room."""
        super().resizeEvent(event)
        self._fold()

    def _fold(self) -> None:
        self.summary.show_columns(self.width() - ROOM)

    def _write_note(self) -> None:
        if self.selected != NOBODY and self.summary.note.isModified():
            self.summary.note.setModified(False)
            self.noted.emit(self.selected, self.summary.note.text().strip())


class StepSummary(QWidget, Themed):
    """Figures of one step side by side, and its remark."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "body")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(GAP)
        self._grid.setVerticalSpacing(2)
        self._cells: list[tuple[QLabel, QLabel, QLabel]] = []
        self._room = 0
        self._shown: tuple[int, list[int]] = (0, [])
        """Cells in sight, and the widths of all of them, when they were last arranged."""
        self._tones: list[str] = []
        self._columns = 0
        self.note = QLineEdit()
        self.note.setProperty("role", "quiet")
        self.note.setPlaceholderText("Add a note to this step")
        self.note.setAccessibleName("Note")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 8, 8, 6)
        layout.setSpacing(4)
        layout.addLayout(self._grid)
        layout.addStretch(1)
        layout.addWidget(self.note)

    def show_figures(self, figures: Sequence[StepFigure], note: str) -> None:
        """Replaces the figures; a remark that is being written stays."""
        while len(self._cells) < len(figures):
            self._add_cell()
        self._tones = [figure.tone for figure in figures]
        for figure, (caption, headline, detail) in zip(figures, self._cells, strict=True):
            caption.setText(figure.caption)
            headline.setText(figure.figure)
            detail.setText(figure.detail)
            detail.setToolTip(figure.detail)
        if not (self.note.hasFocus() and self.note.isModified()):
            self.note.setText(note)
        self._colour()
        self.show_columns(self._room)

    def show_columns(self, room: int) -> None:
        """Shows as many figures as have room, one at least.  What is shown already is left alone: a new width would ask
        for it again.
        """
        self._room = room
        widths = [max(COLUMN, *(part.sizeHint().width() + GAP for part in cell)) for cell in self._cells]
        ends = list(accumulate(widths))
        count = max(sum(end <= room for end in ends), 1)
        if (count, widths) == self._shown:
            return
        self._shown = count, widths
        for number, (cell, width) in enumerate(zip(self._cells, widths, strict=True)):
            for part in cell:
                part.setFixedWidth(width - GAP)
                part.setVisible(number < count)
        self.setFixedWidth(20 + (ends[count - 1] if ends else COLUMN))

    def texts(self) -> list[str]:
        """What stands there, one figure a line."""
        return [" ".join(part.text() for part in cell) for cell in self._cells]

    def show_theme(self, theme: Theme) -> None:
        """Takes over the tokens of `theme`."""
        self._colour()

    def _add_cell(self) -> None:
        cell = label("", "small-hint"), label("", "headline"), label("", "small-hint")
        for row, part in enumerate(cell):
            self._grid.addWidget(part, row, len(self._cells), Qt.AlignmentFlag.AlignLeft)
        self._cells.append(cell)

    def _colour(self) -> None:
        if self.theme is not None:
            for tone, (_, headline, _) in zip(self._tones, self._cells, strict=False):
                headline.setStyleSheet(f"color: {self.theme.colours[tone]};" if tone else "")
