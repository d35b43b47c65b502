"""The table of trials: a view of the item model whose cells are painted, and a panel around it."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPointF, QRectF, Signal
from PySide6.QtGui import QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from views.panel import Panel
from views.shapes import paint_verdict
from views.tables import Table, Tabular, selected_lines
from views.theme import face, semibold
from views.themed import Themed
from views.themed_painter import LEFT, RIGHT, ThemedPainter
from views.tuning.table import GROUP, MAPPING, NUMBER, PROMISED, RESULT, SPREAD, TIME, TO_BEST, WORDS, Index, TrialModel
from views.tuning.trials import NONE, Trials

ROW, HEAD = 24, 26
WIDTHS = {NUMBER: 62, TIME: 96, SPREAD: 96, TO_BEST: 72, PROMISED: 104, GROUP: 110, MAPPING: 130, RESULT: 120}
DIMENSION = 58
"""Pixels of a dimension's column, at least."""
NOTHING = "Trials appear here as they come: one row each, failures with their cause"
FILTER = "Filter: stages=3  time<40  failed"


class TrialsView(Panel):
    """All trials of one group; `trial_selected` carries the row of the trial that is to be shown."""

    trial_selected = Signal(int)
    apply_requested = Signal()
    apply_all_requested = Signal()

    def __init__(self) -> None:
        super().__init__("Trials")
        self.table = TrialTable()
        self.table.trial_selected.connect(self.trial_selected)
        self.filter = QLineEdit()
        self.filter.setProperty("role", "quiet")
        self.filter.setPlaceholderText(FILTER)
        self.filter.setAccessibleName("Filter the trials")
        self.filter.setToolTip("Words that a trial must hold, and comparisons: time, promised, trial, any dimension")
        self.filter.setFixedWidth(220)
        self.filter.setClearButtonEnabled(True)
        self.filter.textChanged.connect(self._set_filter)
        self.every = QPushButton("All groups")
        self.every.setProperty("role", "small")
        self.every.setCheckable(True)
        self.every.setToolTip("The trials of all groups in one table (Ctrl+Shift+G)")
        self.every.hide()
        self.apply = QPushButton("Apply best")
        self.apply.setProperty("role", "small")
        self.apply.clicked.connect(self.apply_requested)
        self.apply_all = QPushButton("Apply all")
        self.apply_all.setProperty("role", "small")
        self.apply_all.clicked.connect(self.apply_all_requested)
        self.apply_all.hide()
        self.header_layout.addWidget(self.filter)
        self.header_layout.addWidget(self.every)
        self.header_layout.addWidget(self.apply)
        self.header_layout.addWidget(self.apply_all)
        self.body_layout.addWidget(self.table)
        self.table.sorted.connect(self._tell)
        self.show_empty(NOTHING)

    def show_trials(self, trials: Trials, group: str, origin: str, several: bool = False) -> None:
        """Shows a group's trials, or what came since.  several: whether the run has other groups as well."""
        self.every.setVisible(several)
        self.apply_all.setVisible(several)
        group = "" if several and self.every.isChecked() else group
        model = self.table.trials
        kept = self.table.selected
        model.show_group(trials, group, origin)
        self.table.fit()
        self.table.select(kept)
        self._tell()
        self.show_body()

    def show_nothing(self) -> None:
        """No run is shown."""
        self.every.hide()
        self.apply_all.hide()
        self.subtitle.setText("")
        self.show_empty(NOTHING)

    def show_selection(self, row: int) -> None:
        """Marks a trial that was chosen elsewhere."""
        self.table.select(row)

    def _set_filter(self, text: str) -> None:
        kept = self.table.selected
        self.table.trials.set_filter(text)
        self.table.select(kept)
        self._tell()

    def _tell(self) -> None:
        """How many rows of how many, in which order; or which word of the filter means nothing."""
        model = self.table.trials
        if model.unknown:
            self.subtitle.setText(f"no trial has “{model.unknown}”")
            return
        order = f"sorted by {model.head(model.sorted_by).lower()}".replace(" µs", "")
        self.subtitle.setText(f"{len(model.order):,} shown, {order}")


class TrialTable(QTableView, Themed, Tabular):
    """Lines of 24 pixels; a click or the arrow keys select a trial, a click on a head sorts."""

    trial_selected = Signal(int)
    sorted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.trials = TrialModel()
        self.selected = NONE
        self._silent = False
        self._fitted: tuple[str, ...] = ()
        self.setModel(self.trials)
        self.setItemDelegate(_TrialDelegate(self))
        self.setAccessibleName("Trials")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerItem)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        lines = self.verticalHeader()
        lines.hide()
        lines.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        lines.setMinimumSectionSize(ROW)
        lines.setDefaultSectionSize(ROW)
        heads = self.horizontalHeader()
        heads.setFixedHeight(HEAD)
        heads.setHighlightSections(False)
        heads.setSectionsClickable(True)
        heads.sectionClicked.connect(self._sort)
        self.selectionModel().currentChanged.connect(self._announce)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Copy takes the selected trials."""
        if not self.copy_rows(event):
            super().keyPressEvent(event)

    def table(self, chosen: bool = False) -> Table:
        """The trials in the order shown, figures exact."""
        model = self.trials
        lines = [index.row() for index in selected_lines(self, lambda index: index.row())]
        rows = model.order[lines] if chosen else model.order
        values = tuple(tuple(model.value(int(row), column) for column in model.columns) for row in rows)
        return Table(tuple(map(model.head, model.columns)), values)

    def fit(self) -> None:
        """Gives new columns their widths; those of columns that stay are the user's."""
        columns = self.trials.columns
        if columns == self._fitted:
            return
        self._fitted = columns
        heads = self.horizontalHeader()
        for number, name in enumerate(columns):
            words = heads.fontMetrics().horizontalAdvance(self.trials.head(name)) + 22
            self.setColumnWidth(number, WIDTHS.get(name, max(DIMENSION, words)))
        heads.setStretchLastSection(True)

    def select(self, row: int) -> None:
        """Marks the line of a trial without announcing it; scrolls only where it is not in sight."""
        self.selected = row
        line = self.trials.line_of(row) if row != NONE else NONE
        self._silent = True
        if line == NONE:
            self.setCurrentIndex(QModelIndex())
        elif self.currentIndex().row() != line:
            self.setCurrentIndex(self.trials.index(line, 0))
        self._silent = False
        self.viewport().update()

    def _sort(self, section: int) -> None:
        """Sorts by a column, the other way round where it was sorted by it."""
        column = self.trials.columns[section]
        self.trials.sort_by(column, column == self.trials.sorted_by and not self.trials.descending)
        self.select(self.selected)
        self.sorted.emit()

    def _announce(self, index: QModelIndex) -> None:
        if index.isValid() and not self._silent:
            self.selected = self.trials.row_at(index)
            self.trial_selected.emit(self.selected)


class _TrialDelegate(QStyledItemDelegate):
    """Paints one cell; the line of the selected trial is tinted as a whole."""

    def __init__(self, table: TrialTable) -> None:
        super().__init__(table)
        self._table = table

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Figures at the right of their columns, words at the left."""
        theme, model = self._table.theme, self._table.trials
        if theme is None or index.row() >= len(model.order):
            return
        box, column, row = QRectF(option.rect), model.columns[index.column()], model.row_at(index)
        painter.save()
        themed = ThemedPainter(painter, theme)
        if row == self._table.selected:
            themed.area(box, "accent-bg")
            if index.column() == 0:
                themed.area(QRectF(box.x(), box.y(), 2, box.height()), "accent")
        elif option.state & QStyle.StateFlag.State_Selected:  # one of several, to be copied
            themed.area(box, "accent-bg")
        elif option.state & QStyle.StateFlag.State_MouseOver:
            themed.area(box, "raised")
        cell, is_mark = model.cell(row, column), column == RESULT and model.cell(row, column).failed
        font = semibold() if (cell.strong and not cell.failed) or cell.wrong else face()
        quiet = cell.failed or column in (SPREAD, TO_BEST, PROMISED)
        if is_mark:
            paint_verdict(themed, QPointF(box.x() + 18, box.center().y()), "infeasible", 3.6)
        if column in WORDS:
            box, side = box.adjusted(30 if is_mark else 12, 0, -4, 0), LEFT
        else:
            box, side = box.adjusted(4, 0, -12, 0), RIGHT
        themed.text(box, cell.text, "wrong" if cell.wrong else "text-3" if quiet else "text", font, side)
        painter.restore()
