"""Where the keyboard goes in a panel."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget


def keyboard_target(body: QWidget) -> QWidget:
    """The largest part of a panel that takes the focus; the panel itself where there is nothing to do in it."""
    usable = (part for part in body.findChildren(QWidget) if part.isVisible() and part.isEnabled())
    parts = (part for part in usable if part.focusPolicy() & Qt.FocusPolicy.TabFocus)
    return max(parts, key=lambda part: part.width() * part.height(), default=body)
