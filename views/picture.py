"""Widgets that paint one picture of their size, and tell what is under the pointer."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF
from PySide6.QtGui import QHelpEvent, QResizeEvent
from PySide6.QtWidgets import QToolTip, QWidget


class ResizedPicture(QWidget):
    """A picture that is laid out anew for every size; tool tips say what stands where the pointer rests."""

    def lay_out(self) -> None:
        """Lays the picture out for the present size."""
        raise NotImplementedError

    def tip_at(self, at: QPointF) -> str:
        """What stands at a place, in words; "" for nothing."""
        raise NotImplementedError

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Lays the picture out for the new size."""
        self.lay_out()

    def event(self, event: QEvent) -> bool:
        """A tool tip tells what is under the pointer."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.tip_at(QPointF(event.pos())), self)
            return True
        return super().event(event)
