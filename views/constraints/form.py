"""A small form that writes one entry."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from views.choices import choice_box

FIELDS = {
    "pin": "an iterator, e.g. j",
    "parallel": "true or false",
    "split": "a factor, e.g. 4",
    "mark": "e.g. stages 2",
    "cut": "e.g. S0 | S1 S2",
    "terms": "e.g. ((i, 1), (j, 1)), or shift",
    "rewrite": "associative, or recompute in S3",
}
"""What can be asked for -> how its value looks."""


class EntryForm(QWidget):
    """Statements, dimension, field, value; `entry_requested` carries the entry as a line of the text form."""

    entry_requested = Signal(str)
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.statements = choice_box("Statements", 3)
        self.dimension = choice_box("Dimension", 3)
        self.field = choice_box("Field", 3)
        self.field.addItems(list(FIELDS))
        self.field.currentTextChanged.connect(self._show_hint)
        self.value = QLineEdit()
        self.value.setMinimumWidth(40)
        self.value.setAccessibleName("Value")
        self.value.returnPressed.connect(self._add)
        self.value.textChanged.connect(self._show_state)
        self.add = QPushButton("Add")
        self.add.setProperty("role", "small")
        self.add.clicked.connect(self._add)
        self.close_button = QPushButton("Close")
        self.close_button.setProperty("role", "small")
        self.close_button.setToolTip("Close the form (Escape)")
        self.close_button.clicked.connect(self.closed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 6, 8, 6)
        layout.setSpacing(6)
        # Two lines: on one, neither a dimension nor what the value looks like would have room.
        for line in ((self.statements, self.dimension, self.field), (self.value, self.add, self.close_button)):
            row = QHBoxLayout()
            row.setSpacing(6)
            for widget in line:
                row.addWidget(widget, 0 if isinstance(widget, QPushButton) else 1)
            layout.addLayout(row)
        self._show_hint(self.field.currentText())
        self._show_state()

    def show_choices(self, statements: Sequence[str], dimensions: Sequence[str]) -> None:
        """Offers the statements and dimensions of the shown kernel."""
        _fill(self.statements, ["all", *statements])
        _fill(self.dimension, ["outermost", "innermost", *dimensions])

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape closes the form."""
        if event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)

    def _show_state(self) -> None:
        is_written = bool(self.value.text().strip())
        self.add.setEnabled(is_written)
        self.add.setToolTip("Add the entry (Return)" if is_written else "Add the entry: write its value first")

    def _show_hint(self, field: str) -> None:
        self.value.setPlaceholderText(FIELDS.get(field, ""))
        self.dimension.setEnabled(field != "rewrite")

    def _add(self) -> None:
        value, statements, field = self.value.text().strip(), self.statements.currentText(), self.field.currentText()
        if value and field == "rewrite":
            kind, *where = value.split()
            self.entry_requested.emit(" ".join((field, kind, statements, *where)))
        elif value:
            self.entry_requested.emit(f"{statements} @ {self.dimension.currentText()}: {field} {value}")
        if value:
            self.value.clear()


def _fill(choice: QComboBox, items: Sequence[str]) -> None:
    chosen = choice.currentText()
    choice.clear()
    choice.addItems(list(dict.fromkeys(items)))
    choice.setCurrentText(chosen)
