"""A window of its own beside the main one, for a comparison."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from views.panel import Panel

FRAME = 40
"""Pixels that a desktop may put above a window; how many is known only once it is shown."""


class CompareWindow(QWidget):
    """Shows one panel; Escape closes it."""

    def __init__(self, parent: QWidget, title: str, view: Panel, size: tuple[int, int]) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setWindowTitle(f"{title} — Loomscope")
        room = self.screen().availableSize() - QSize(0, FRAME)
        self.resize(QSize(*size).boundedTo(room))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(view.header)
        layout.addWidget(view, 1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape closes the window."""
        if event.key() == Qt.Key.Key_Escape:
            self.close()
