"""The trials of one group as an item model: Qt asks for what is in sight, NumPy sorts and filters the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from views.format import figure
from views.tuning.filtering import filter_trials
from views.tuning.trials import NONE, REUSED, Codes, Numbers, Rows, Trials

Index = QModelIndex | QPersistentModelIndex
NOWHERE = QModelIndex()
NUMBER, TIME, TO_BEST, PROMISED, SPREAD = "number", "microseconds", "to best", "promised", "p20–p80"
GROUP, MAPPING, RESULT = "group", "mapping", "result"
BEFORE = (NUMBER, TIME, TO_BEST, PROMISED)
AFTER = (GROUP, MAPPING, RESULT)
"""Columns before and after those of the dimensions."""
WORDS = AFTER
"""Columns that are read from the left."""
HEADS = {
    NUMBER: "Trial", SPREAD: SPREAD, TO_BEST: "vs. best", PROMISED: "Model estimate", GROUP: "Group",
    MAPPING: "Mapping", RESULT: "Result",
}  # fmt: skip
NO_TIME = "—"


@dataclass(frozen=True, slots=True)
class Cell:
    """What a delegate paints."""

    text: str
    strong: bool = False
    failed: bool = False
    wrong: bool = False
    """Of a failure: whether the kernel gave a wrong result."""


class TrialModel(QAbstractTableModel):
    """Some rows of the trials in some order."""

    def __init__(self) -> None:
        super().__init__()
        self.trials = Trials()
        self.group = ""
        self.origin = "predicted"
        self.columns: tuple[str, ...] = (*BEFORE, *AFTER)
        self.sorted_by, self.descending = TIME, False
        self.filter = ""
        self.unknown = ""
        """The word of the filter that means nothing."""
        self.order: Rows = np.empty(0, np.int64)
        """Rows of the trials, from top to bottom."""
        self._bests: Numbers = np.empty(0)
        """Of each group the best time."""

    def show_group(self, trials: Trials, group: str, origin: str) -> None:
        """Shows the trials of a group, "" for all; the rows of the same group stay where the view has them."""
        if trials is self.trials and group == self.group and origin == self.origin:
            self.refresh()
            return
        self.beginResetModel()
        self.trials, self.group, self.origin = trials, group, origin
        self.columns = self._columns()
        self.order = self._order_rows()
        self.endResetModel()

    def refresh(self) -> None:
        """Takes in what came since."""
        columns = self._columns()
        if columns != self.columns:
            self.beginResetModel()
            self.columns, self.order = columns, self._order_rows()
            self.endResetModel()
            return
        self._reorder()

    def sort_by(self, column: str, descending: bool) -> None:
        """Another order; failures stay at the end."""
        self.sorted_by, self.descending = column, descending
        self._reorder()
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.columns) - 1)

    def set_filter(self, text: str) -> None:
        """Keeps what the filter keeps."""
        self.filter = text
        self._reorder()

    def row_at(self, index: Index) -> int:
        """The row of the trials that a line of the table shows."""
        return int(self.order[index.row()])

    def line_of(self, row: int) -> int:
        """The line that shows a row of the trials; `NONE` where none does."""
        found = np.flatnonzero(self.order == row)
        return int(found[0]) if len(found) else NONE

    def head(self, column: str) -> str:
        """What stands over a column."""
        name = f"{self.origin} µs" if column == TIME else column.replace("_", " ")
        return HEADS.get(column, name[:1].upper() + name[1:])

    def value(self, row: int, column: str) -> str | int | float:
        """One cell of a row of the trials as it goes out: figures exact, "" for none."""
        trials = self.trials
        if column == NUMBER:
            return int(trials.number[row])
        figures = {TIME: trials.microseconds, PROMISED: trials.promised}
        if column in figures:
            known = float(figures[column][row])
            return "" if np.isnan(known) else known
        return self.cell(row, column).text

    def cell(self, row: int, column: str) -> Cell:
        """One cell of a row of the trials."""
        trials = self.trials
        time = float(trials.microseconds[row])
        failed = bool(np.isnan(time))
        if column == NUMBER:
            return Cell(f"{trials.number[row]:,}", failed=failed)
        if column == TIME:
            return Cell(NO_TIME if failed else figure(time), strong=True, failed=failed)
        if column == SPREAD:
            low, high = (float(part[row]) for part in trials.spread)
            return Cell("" if failed or np.isnan(low) else f"{figure(low)}–{figure(high)}", failed=failed)
        if column == TO_BEST:
            return Cell("" if failed else _to_best(time / float(self._bests[trials.column(GROUP)[row]])))
        if column == PROMISED:
            promised = float(trials.promised[row])
            return Cell(NO_TIME if np.isnan(promised) else figure(promised), failed=failed)
        if column == RESULT:
            kind = trials.text("kind", row)
            reused = trials.column("state")[row] == REUSED
            said = kind if failed else "cached" if reused else "OK"
            return Cell(said, failed=failed, wrong="wrong" in kind)
        return Cell(trials.text(column, row), failed=failed)

    def rowCount(self, parent: Index = NOWHERE) -> int:
        """Item-model interface."""
        return 0 if parent.isValid() else len(self.order)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        """Item-model interface."""
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The text of a cell; everything else is painted."""
        if not index.isValid():
            return None
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return self.cell(self.row_at(index), self.columns[index.column()]).text
        if role == Qt.ItemDataRole.ToolTipRole:
            return self.trials.program(self.row_at(index))
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """Item-model interface."""
        if orientation != Qt.Orientation.Horizontal or section >= len(self.columns):
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            arrow = (" ↓" if self.descending else " ↑") if column == self.sorted_by else ""
            return self.head(column) + arrow
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignLeft if column in WORDS else Qt.AlignmentFlag.AlignRight
            return side | Qt.AlignmentFlag.AlignVCenter
        return None

    def _columns(self) -> tuple[str, ...]:
        """Those that tell trials apart: what is the same in all of them is left out."""
        rows = self.trials.rows_of(self.group)
        dimensions = [name for name in self.trials.dimensions if _differ(self.trials.value(name)[rows])]
        words = [name for name in (GROUP, MAPPING) if _differ(self.trials.column(name)[rows])]
        spread = (SPREAD,) if np.isfinite(self.trials.spread[0][rows]).any() else ()
        return (NUMBER, TIME, *spread, TO_BEST, PROMISED, *dimensions, *words, RESULT)

    def _order_rows(self) -> Rows:
        rows = self.trials.rows_of(self.group)
        self._bests = self.trials.bests()
        rows, self.unknown = filter_trials(self.trials, rows, self.filter)
        keys = self._keys(rows)
        order = np.argsort(keys if not self.descending else -keys, kind="stable")
        return rows[order]

    def _keys(self, rows: Rows) -> Numbers:
        """Figures to sort by; NaN comes last in both directions."""
        trials, column = self.trials, self.sorted_by
        if column in (NUMBER, PROMISED):
            return np.asarray(trials.column(column)[rows], float)
        if column == TIME or column not in self.columns:
            return np.asarray(trials.microseconds[rows])
        if column == TO_BEST:
            return np.asarray(trials.microseconds[rows] / self._bests[trials.column(GROUP)[rows]])
        if column == SPREAD:
            low, high = trials.spread
            return np.asarray((high[rows] - low[rows]) / trials.microseconds[rows])
        if column == RESULT:
            words, codes = trials.words.kinds, trials.column("kind")[rows]
        elif column in (GROUP, MAPPING):
            words, codes = getattr(trials.words, f"{column}s"), trials.column(column)[rows]
        else:
            words, codes = trials.words.dimensions[column], trials.value(column)[rows]
        return np.asarray(np.append(words.ranks(), np.nan)[codes])

    def _reorder(self) -> None:
        """Another order of the lines, more or fewer of them; indices that Qt holds follow their trials."""
        order = self._order_rows()
        if np.array_equal(order, self.order):
            return
        self.layoutAboutToBeChanged.emit()
        held = self.persistentIndexList()
        rows = [self.row_at(index) for index in held]
        self.order = order
        lines = [self.line_of(row) for row in rows]
        moved = [
            self.index(line, index.column()) if line != NONE else QModelIndex()
            for line, index in zip(lines, held, strict=True)
        ]
        self.changePersistentIndexList(held, moved)
        self.layoutChanged.emit()


def _differ(codes: Codes) -> bool:
    return len(codes) > 0 and bool((codes != codes[0]).any())


def _to_best(part: float) -> str:
    return "best" if part <= 1 else f"+ {(part - 1) * 100:.1f} %" if part < 2 else f"× {part:.1f}"
