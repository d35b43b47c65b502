"""The moves panel: legal next steps by predicted gain, a preview of the chosen one, and what is impossible."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QFrame, QMenu, QVBoxLayout

from engine.documents.exploration import MoveDoc, MovesDoc
from engine.documents.model import Time
from views.answer import AnswerPanel
from views.format import duration
from views.moves.rows import GAIN, PREDICTED, WHY_NOT, describe, move_cells, move_rows, paint_move
from views.panel import Elided, column_heads, label
from views.rows import RowView, TreeRow
from views.theme import code_face

EMPTY = "Select a group to see what can be done next"
NOTHING = "Nothing else is possible here"
PREVIEW_LINES = 2
HINT = "Return applies"


class MovesView(AnswerPanel):
    """Next steps; `apply_requested` carries the group's whole advice after the chosen one."""

    apply_requested = Signal(str)
    statements_selected = Signal(tuple)

    def __init__(self) -> None:
        super().__init__("Moves", EMPTY)
        self._now: Time | None = None
        self._moves: MovesDoc | None = None
        self.table = RowView("Next legal steps", paint_move, 0)
        self.table.cells = move_cells
        self.table.setToolTip("Return or a double click applies a step; Ctrl+C copies it as text")
        self.table.row_selected.connect(self._choose)
        self.table.row_activated.connect(self._apply)
        self.table.entered.connect(self._hover)
        self.table.viewport().installEventFilter(self)
        copying = QAction("Copy as Text", self.table)
        copying.setShortcut(QKeySequence.StandardKey.Copy)
        copying.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        copying.triggered.connect(self._copy)
        self.table.addAction(copying)
        self._copying = copying
        self.table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.table.customContextMenuRequested.connect(self._show_menu)
        self.preview = MovePreview()
        self.body_layout.addWidget(column_heads("Next legal step", (("Predicted", PREDICTED), ("Gain", GAIN))))
        self.body_layout.addWidget(self.table, 1)
        self.body_layout.addWidget(self.preview)

    @property
    def moves(self) -> MovesDoc | None:
        """What is shown."""
        return self._moves

    def show_document(self, moves: MovesDoc, now: Time | None = None, stale: bool = False) -> None:
        """Replaces the table; `now` is the predicted time of the schedule in use, `stale` where an edit was refused."""
        self._now = now
        chosen = self._current_title()
        if moves != self._moves:
            self._moves = moves
            self.table.show_rows(move_rows(moves), lambda row: row.key != WHY_NOT)
            self._choose_again(chosen)
        count = f"{len(moves.possible)} legal" + (" from the last legal advice" if stale else "")
        self.subtitle.setText(count if moves.complete else f"{count}, not all tried yet")
        self._show_preview(self._current() or self._first())
        if moves.possible or moves.impossible:
            self.show_body()
        else:
            self.show_empty(NOTHING)

    def show_nothing(self, sentence: str = "") -> None:
        """No moves."""
        self._moves = None
        self.subtitle.setText("")
        self.table.show_rows(())
        super().show_nothing(sentence)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """When the pointer leaves the table, the preview returns to the chosen row."""
        if event.type() == QEvent.Type.Leave:
            self._show_preview(self._current() or self._first())
        return super().eventFilter(watched, event)

    def _current(self) -> MoveDoc | None:
        index = self.table.currentIndex()
        value = self.table.rows.row_at(index).value if index.isValid() else None
        return value if isinstance(value, MoveDoc) else None

    def _first(self) -> MoveDoc | None:
        """The best one, which is previewed until another is chosen."""
        return next(iter(self._moves.possible), None) if self._moves else None

    def _current_title(self) -> str:
        current = self._current()
        return current.title if current else ""

    def _choose_again(self, title: str) -> None:
        """The row that was chosen stays chosen by its title, so that keys go on where they were."""
        for key in self.table.rows:
            index = self.table.rows.index_of(key)
            value = self.table.rows.row_at(index).value
            if isinstance(value, MoveDoc) and value.title == title:
                self.table.mark((key,))
                return

    def _choose(self, row: TreeRow) -> None:
        self.table.mark((row.key,))
        if isinstance(row.value, MoveDoc):
            self._show_preview(row.value)
            self.statements_selected.emit(row.value.statements)

    def _hover(self, index: QModelIndex) -> None:
        value = self.table.rows.row_at(index).value
        self._show_preview(value if isinstance(value, MoveDoc) else self._current() or self._first())

    def _apply(self, row: TreeRow) -> None:
        if isinstance(row.value, MoveDoc) and row.value.recipe:
            self.apply_requested.emit(row.value.recipe)
        elif row.key == WHY_NOT:
            index = self.table.rows.index_of(WHY_NOT)
            self.table.setExpanded(index, not self.table.isExpanded(index))

    def _copy(self) -> None:
        move = self._current()
        if move:
            QGuiApplication.clipboard().setText("\n".join(move.entries) or describe(move))

    def _show_menu(self, position: QPoint) -> None:
        index = self.table.indexAt(position)
        row = self.table.rows.row_at(index) if index.isValid() else None
        if row is None or not isinstance(row.value, MoveDoc):
            return
        self.table.setCurrentIndex(index)
        menu = QMenu(self)
        apply = menu.addAction("Apply")
        apply.setEnabled(bool(row.value.recipe))
        apply.triggered.connect(lambda: self._apply(row))
        menu.addAction(self._copying)
        menu.popup(self.table.viewport().mapToGlobal(position))

    def _show_preview(self, move: MoveDoc | None) -> None:
        self.preview.show_move(move, self._now)


class MovePreview(QFrame):
    """What a step says and what it would cost, beside what is in use; or why it cannot be taken."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "header")
        self.setFixedHeight(62)
        self.lines = label("", "")
        self.lines.setFont(code_face())
        self.lines.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.lines.setMinimumWidth(10)
        self.figures = Elided("small-hint")
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 6, 12, 6)
        column.setSpacing(2)
        column.addWidget(self.lines, 1)
        column.addWidget(self.figures)
        self.show_move(None, None)

    def show_move(self, move: MoveDoc | None, now: Time | None) -> None:
        """The lines that a step adds; at most `PREVIEW_LINES` of them, the rest in the tool tip."""
        if move is None:
            self.lines.setText("")
            self.figures.setText(f"Choose a step to see what it says. {HINT}")
            self.setToolTip("")
            return
        text = move.entries if move.time else tuple(part for part in (move.why_not, move.witness) if part)
        shown = list(text[:PREVIEW_LINES])
        if len(text) > PREVIEW_LINES:
            shown[-1] += f"   … and {len(text) - PREVIEW_LINES + 1} more"
        self.lines.setText("\n".join(shown))
        self.setToolTip("\n".join(text))
        if move.time is None:
            self.figures.setText("not possible under this advice")
        else:
            instead = f" instead of {duration(now.microseconds)}" if now else ""
            self.figures.setText(f"○ {duration(move.time.microseconds)}{instead}, {move.time.origin}. {HINT}")
