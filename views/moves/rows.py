"""Rows of the moves panel: what is possible with its predicted gain, and what is not with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRectF

from engine.documents.exploration import MoveDoc, MovesDoc
from views.format import duration, percent
from views.rows import RowState, TreeRow
from views.shapes import gain_tint, paint_time
from views.tables import Cell
from views.theme import face, semibold
from views.themed_painter import RIGHT, ThemedPainter

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
    return f"{'▼' if gain > 0 else '▲'} {percent(abs(gain))}" if abs(gain) >= 0.0005 else "0.0 %"


def tip(move: MoveDoc) -> str:
    """The tool tip: what the move says, or why it cannot be."""
    if move.time is None:
        return "\n".join(part for part in (move.why_not, move.witness) if part)
    return "\n".join(move.entries)


def paint_move(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    """One row of the panel."""
    box, move = state.box, row.value
    if isinstance(move, Heading):
        painter.text(box.adjusted(28, 0, -12, 0), row.title, "text-2")
        return
    assert isinstance(move, MoveDoc)
    if move.time is None:
        _paint_impossible(painter, move, box.adjusted(28, 0, -12, 0))
        return
    gain, time = box.adjusted(0, 0, -12, 0), box.adjusted(0, 0, -12 - GAIN, 0)
    painter.text(box.adjusted(12, 0, -PREDICTED - GAIN - 20, 0), move.title)
    paint_time(painter, time, duration(move.time.microseconds), move.time.origin, "text-2")
    told = gain_text(move.gain)
    painter.text(gain, told, gain_tint(told), semibold(), RIGHT)


def _paint_impossible(painter: ThemedPainter, move: MoveDoc, box: QRectF) -> None:
    """Title left, reason right; the title keeps at least half of the row."""
    title = min(painter.width(move.title) + 12, box.width() * 0.55)
    painter.text(QRectF(box.x(), box.y(), title, box.height()), move.title, "text-3")
    painter.text(box.adjusted(title, 0, 0, 0), move.why_not, "text-3", face(11), RIGHT)
