"""Asks for which machine, with which rounding, and at which sizes of its dimensions the open model is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from engine.target.machines import machine_titles
from views.panel import label

NUMERICS = {
    "arithmetic": ("16-bit floats", {
        "": "Rounded behind every operator (faithful)",
        "opmath": "Float32 inside a kernel, rounded where stored (opmath)",
    }),
    "tensor_cores": ("Float32 products", {"": "Exact operands", "tf32": "On tensor cores, operands rounded to tf32"}),
}  # fmt: skip
"""Key of `Recipe.numerics` -> its title, and what it may be, by the recipe's word."""
LARGEST = 2**31 - 1
"""The largest size that can be given here."""


class MachineDialog(QDialog):
    """A machine, and a size for each symbolic dimension; it stays open while one has no size, and stops nothing."""

    chosen = Signal(str, object, object)
    """A target's name, sizes by the name of their dimension, and numerics."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Target, numerics and dimensions")
        self.setMinimumWidth(440)
        self.target = QComboBox()
        self.target.setAccessibleName("Target")
        for name, title in machine_titles().items():
            self.target.addItem(title, name)
        self.rounding = {key: self._rounding_chooser(title, words) for key, (title, words) in NUMERICS.items()}
        """Key of the numerics -> what it may be."""
        self.sizes: dict[str, QSpinBox] = {}
        """Name of a dimension -> its size; 0 where it has none yet."""
        self.message = label("", "wrong-text", wrap=True)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.buttons.button(QDialogButtonBox.StandardButton.Ok).setText("Open again")
        self.buttons.accepted.connect(self._read)
        self.buttons.rejected.connect(self.reject)
        self._form = QFormLayout()
        self._form.addRow("Target", self.target)
        for chooser in self.rounding.values():
            self._form.addRow(chooser.accessibleName(), chooser)
        self._fixed_rows = self._form.rowCount()
        layout = QVBoxLayout(self)
        layout.addLayout(self._form)
        hint = "Advice is kept by group name; predicted times are those of the chosen machine and sizes."
        layout.addWidget(label(hint, "small-hint", wrap=True))
        layout.addWidget(self.message)
        layout.addWidget(self.buttons)
        self.setWindowModality(Qt.WindowModality.NonModal)

    @staticmethod
    def _rounding_chooser(title: str, words: Mapping[str, str]) -> QComboBox:
        chooser = QComboBox()
        chooser.setAccessibleName(title)
        for word, meaning in words.items():
            chooser.addItem(meaning, word)
        return chooser

    def ask(self, target: str, dimensions: Mapping[str, int], numerics: Mapping[str, str]) -> None:
        """Opens with the present choice."""
        self.target.setCurrentIndex(self.target.findData(target))
        for key, chooser in self.rounding.items():
            chooser.setCurrentIndex(max(0, chooser.findData(numerics.get(key, ""))))
        self._show_rows(dimensions, {})
        self.message.setText("")
        self.show()
        self.target.setFocus()

    def show_dimensions(self, places: Mapping[str, Sequence[str]]) -> None:
        """One row for each dimension of the model, with where it is used; sizes that were given stay."""
        given = {name: size.value() for name, size in self.sizes.items()}
        self._show_rows({name: given.get(name, 0) for name in places}, places)
        missing = next((size for size in self.sizes.values() if not size.value()), None)
        if missing is not None:
            missing.setFocus()
            missing.selectAll()
        self.adjustSize()

    def _show_rows(self, sizes: Mapping[str, int], places: Mapping[str, Sequence[str]]) -> None:
        while self._form.rowCount() > self._fixed_rows:
            self._form.removeRow(self._fixed_rows)
        self.sizes = {}
        for name, size in sizes.items():
            self._add_row(name, size, places.get(name, ()))

    def _add_row(self, name: str, value: int, axes: Sequence[str]) -> None:
        size = self.sizes[name] = QSpinBox()
        size.setRange(0, LARGEST)
        size.setSpecialValueText("no size")
        size.setValue(value)
        size.setAccessibleName(f"Size of {name}")
        size.setAccessibleDescription(", ".join(axes))
        row = QHBoxLayout()
        row.addWidget(size, 1)
        row.addWidget(label("; ".join(axes), "small-hint", wrap=True), 2)
        self._form.addRow(name, row)

    def _read(self) -> None:
        sizes = {name: size.value() for name, size in self.sizes.items()}
        missing = [name for name, size in sizes.items() if not size]
        if missing:
            self.message.setText(f"{missing[0]} has no size")
            self.sizes[missing[0]].setFocus()
            return
        self.accept()
        numerics = {key: word for key, chooser in self.rounding.items() if (word := chooser.currentData())}
        self.chosen.emit(self.target.currentData(), sizes, numerics)
