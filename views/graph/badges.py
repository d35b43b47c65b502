"""What stands at the corners of boxes: the pin of what is fixed, the sign of what a comparison says."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from engine.documents.difference import ADDED, CHANGED, REMOVED
from views.hierarchy import GraphBox
from views.theme import Theme, semibold

CHANGES = {ADDED: ("stitch", "+"), REMOVED: ("tensorize", "−"), CHANGED: ("vectorize", "~")}
"""State of a comparison -> which category colour and which sign it has."""


def change_of(changes: Mapping[str, str], box: GraphBox) -> str:
    """State of what a box stands for; of a box that hides launches of several states "changed"."""
    if not changes:
        return ""
    keys = (box.operator,) if box.operator else tuple(node.id for node in box.nodes)
    states = {changes.get(key, "") for key in keys}
    return states.pop() if len(states) == 1 else CHANGED


def paint_change(painter: QPainter, at: QPointF, state: str, theme: Theme) -> None:
    """The sign of a change in a disc round a point."""
    colour, sign = CHANGES[state]
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.author(colour))
    painter.drawEllipse(at, 7.0, 7.0)
    painter.setPen(theme.colour("panel"))
    painter.setFont(semibold(11))
    painter.drawText(QRectF(at.x() - 7, at.y() - 8, 14, 15), Qt.AlignmentFlag.AlignCenter, sign)


def paint_pin(painter: QPainter, at: QPointF, theme: Theme) -> None:
    """The mark of what the user fixed: a pin whose head is the user's disc."""
    painter.setPen(QPen(theme.author("user"), 1.4))
    painter.drawLine(at + QPointF(0, 2), at + QPointF(0, 8))
    painter.setPen(QPen(theme.colour("panel"), 1.0))
    painter.setBrush(theme.author("user"))
    painter.drawEllipse(at, 4.2, 4.2)
