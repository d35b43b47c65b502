"""A tree of painted rows: the base of the outline, the schedule tree and the constraint tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from PySide6.QtCore import (
    QAbstractItemModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QTreeView, QWidget

from views.shapes import paint_focus, paint_selected_row, paint_strokes
from views.tables import Cell, Table, Tabular, flatten, make_table, selected_lines
from views.themed import Themed
from views.themed_painter import ThemedPainter

Index = QModelIndex | QPersistentModelIndex
INDENT = 12
CHEVRON = 16
NOWHERE = QModelIndex()


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One row: what it is called, what it stands for, what is under it."""

    key: str
    title: str
    value: Any
    """What the view that paints it put there."""
    children: tuple[TreeRow, ...] = ()
    height: int = 24
    tip: str = ""
    """The tool tip; the title where it is empty."""


@dataclass(slots=True)
class _TreeNode:
    """A row with its way back to the root, as item models need it."""

    row: TreeRow
    parent: _TreeNode | None
    number: int
    depth: int
    places: list[_TreeNode] = field(default_factory=list)


class RowModel(QAbstractItemModel):
    """Rows as a one-column item model; replaced as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self._top: list[_TreeNode] = []
        self._by_key: dict[str, _TreeNode] = {}

    def show_rows(self, rows: Iterable[TreeRow]) -> None:
        """Replaces everything."""
        self.beginResetModel()
        self._by_key = {}
        self._top = [self._place(row, None, number, 0) for number, row in enumerate(rows)]
        self.endResetModel()

    def renew(self, rows: Iterable[TreeRow]) -> None:
        """Replaces what rows show that are there already, with those under them."""
        for row in rows:
            place = self._by_key.get(row.key)
            if place is not None:
                place.row = row
            self.renew(row.children)

    def index_of(self, key: str) -> QModelIndex:
        """Where a row is; an invalid index where there is none."""
        place = self._by_key.get(key)
        return self.createIndex(place.number, 0, place) if place else QModelIndex()

    def __iter__(self) -> Iterator[str]:
        """Keys of all rows, from top to bottom."""
        return iter(self._by_key)

    def walk(self) -> Iterator[TreeRow]:
        """All rows, from top to bottom."""
        return (place.row for place in self._by_key.values())

    def parents(self) -> Iterator[tuple[str, TreeRow]]:
        """Keys and rows of those that have others under them, from top to bottom."""
        return ((key, place.row) for key, place in self._by_key.items() if place.places)

    def row_at(self, index: Index) -> TreeRow:
        """The row of a valid index."""
        place: _TreeNode = index.internalPointer()
        return place.row

    def depth_at(self, index: Index) -> int:
        """How deep a valid index lies."""
        place: _TreeNode = index.internalPointer()
        return place.depth

    def index(self, row: int, column: int, parent: Index = NOWHERE) -> QModelIndex:
        """Item-model interface."""
        places = parent.internalPointer().places if parent.isValid() else self._top
        return self.createIndex(row, column, places[row]) if 0 <= row < len(places) and column == 0 else QModelIndex()

    def parent(self, child: Index = NOWHERE) -> QModelIndex:  # type: ignore[override]
        """Item-model interface."""
        above = child.internalPointer().parent if child.isValid() else None
        return self.createIndex(above.number, 0, above) if above else QModelIndex()

    def rowCount(self, parent: Index = NOWHERE) -> int:
        """Item-model interface."""
        return len(parent.internalPointer().places if parent.isValid() else self._top)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        """Item-model interface."""
        return 1

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The title, also for screen readers; everything else is painted."""
        if index.isValid() and role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return self.row_at(index).title
        if index.isValid() and role == Qt.ItemDataRole.ToolTipRole:
            return self.row_at(index).tip or self.row_at(index).title
        return None

    def _place(self, row: TreeRow, parent: _TreeNode | None, number: int, depth: int) -> _TreeNode:
        place = _TreeNode(row, parent, number, depth)
        self._by_key[row.key] = place
        place.places = [self._place(child, place, index, depth + 1) for index, child in enumerate(row.children)]
        return place


@dataclass(frozen=True, slots=True)
class RowState:
    """How a row is to be painted."""

    box: QRectF
    depth: int
    left: float
    """Where the row's content begins, right of indentation and chevron."""
    marked: bool
    opened: bool
    current: bool
    """Whether the keyboard is there."""
    part: int = 0
    """Which of several parts of the current row has the keyboard."""


def row_cells(row: TreeRow) -> Mapping[str, Cell]:
    """A row for a table: its title and the fields of the document that it stands for."""
    return {"row": row.title, **flatten(row.value)}


class RowView(QTreeView, Themed, Tabular):
    """Shows rows through one paint function; `marked` rows belong to the window's selection."""

    row_selected = Signal(object)
    row_activated = Signal(object)

    def __init__(
        self, name: str, paint: Callable[[ThemedPainter, TreeRow, RowState], None], indent: int = INDENT
    ) -> None:
        super().__init__()
        self.rows = RowModel()
        self.paint = paint
        self.cells: Callable[[TreeRow], Mapping[str, Cell]] = row_cells
        """What a row is in a table."""
        self.indent = indent
        self.chevrons = True
        self.marked: frozenset[str] = frozenset()
        self._silent = False
        self._announcing = False
        self._toggled: dict[str, bool] = {}
        """Rows that were opened or closed by hand stay so when the rows are replaced."""
        self.setModel(self.rows)
        self.setItemDelegate(_RowDelegate(self))
        self.setAccessibleName(name)
        self.setHeaderHidden(True)
        self.setIndentation(0)
        self.setRootIsDecorated(False)
        self.setMouseTracking(True)
        self.setExpandsOnDoubleClick(False)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerItem)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.selectionModel().currentChanged.connect(self._announce)
        self.expanded.connect(lambda index: self._remember(index, True))
        self.collapsed.connect(lambda index: self._remember(index, False))
        self.doubleClicked.connect(lambda index: self.row_activated.emit(self.rows.row_at(index)))

    def show_rows(self, rows: Iterable[TreeRow], opened: Callable[[TreeRow], bool] = lambda row: True) -> None:
        """Replaces the rows; those for which `opened` says so start expanded, the keyboard stays where it was."""
        self._silent = True
        current = self.current_key
        self.rows.show_rows(rows)
        for key, row in self.rows.parents():
            if self._toggled.get(key, opened(row)):
                self.expand(self.rows.index_of(key))
        if (index := self.rows.index_of(current)).isValid():
            self.setCurrentIndex(index)
        self._silent = False

    @property
    def current_key(self) -> str:
        """Key of the row that has the keyboard, or ""."""
        index = self.currentIndex()
        return self.rows.row_at(index).key if index.isValid() else ""

    def renew(self, rows: Iterable[TreeRow]) -> None:
        """Shows other values of the same rows; what is open, in sight and marked stays."""
        self.rows.renew(rows)
        self.viewport().update()

    def mark(self, keys: Iterable[str]) -> None:
        """Marks rows as selected elsewhere; scrolls only if the first of them is not in sight."""
        self.marked = frozenset(keys)
        index = self._first_marked()
        if index.isValid():
            self._silent = True
            current = self.current_key
            # Where somebody is at the rows, the keyboard stays: a row may stand for what is marked in its children.
            if not current or (current not in self.marked and not self._announcing and not self.hasFocus()):
                self.setCurrentIndex(index)
            self._silent = False
            if not self.viewport().rect().contains(self.visualRect(index)):
                self.scrollTo(index)
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """What is marked stays in sight: another perspective may leave few rows."""
        index = self._first_marked()
        was_seen = index.isValid() and QRect(QPoint(), event.oldSize()).contains(self.visualRect(index).center())
        super().resizeEvent(event)
        if was_seen and not self.viewport().rect().contains(self.visualRect(index)):
            self.scrollTo(index)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """The keyboard comes to a row, by itself to the first one; that selects nothing elsewhere."""
        self._silent = True
        super().focusInEvent(event)
        self._silent = False

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Opens or closes a row at its chevron, selects it elsewhere."""
        index = self.indexAt(event.position().toPoint())
        if index.isValid() and self.rows.rowCount(index) and self.chevrons:
            left = 8 + self.rows.depth_at(index) * self.indent
            if left - 4 <= event.position().x() <= left + CHEVRON:
                self.setExpanded(index, not self.isExpanded(index))
                return
        again = index.isValid() and index == self.currentIndex()
        super().mousePressEvent(event)
        if again:
            self._announce(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return does what a double click does, Copy takes the selected rows."""
        index = self.currentIndex()
        if self.copy_rows(event):
            return
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and index.isValid():
            self.row_activated.emit(self.rows.row_at(index))
        else:
            super().keyPressEvent(event)

    def table(self, chosen: bool = False) -> Table:
        """The rows under their columns; headings are rows with a title alone."""
        if not chosen:
            return make_table(self.cells(row) for row in self.rows.walk())
        indices = selected_lines(self, lambda index: self.visualRect(index).y())
        return make_table(self.cells(self.rows.row_at(index)) for index in indices)

    def state_of(self, index: Index, box: QRectF) -> RowState:
        """What the paint function has to know about a row besides its value."""
        depth = self.rows.depth_at(index)
        left = 8 + depth * self.indent + (CHEVRON if self.chevrons else 0)
        several = len(self.selectionModel().selectedRows()) > 1 and self.selectionModel().isSelected(index)
        marked = several or self.rows.row_at(index).key in self.marked
        return RowState(box, depth, box.x() + left, marked, self.isExpanded(index), index == self.currentIndex())

    def _first_marked(self) -> QModelIndex:
        """The first row that is selected elsewhere; an invalid index where there is none."""
        return self.rows.index_of(next((key for key in self.rows if key in self.marked), ""))

    def _remember(self, index: QModelIndex, opened: bool) -> None:
        if not self._silent:
            self._toggled[self.rows.row_at(index).key] = opened

    def _announce(self, index: QModelIndex) -> None:
        if index.isValid() and not self._silent:
            self._announcing = True
            self.row_selected.emit(self.rows.row_at(index))
            self._announcing = False


class _RowDelegate(QStyledItemDelegate):
    """Paints background and chevron, then hands over to the panel's paint function."""

    def __init__(self, view: RowView) -> None:
        super().__init__(view)
        self._view = view

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paints one row."""
        if self._view.theme is None:
            return
        box = QRectF(option.rect)
        # Columns keep their places, and stay under their heads, when the scroll bar comes and goes.
        box.setWidth(self._view.width())
        state = self._view.state_of(index, box)
        painter.save()
        themed = ThemedPainter(painter, self._view.theme)
        if state.marked:
            paint_selected_row(themed, box)
        elif option.state & QStyle.StateFlag.State_MouseOver:
            themed.area(box, "raised")
        if self._view.chevrons and self._view.rows.rowCount(index):
            at = QPointF(state.left - 9, box.center().y() + 0.5)
            paint_strokes(themed, at, "open" if state.opened else "closed", "text-3")
        self._view.paint(themed, self._view.rows.row_at(index), state)
        if state.current and self._view.hasFocus() and not (state.marked and len(self._view.marked) == 1):
            paint_focus(themed, QRectF(option.rect))
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """Rows have the height that they ask for."""
        return QSize(100, self._view.rows.row_at(index).height)


def set_role(widget: QWidget, role: str) -> QWidget:
    """Sets the role by which the style sheet finds a widget."""
    widget.setProperty("role", role)
    return widget
