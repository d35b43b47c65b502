"""A line of text to fill in, with an icon at its left."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QLineEdit

from views.icons import pixmap
from views.panel import PADDING, label
from views.theme import Theme
from views.themed import Themed

HEIGHT = 28
ICON = 15


class Field(QLineEdit, Themed):
    """A line edit of the height of all controls; `icon` tells what it is for."""

    def __init__(self, icon: str, hint: str, name: str) -> None:
        super().__init__()
        self._icon = icon
        self._picture = label()
        self._picture.setParent(self)
        self._picture.setGeometry(9, (HEIGHT - ICON) // 2, ICON, ICON)
        self.setTextMargins(ICON + 4, 0, 0, 0)
        self.setFixedHeight(HEIGHT)
        self.setPlaceholderText(hint)
        self.setAccessibleName(name)

    def sizeHint(self) -> QSize:
        """Wide enough for its hint."""
        usual = super().sizeHint()
        hint = self.fontMetrics().horizontalAdvance(self.placeholderText()) + self.textMargins().left() + 2 * PADDING
        return QSize(max(usual.width(), hint), usual.height())

    def show_theme(self, theme: Theme) -> None:
        """Tints the icon."""
        self._picture.setPixmap(pixmap(self._icon, theme.colours["text-3"], ICON))
