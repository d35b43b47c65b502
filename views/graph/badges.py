"""What stands at the corners of boxes: the pin of what is fixed, the sign of what a comparison says."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QPointF, QRectF

from engine.documents.difference import ADDED, CHANGED, REMOVED
from views.hierarchy import GraphBox
from views.theme import semibold
from views.themed_painter import ThemedPainter

CHANGES = {ADDED: ("stitch", "+"), REMOVED: ("tensorize", "−"), CHANGED: ("vectorize", "~")}
"""State of a comparison -> which category colour and which sign it has."""


def change_of(changes: Mapping[str, str], box: GraphBox) -> str:
    """State of what a box stands for; of a box that hides launches of several states "changed"."""
    if not changes:
        return ""
    keys = (box.operator,) if box.operator else tuple(node.id for node in box.nodes)
    states = {changes.get(key, "") for key in keys}
    return states.pop() if len(states) == 1 else CHANGED


def paint_change(painter: ThemedPainter, at: QPointF, state: str) -> None:
    """The sign of a change in a disc round a point."""
    colour, sign = CHANGES[state]
    painter.disc(at, 7.0, painter.theme.author(colour))
    painter.word(QRectF(at.x() - 7, at.y() - 8, 14, 15), sign, "panel", semibold(11))


def paint_pin(painter: ThemedPainter, at: QPointF, scale: float) -> None:
    """The mark of what the user pinned: a pin whose head is the user's disc, of about ten pixels at any scale."""
    size, user = min(max(1 / scale, 1.0), 2.0), painter.theme.author("user")
    painter.line((at.x(), at.y() + 2 * size), (at.x(), at.y() + 11 * size), user, 1.6 * size)
    painter.disc(at, 5.2 * size, user, "panel", 1.2 * size)
