"""What is known of a text in a strip above it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel

from views.panel import PADDING, FixedStrip, label


class ChipStrip(FixedStrip):
    """Chips from the left, one note at the right; chips that find no room are left out, the last ones first."""

    def __init__(self, height: int) -> None:
        super().__init__("subheader", height)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(PADDING, 0, PADDING, 0)
        self._row.setSpacing(6)
        self._row.setSizeConstraint(QHBoxLayout.SizeConstraint.SetNoConstraint)
        self._chips: list[QLabel] = []
        self._note = label("", "small-hint")
        self._row.addStretch(1)
        self._row.addWidget(self._note)

    def show_chips(self, chips: Sequence[QLabel], note: str) -> None:
        """Replaces the chips, the most important first."""
        for chip in self._chips:
            self._row.removeWidget(chip)
            chip.deleteLater()  # not at once: a signal of the chip may be what called this
        self._chips = list(chips)
        for number, chip in enumerate(chips):
            self._row.insertWidget(number, chip)
        self.show_note(note)

    def show_note(self, note: str) -> None:
        """Replaces what stands at the right."""
        self._note.setText(note)
        self._fit()

    def minimumSizeHint(self) -> QSize:
        """A strip may become too narrow for its chips."""
        return QSize(0, self.maximumHeight())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leaves chips out, or takes them in again."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        left = self.width() - 2 * PADDING - self._note.sizeHint().width()
        for chip in self._chips:
            left -= chip.sizeHint().width() + 6
            chip.setVisible(left >= 0)
