"""Figures of two steps in one table for each origin: before, after, change."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF

from engine.documents.exploration import FigureDoc
from views.format import figure
from views.moves.rows import gain_text
from views.rows import RowState, TreeRow
from views.shapes import gain_tint, paint_time_mark
from views.theme import face, semibold
from views.themed_painter import RIGHT, ThemedPainter

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


def paint_figure(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    """One row of the table."""
    box, each = state.box.adjusted(28, 0, -12, 0), row.value
    if not isinstance(each, FigureDoc):
        painter.text(box, row.title, font=semibold())
        if row.key in TIMES:
            paint_time_mark(painter, QPointF(box.x() + 84, box.center().y()), row.key)
        return
    changed = each.a != each.b
    told, tint = change(each) if changed else "", "text" if changed else "text-3"
    painter.text(box, told, gain_tint(told), face(11), RIGHT)
    for column, value in ((2, each.a), (1, each.b)):
        painter.text(box.adjusted(0, 0, -column * COLUMN, 0), _value(value, each.unit), tint, face(11), RIGHT)
    painter.text(box.adjusted(0, 0, -3 * COLUMN, 0), each.name, tint, face(11))


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "—"
    shown = f"{value:,.0f}" if unit in WHOLE and value.is_integer() else figure(value)
    return f"{shown} {unit}".rstrip()


def _line(each: FigureDoc) -> str:
    """A row in words, for screen readers and the clipboard."""
    return f"{each.name}: {_value(each.a, each.unit)} → {_value(each.b, each.unit)} {change(each)}".rstrip()
