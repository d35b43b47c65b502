"""The file whose programs the next search tries first: chosen in a dialog, and cleared."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QStyle, QStyleOptionButton, QWidget

from views.panel import icon_button

NOTHING = "Choose a file…"
LEAST_WIDTH = 160
"""Pixels: most of a name stays to be read in the narrowest window."""
TOLD = "File whose programs are tried first: a recipe, or records"


class PathButton(QPushButton):
    """As wide as there is room: the name of a file, without its middle where that is too long; the tool tip has the
    whole path."""

    def __init__(self) -> None:
        super().__init__()
        self.path = ""
        self.setProperty("role", "path")
        self.setAccessibleName(TOLD)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.show_path("")

    def show_path(self, path: str) -> None:
        """Shows a file; "" for none."""
        self.path = path
        self.setAccessibleDescription(path)
        self.setToolTip("\n".join(filter(None, (TOLD, path))))
        self._fit()

    def minimumSizeHint(self) -> QSize:
        """A line's height; no width."""
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Shows more or less of the name."""
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        """Another face or style makes it longer or shorter."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._fit()

    def _fit(self) -> None:
        option = QStyleOptionButton()
        self.initStyleOption(option)
        room = self.style().subElementRect(QStyle.SubElement.SE_PushButtonContents, option, self).width()
        text = Path(self.path).name or NOTHING
        self.setText(self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, room).replace("&", "&&"))


class StartFile(QWidget):
    """The button that leads to the dialog, and one that clears the choice where there is one."""

    choice_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.button, self.clear = PathButton(), icon_button("Start from no file")
        self.button.clicked.connect(self.choice_requested)
        self.clear.clicked.connect(self._forget)
        self.setMinimumWidth(LEAST_WIDTH)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2)
        row.addWidget(self.button, 1)
        row.addWidget(self.clear)
        self.show_path("")

    @property
    def path(self) -> str:
        """Of the file; "" for none."""
        return self.button.path

    def show_path(self, path: str) -> None:
        """Shows what was chosen."""
        self.button.show_path(path)
        self.clear.setVisible(bool(path))

    def _forget(self) -> None:
        """The button that cleared goes: the keyboard stays in the field."""
        self.button.setFocus(Qt.FocusReason.OtherFocusReason)
        self.show_path("")
