"""Asks for which GPU, and at which sizes of its symbolic dimensions, the open model is compiled."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QDialog, QDialogButtonBox, QFormLayout, QLineEdit, QVBoxLayout, QWidget

from app.session.dimensions import dimensions_of
from engine.support.errors import BadInput
from engine.target.devices import DEVICES
from views.panel import label


class MachineDialog(QDialog):
    """A GPU and sizes; it stays open while what was typed cannot be read, and stops nothing."""

    chosen = Signal(str, object)
    """A target's name, and sizes by the name of their dimension."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Target and dimensions")
        self.setMinimumWidth(440)
        self.target = QComboBox()
        self.target.setAccessibleName("Target")
        for name, device in DEVICES.items():
            self.target.addItem(device.title, name)
        self.dimensions = QLineEdit(placeholderText="batch=8, sequence=128")
        self.dimensions.setAccessibleName("Dimensions")
        self.message = label("", "wrong-text", wrap=True)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.buttons.button(QDialogButtonBox.StandardButton.Ok).setText("Open again")
        self.buttons.accepted.connect(self._read)
        self.buttons.rejected.connect(self.reject)
        form = QFormLayout()
        form.addRow("Target", self.target)
        form.addRow("Dimensions", self.dimensions)
        layout = QVBoxLayout(self)
        layout.addLayout(form)
        hint = "Advice is kept by group name; predicted times are those of the chosen GPU and sizes."
        layout.addWidget(label(hint, "small-hint", wrap=True))
        layout.addWidget(self.message)
        layout.addWidget(self.buttons)
        self.setWindowModality(Qt.WindowModality.NonModal)

    def ask(self, target: str, dimensions: Mapping[str, int]) -> None:
        """Opens with the present choice."""
        self.target.setCurrentIndex(self.target.findData(target))
        self.dimensions.setText(", ".join(f"{name}={size}" for name, size in dimensions.items()))
        self.message.setText("")
        self.show()
        self.dimensions.setFocus()

    def _read(self) -> None:
        bindings = [part.strip() for part in self.dimensions.text().split(",") if part.strip()]
        try:
            sizes = dimensions_of(bindings)
        except BadInput as error:
            self.message.setText(f"{error.subject.removeprefix('--dim ')}: {error.reason}")
            return
        self.accept()
        self.chosen.emit(self.target.currentData(), sizes)
