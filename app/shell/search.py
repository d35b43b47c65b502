"""The field that goes to groups, statements and operators, with the list of what it found."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from engine.documents.model import StatementDoc
from views.field import Field
from views.panel import label
from views.rows import RowState, RowView, TreeRow
from views.search.hits import Hit, hits, summary
from views.search.index import SearchIndex
from views.search.query import QueryError
from views.theme import Theme, face
from views.themed_painter import RIGHT, ThemedPainter

WIDTH = 620
ROW = 26
VISIBLE = 12
"""Rows in sight without scrolling."""
SYNTAX = "type:MatMul   name:attn   attr:axis=-1   /regex/   time>5%   MatMul > * > Softmax"


class SearchBox(Field):
    """Goes to a group, a statement or an operator; arrows move along the list, Return goes there, Escape closes it."""

    chosen = Signal(object)
    """A Hit."""
    found = Signal(object)
    """Names of the groups that the query finds; empty where there is none."""

    def __init__(self) -> None:
        super().__init__("search", "Go to group, operator or statement", "Go to")
        self.setToolTip(f"Go to a group, an operator, or a statement of the selected group (Ctrl+P)\n{SYNTAX}")
        self.setMinimumWidth(96)
        self.setMaximumWidth(300)
        self._index: SearchIndex | None = None
        self._statements: tuple[StatementDoc, ...] = ()
        self._shown = ""
        self.list = RowView("Found", _paint)
        self.list.chevrons = False
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.clicked.connect(lambda index: self._go(self.list.rows.row_at(index)))
        self.list.row_selected.connect(lambda row: self.list.mark([row.key]))
        self.summary = label("", "small-hint")
        self.popup: QWidget | None = None
        self.textEdited.connect(self._show_found)
        self.returnPressed.connect(self._go_to_current)

    def show_index(self, index: SearchIndex) -> None:
        """What is searched from now on."""
        self._index = index
        self._shown = ""

    def show_statements(self, statements: Sequence[StatementDoc]) -> None:
        """The selected group's statements."""
        if self._statements != tuple(statements):
            self._statements = tuple(statements)
            self._shown = ""

    def show_theme(self, theme: Theme) -> None:
        """Takes over the tokens of `theme`; the list is no child of the field."""
        super().show_theme(theme)
        self.list.set_theme(theme)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrows move along the list, Escape closes it."""
        moves = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)
        if event.key() in moves and self._is_open():
            self.list.keyPressEvent(event)
        elif event.key() == Qt.Key.Key_Down:
            self._show_found(self.text())
        elif event.key() == Qt.Key.Key_Escape:
            self._close()
        else:
            super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The list goes with the focus."""
        super().focusOutEvent(event)
        self._close()

    def _is_open(self) -> bool:
        return self.popup is not None and self.popup.isVisible()

    def _close(self) -> None:
        if self._is_open():
            assert self.popup is not None
            self.popup.hide()
            self.found.emit(())

    def _search(self, text: str) -> None:
        """Fills the list; a query that is being typed may not be one yet, and the line below says why."""
        self._shown = text
        listed: tuple[Hit, ...] = ()
        groups: tuple[str, ...] = ()
        if self._index is None:
            said = "open a model first"
        else:
            try:
                found = self._index.find(text)
                listed = hits(self._index, found, self._statements, text)
                groups, said = tuple(found.groups), summary(self._index, found)
            except QueryError as error:
                said = str(error)
        self.summary.setText(said)
        self.list.show_rows(TreeRow(str(number), hit.title, hit, (), ROW) for number, hit in enumerate(listed))
        self.list.mark(["0"] if listed else [])
        self.found.emit(groups)

    def _show_found(self, text: str) -> None:
        if not text.strip():
            self._close()
            self.found.emit(())
            return
        self._search(text)
        popup = self._frame()
        rows = min(sum(1 for _ in self.list.rows), VISIBLE)
        self.list.setVisible(rows > 0)
        popup.setFixedSize(WIDTH, rows * ROW + (8 if rows else 0) + 32)
        window = self.window()
        corner = self.mapTo(window, QPoint((self.width() - WIDTH) // 2, self.height() + 4))
        popup.move(max(8, min(corner.x(), window.width() - WIDTH - 8)), corner.y())
        popup.show()
        popup.raise_()

    def _frame(self) -> QWidget:
        """The list over the window's panels; a child of the window, so that the field keeps the keyboard."""
        if self.popup is None:
            self.popup = QFrame(self.window())
            self.popup.setProperty("role", "palette")
            self.popup.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
            layout = QVBoxLayout(self.popup)
            layout.setSpacing(4)
            layout.setContentsMargins(4, 4, 4, 4)
            layout.addWidget(self.list, 1)
            layout.addWidget(self.summary)
            self.summary.setContentsMargins(8, 0, 8, 0)
        return self.popup

    def _go_to_current(self) -> None:
        """Return goes to the row under the arrows, else to the first; it may come before the list was shown."""
        if self._shown != self.text():
            self._search(self.text())
        index = self.list.currentIndex()
        if index.isValid():
            self._go(self.list.rows.row_at(index))

    def _go(self, row: TreeRow) -> None:
        self._close()
        self.chosen.emit(row.value)


def _paint(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    hit, box = row.value, state.box.adjusted(12, 0, -20, 0)
    assert isinstance(hit, Hit)
    detail = min(painter.width(hit.detail, face(11)) + 1.0, box.width() * 0.4)
    painter.text(box.adjusted(box.width() - detail, 0, 0, 0), hit.detail, "text-3", face(11), RIGHT)
    box = box.adjusted(14 if hit.node else 0, 0, -detail - 12, 0)
    painter.text(box, hit.title, "text-2" if hit.node else "text")
