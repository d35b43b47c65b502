"""Figures of two steps in one table for each origin: before, after, change."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter

from engine.documents.exploration import FigureDoc
from views.format import figure
from views.moves.rows import gain_text
from views.rows import RowState, TreeRow, draw_text
from views.shapes import paint_gain, paint_time_mark
from views.theme import Theme, face, semibold

COLUMN = 84
NEUTRAL = "compiled"
"""Origin of figures of which neither more nor less is a gain."""
WHOLE = ("", "B")
"""Units of counts, which are shown in full."""
TIME = "µs"
TIMES = ("predicted", "measured", "synthetic")


def figure_rows(figures: Sequence[FigureDoc]) -> list[TreeRow]:
    """One heading for each origin, and the figures of that origin under it."""
    origins = list(dict.fromkeys(each.origin for each in figures))
    return [
        TreeRow(origin, origin.capitalize(), origin, tuple(
            TreeRow(f"{origin} {each.name}", _line(each), each, (), 22) for each in figures if each.origin == origin
        ))
        for origin in origins
    ]  # fmt: skip


def change(each: FigureDoc) -> str:
    """How a figure changes, with the sign of a gain; "" where it cannot be said."""
    explains = each.origin == NEUTRAL or (each.origin in TIMES and each.unit != TIME)  # waves and occupancy
    if each.a is None or each.b is None or not each.a or explains:
        return ""
    part = (each.a - each.b) / each.a
    return gain_text(part if each.smaller_is_better else -part)


def paint_figure(painter: QPainter, row: TreeRow, state: RowState, theme: Theme) -> None:
    """One row of the table."""
    box, each = state.box, row.value
    if not isinstance(each, FigureDoc):
        painter.setFont(semibold())
        painter.setPen(theme.colour("text"))
        draw_text(painter, QRectF(box.x() + 28, box.y(), 140, box.height()), row.title)
        if row.key in TIMES:
            paint_time_mark(painter, QPointF(box.x() + 112, box.center().y()), row.key, theme)
        return
    changed = each.a != each.b
    right = box.right() - 12
    painter.setFont(face(11))
    paint_gain(painter, QRectF(right - COLUMN, box.y(), COLUMN, box.height()), change(each) if changed else "", theme)
    painter.setPen(theme.colour("text" if changed else "text-3"))
    for column, value in ((2, each.a), (1, each.b)):
        place = QRectF(right - (column + 1) * COLUMN, box.y(), COLUMN, box.height())
        draw_text(painter, place, _value(value, each.unit), right=True)
    draw_text(painter, QRectF(box.x() + 28, box.y(), right - 3 * COLUMN - box.x() - 28, box.height()), each.name)


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "—"
    shown = f"{value:,.0f}" if unit in WHOLE and value.is_integer() else figure(value)
    return f"{shown} {unit}".rstrip()


def _line(each: FigureDoc) -> str:
    """A row in words, for screen readers and the clipboard."""
    return f"{each.name}: {_value(each.a, each.unit)} → {_value(each.b, each.unit)} {change(each)}".rstrip()
