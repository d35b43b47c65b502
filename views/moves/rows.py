"""Rows of the moves panel: what is possible with its predicted gain, and what is not with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter

from engine.documents.exploration import MoveDoc, MovesDoc
from views.format import duration
from views.rows import RowState, TreeRow, draw_text
from views.shapes import paint_gain, paint_time_mark
from views.tables import Cell
from views.theme import Theme, face, semibold

PREDICTED, GAIN = 92, 76
"""Widths of the columns right of the title."""
WHY_NOT = "why not"


@dataclass(frozen=True, slots=True)
class Heading:
    """Opens what is impossible."""

    count: int


def move_rows(moves: MovesDoc) -> tuple[TreeRow, ...]:
    """The possible moves, then the impossible ones under one heading."""
    possible = tuple(
        TreeRow(f"+{number} {move.title}", describe(move), move, (), 24, tip(move))
        for number, move in enumerate(moves.possible)
    )
    if not moves.impossible:
        return possible
    impossible = tuple(
        TreeRow(f"-{number} {move.title}", describe(move), move, (), 24, tip(move))
        for number, move in enumerate(moves.impossible)
    )
    count = len(impossible)
    return (*possible, TreeRow(WHY_NOT, f"Why not, {count}", Heading(count), impossible, 26))


def describe(move: MoveDoc) -> str:
    """A move on one line, for screen readers and the clipboard."""
    if move.time is None:
        return f"{move.title}: not possible, {move.why_not}"
    return f"{move.title}: {duration(move.time.microseconds)} {move.time.origin}, {gain_text(move.gain)}"


def move_cells(row: TreeRow) -> dict[str, Cell]:
    """A move's row for a table; the heading of what is impossible is none."""
    move = row.value
    if not isinstance(move, MoveDoc):
        return {}
    cells: dict[str, Cell] = {"move": move.title, "advice": "; ".join(move.entries)}
    if move.time is None:
        return {**cells, "why not": move.why_not}
    return {**cells, f"{move.time.origin} µs": move.time.microseconds, "gain": move.gain}


def gain_text(gain: float) -> str:
    """A gain with its sign: "▼ 6.0 %" saves time, "▲ 1.1 %" costs time, "0.0 %" changes nothing."""
    size = abs(gain) * 100
    if size < 0.05:
        return "0.0 %"
    return f"{'▼' if gain > 0 else '▲'} {size:.1f} %" if size < 99.95 else f"{'▼' if gain > 0 else '▲'} {size:.0f} %"


def tip(move: MoveDoc) -> str:
    """The tool tip: what the move says, or why it cannot be."""
    if move.time is None:
        return "\n".join(part for part in (move.why_not, move.witness) if part)
    return "\n".join(move.entries)


def paint_move(painter: QPainter, row: TreeRow, state: RowState, theme: Theme) -> None:
    """One row of the panel."""
    box = state.box
    if isinstance(row.value, Heading):
        painter.setFont(face())
        painter.setPen(theme.colour("text-2"))
        draw_text(painter, QRectF(28, box.y(), box.width() - 40, box.height()), row.title)
        return
    move = row.value
    assert isinstance(move, MoveDoc)
    if move.time is None:
        _paint_impossible(painter, move, box, theme)
        return
    right = box.right() - 12
    painter.setFont(face())
    painter.setPen(theme.colour("text"))
    draw_text(painter, QRectF(12, box.y(), right - PREDICTED - GAIN - 20, box.height()), move.title)
    time = QRectF(right - GAIN - PREDICTED, box.y(), PREDICTED, box.height())
    text = duration(move.time.microseconds)
    painter.setPen(theme.colour("text-2"))
    draw_text(painter, time, text, right=True)
    left = time.right() - painter.fontMetrics().horizontalAdvance(text) - 9
    paint_time_mark(painter, QPointF(left, box.center().y() + 0.5), move.time.origin, theme)
    painter.setFont(semibold())
    paint_gain(painter, QRectF(right - GAIN, box.y(), GAIN, box.height()), gain_text(move.gain), theme)


def _paint_impossible(painter: QPainter, move: MoveDoc, box: QRectF, theme: Theme) -> None:
    """Title left, reason right; the title keeps at least half of the row."""
    painter.setFont(face())
    painter.setPen(theme.colour("text-3"))
    room = box.width() - 28 - 12
    wanted = painter.fontMetrics().horizontalAdvance(move.title) + 12
    title = min(float(wanted), room * 0.55)
    draw_text(painter, QRectF(28, box.y(), title, box.height()), move.title)
    painter.setFont(face(11))
    draw_text(painter, QRectF(28 + title, box.y(), room - title, box.height()), move.why_not, right=True)
