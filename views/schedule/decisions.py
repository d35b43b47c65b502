"""The solver's table: what every iterator of every statement could be as every dimension of the schedule."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from engine.documents.exploration import CellDoc, DecisionRow, DecisionsDoc
from views.answer import AnswerPage
from views.panel import bar, label
from views.shapes import paint_decision, paint_focus
from views.tables import Cell, Table, Tabular, make_table
from views.theme import Theme, code_face, face, semibold
from views.themed import Themed
from views.themed_painter import ThemedPainter

Index = QModelIndex | QPersistentModelIndex
NOWHERE = QModelIndex()
EMPTY = "Select a group to see what its solver could decide"
WORDS = {"parallel": "parallel", "legal": "sequential", "impossible": "impossible", "used": "used by outer loop"}
"""State -> what a cell says."""
MEANINGS = {
    "parallel": "all its values may run at the same time",
    "legal": "its values run one after the other",
    "impossible": "the dependences forbid it, with the outer dimensions as they are",
    "used": "a dimension further out runs along it already",
}
LEAST_COLUMN, ROW = 104, 26


class DecisionModel(QAbstractTableModel):
    """Iterators of statements against dimensions; replaced as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[DecisionRow, ...] = ()
        self._dimensions: tuple[str, ...] = ()

    def show_decisions(self, decisions: DecisionsDoc | None) -> None:
        """Replaces everything."""
        self.beginResetModel()
        self._rows = decisions.rows if decisions else ()
        self._dimensions = decisions.dimensions if decisions else ()
        self.endResetModel()

    def row_of(self, index: Index) -> DecisionRow:
        """The iterator of a valid index."""
        return self._rows[index.row()]

    def cell_of(self, index: Index) -> CellDoc:
        """The cell of a valid index."""
        return self._rows[index.row()].cells[index.column()]

    def cells(self, line: int) -> dict[str, Cell]:
        """A row for a table."""
        row = self._rows[line]
        states = {
            f"{number} {name}": f"{'* ' if cell.chosen else ''}{WORDS[cell.state]}"
            for number, (name, cell) in enumerate(zip(self._dimensions, row.cells, strict=True), 1)
        }
        return {"statement": row.statement, "iterator": row.iterator, "extent": row.extent, **states}

    def begins(self, row: int) -> bool:
        """Whether a row is the first of its statement."""
        return row == 0 or self._rows[row - 1].statement != self._rows[row].statement

    def rowCount(self, parent: Index = NOWHERE) -> int:
        """Item-model interface."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        """Item-model interface."""
        return 0 if parent.isValid() else len(self._dimensions)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Words for screen readers and tool tips; the rest is painted."""
        if index.isValid() and role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return self.sentence(index)
        if index.isValid() and role == Qt.ItemDataRole.ToolTipRole:
            return "\n".join(self.explanation(index))
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """Dimensions above, statements and iterators at the left."""
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        if orientation == Qt.Orientation.Horizontal:
            return f"{section + 1}  {self._dimensions[section]}"
        row = self._rows[section]
        name = row.statement if self.begins(section) else " " * len(row.statement)
        return f"{name}  {row.iterator}  {row.extent:,}"

    def sentence(self, index: Index) -> str:
        """ "S0 j as dimension 1: impossible"."""
        row, cell = self.row_of(index), self.cell_of(index)
        chosen = "chosen, " if cell.chosen else ""
        return f"{row.statement} {row.iterator} as dimension {index.column() + 1}: {chosen}{WORDS[cell.state]}"

    def explanation(self, index: Index) -> list[str]:
        """What a cell means, why, the instances that show it, and what Return does."""
        cell = self.cell_of(index)
        lines = [f"{self.sentence(index)}: {cell.because or MEANINGS[cell.state]}"]
        lines += [cell.witness] if cell.witness else []
        return [*lines, f"Click or Return asks for: {cell.entry}"] if cell.entry else lines


class DecisionsPage(AnswerPage):
    """The table; `entry_requested` carries the line of the text form that asks for a cell."""

    entry_requested = Signal(str)
    statements_selected = Signal(tuple)

    def __init__(self) -> None:
        super().__init__(EMPTY)
        self.model = DecisionModel()
        self.table = _DecisionGrid(self.model)
        self.table.chosen.connect(self._ask)
        self.table.selectionModel().currentChanged.connect(self._explain)
        self.table.entered.connect(self._explain)
        self.pages.addWidget(self.table)
        self.legend = DecisionLegend()
        foot, layout = bar("header", 64)
        self.reason = label("", "second", wrap=True)
        layout.addWidget(self.reason, 1)
        self.column.addWidget(self.legend)
        self.column.addWidget(self.pages, 1)
        self.column.addWidget(foot)
        self._doc: DecisionsDoc | None = None

    def show_decisions(self, decisions: DecisionsDoc) -> None:
        """Replaces the table; the keyboard stays where it was."""
        self.show_body()
        if decisions == self._doc:
            return
        self._doc = decisions
        at = self.table.currentIndex()
        row, column = at.row(), at.column()
        self.model.show_decisions(decisions)
        if row >= 0:
            self.table.setCurrentIndex(self.model.index(row, column))
        else:
            self.reason.setText("Point at a cell to see why it is so; click or Return asks for it.")

    def show_nothing(self, sentence: str = "") -> None:
        """No table."""
        self._doc = None
        self.model.show_decisions(None)
        self.reason.setText("")
        super().show_nothing(sentence)

    def show_selection(self, statements: Iterable[str]) -> None:
        """Marks the rows of statements."""
        self.table.show_selection(frozenset(statements))

    def _ask(self, index: QModelIndex) -> None:
        self.statements_selected.emit((self.model.row_of(index).statement,))
        cell = self.model.cell_of(index)
        if cell.entry:
            self.entry_requested.emit(cell.entry)

    def _explain(self, index: QModelIndex) -> None:
        if index.isValid():
            self.reason.setText("\n".join(self.model.explanation(index)))


class DecisionLegend(QWidget, Themed):
    """What the marks of the cells mean."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(32)

    def paintEvent(self, event: object) -> None:
        """Marks with their words, as many as fit."""
        if self.theme is None:
            return
        painter, middle = ThemedPainter(self, self.theme), self.height() / 2
        box = QRectF(12, 0, self.width() - 12, self.height())
        for state, word in (*WORDS.items(), ("chosen", "framed: chosen")):
            width = painter.width(word, face(11))
            if 34 + width > box.width():
                return
            if state == "chosen":
                _paint_frame(painter, QRectF(box.x(), middle - 6, 16, 12), 3)
            else:
                paint_decision(painter, QPointF(box.x() + 8, middle), state)
            painter.text(box.adjusted(22, 0, 0, 0), word, "text-2", face(11))
            box = box.adjusted(22 + width + 18, 0, 0, 0)


def word_in(painter: ThemedPainter, state: str, room: float) -> str:
    """What a cell says where it has so much room: the first word stands for all, which the legend has."""
    word = WORDS[state]
    return word if painter.width(word, face(11)) <= room else word.partition(" ")[0]


def _paint_frame(painter: ThemedPainter, box: QRectF, radius: float) -> None:
    """Around what is chosen."""
    painter.ink("accent", "accent-bg", 1.6).drawRoundedRect(box, radius, radius)


class _DecisionGrid(QTableView, Themed, Tabular):
    """Click and Return choose a cell."""

    chosen = Signal(QModelIndex)

    def __init__(self, model: DecisionModel) -> None:
        super().__init__()
        self.statements: frozenset[str] = frozenset()
        self._model = model
        self.setModel(model)
        self.setItemDelegate(_CellDelegate(self, model))
        self.setAccessibleName("Decisions: iterators against dimensions")
        self.setMouseTracking(True)
        self.setShowGrid(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setCornerButtonEnabled(False)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.horizontalHeader().setMinimumSectionSize(LEAST_COLUMN)
        self.horizontalHeader().setHighlightSections(False)
        self.verticalHeader().setDefaultSectionSize(ROW)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setHighlightSections(False)
        self.verticalHeader().setStyleSheet("QHeaderView::section { border: none; padding: 0 12px; }")
        self.verticalHeader().setFont(code_face())
        self.verticalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.clicked.connect(self.chosen)

    def show_theme(self, theme: Theme) -> None:
        """Takes over the tokens of `theme`."""
        self.setStyleSheet(f"QTableCornerButton::section {{ background: {theme.colours['panel']}; border: none; }}")
        self.viewport().update()

    def table(self, chosen: bool = False) -> Table:
        """One row for each iterator, with its state as every dimension; the chosen one carries a star."""
        lines = [self.currentIndex().row()] if chosen else range(self._model.rowCount())
        return make_table(self._model.cells(line) for line in lines if line >= 0)

    def show_selection(self, statements: frozenset[str]) -> None:
        """Tints the rows of statements."""
        self.statements = statements
        self.viewport().update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return asks for the current cell, Copy takes the row of the current cell."""
        if self.copy_rows(event):
            return
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self.chosen.emit(self.currentIndex())
        else:
            super().keyPressEvent(event)


class _CellDelegate(QStyledItemDelegate):
    """Paints a cell: mark and word, a frame around what is chosen, a ring around the keyboard."""

    def __init__(self, table: _DecisionGrid, model: DecisionModel) -> None:
        super().__init__(table)
        self._table, self._model = table, model

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """All cells are equal."""
        return QSize(LEAST_COLUMN, ROW)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paints one cell."""
        if self._table.theme is None:
            return
        cell, box = self._model.cell_of(index), QRectF(option.rect)
        painter.save()
        themed = ThemedPainter(painter, self._table.theme)
        if self._model.row_of(index).statement in self._table.statements:
            themed.area(box, "accent-bg")
        elif option.state & QStyle.StateFlag.State_MouseOver and cell.entry:
            themed.area(box, "raised")
        if self._model.begins(index.row()):
            themed.line((box.left(), box.top()), (box.right(), box.top()))
        if cell.chosen:
            _paint_frame(themed, box.adjusted(4.5, 3.5, -4.5, -3.5), 4)
        if index == self._table.currentIndex() and self._table.hasFocus():
            paint_focus(themed, box)
        paint_decision(themed, QPointF(box.x() + 18, box.center().y()), cell.state)
        quiet = cell.state in ("impossible", "used")
        font = semibold(11) if cell.chosen else face(11)
        room = box.adjusted(31, 0, -7, 0)
        themed.text(room, word_in(themed, cell.state, room.width()), "text-3" if quiet else "text", font)
        painter.restore()
