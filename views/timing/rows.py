"""Rows of the timing panel: kernels by their part of the model's time, and the terms of one prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter

from engine.documents.model import GroupDoc, ModelDoc, TermDoc, Time
from views.format import duration, figure, origin_of, percent
from views.hierarchy import ambiguous_titles
from views.rows import RowState, TreeRow, draw_text, text_width
from views.shapes import paint_bar, paint_time_mark, paint_track
from views.tables import Cell
from views.theme import Theme, face, semibold

COLUMNS = (("×", 32), ("Predicted", 74), ("Measured", 76), ("Floor", 66), ("Share", 56))
"""Head and width of the columns right of the name."""


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A group with its times; `measured` may be synthetic and is then drawn dashed."""

    group: GroupDoc
    predicted: Time | None
    measured: Time | None


def kernel_rows(model: ModelDoc, predicted: Mapping[str, Time], measured: Mapping[str, Time]) -> tuple[TreeRow, ...]:
    """One row for each group, the dearest first."""
    groups = sorted(model.groups, key=lambda group: -group.share)
    ambiguous = ambiguous_titles(model)
    rows = []
    for group in groups:
        title = f"{group.title}  {group.name}" if group.title in ambiguous else group.title
        item = KernelRow(group, predicted.get(group.name, group.time), measured.get(group.name))
        rows.append(TreeRow(group.name, title, item, tip=_tip(title, item)))
    return tuple(rows)


def kernel_cells(row: TreeRow) -> dict[str, Cell]:
    """A kernel's row for a table; times in microseconds, those of different origins in different columns."""
    item = row.value
    assert isinstance(item, KernelRow)
    times = {f"{time.origin} µs": time.microseconds for time in (item.predicted, item.measured) if time}
    group = item.group
    return {
        "group": group.name, "what": group.title, "shape": group.shape, "times": group.instances, **times,
        "floor µs": group.floor, "share": group.share, "limited by": group.bound, "bytes": group.bytes,
        "operations": group.flops,
    }  # fmt: skip


def _tip(title: str, row: KernelRow) -> str:
    """Every time with where it comes from, one a line."""
    known = [time for time in (row.predicted, row.measured) if time is not None]
    return "\n".join((title, *(f"{duration(time.microseconds)} {origin_of(time)}" for time in known)))


def term_rows(terms: Sequence[TermDoc]) -> tuple[TreeRow, ...]:
    """One row for each term of a prediction; times get a bar against the largest."""
    largest = max((term.value for term in terms if _is_time(term)), default=0.0)
    rows: list[TreeRow] = []
    for number, term in enumerate(terms):
        part = term.value / largest if largest and _is_time(term) else 0.0
        rows.append(TreeRow(str(number), f"{term.name} {figure(term.value)} {term.unit}", (term, part), (), 26))
    return tuple(rows)


def paint_kernel(painter: QPainter, row: TreeRow, state: RowState, theme: Theme) -> None:
    """Paints a kernel's row, columns from the right."""
    item, box = row.value, state.box
    assert isinstance(item, KernelRow)
    right = box.right() - 12
    cells = (f"{item.group.instances}", item.predicted, item.measured, item.group.floor, item.group.share)
    for (head, width), cell in zip(reversed(COLUMNS), reversed(cells), strict=True):
        slot = QRectF(right - width, box.y(), width, box.height())
        painter.setFont(face())
        painter.setPen(theme.colour("text-3" if head in ("×", "Floor") else "text"))
        if cell is None or isinstance(cell, Time):
            _paint_time(painter, slot, cell, theme)
        else:
            draw_text(
                painter,
                slot,
                cell if isinstance(cell, str) else percent(cell) if head == "Share" else duration(cell),
                right=True,
            )
        right -= width
    painter.setFont(semibold() if state.marked else face())
    painter.setPen(theme.colour("text"))
    title = item.group.title
    draw_text(painter, QRectF(12, box.y(), right - 16, box.height()), title)
    after = 12 + text_width(painter, title) + 8
    painter.setFont(face())
    painter.setPen(theme.colour("text-3"))
    name = row.title.removeprefix(title).strip()
    if after + text_width(painter, name) <= right - 4:  # the tool tip has a name that is too long
        draw_text(painter, QRectF(after, box.y(), right - 4 - after, box.height()), name)


def paint_term(painter: QPainter, row: TreeRow, state: RowState, theme: Theme) -> None:
    """Paints a term: name, bar, value, why."""
    term, part = row.value
    box = state.box
    painter.setFont(face())
    painter.setPen(theme.colour("text"))
    draw_text(painter, QRectF(12, box.y(), 128, box.height()), term.name)
    track = QRectF(148, box.center().y() - 3.5, 90, 7)
    if part:
        paint_track(painter, track, theme)
        paint_bar(painter, track, part, theme.cost_colour(part), theme)
    painter.setPen(theme.colour("text"))
    value = f"{figure(term.value)} {term.unit}".strip()
    draw_text(painter, QRectF(244, box.y(), 76, box.height()), value, right=True)
    painter.setPen(theme.colour("text-3"))
    draw_text(painter, QRectF(334, box.y(), max(box.right() - 346, 0.0), box.height()), term.because)


def _is_time(term: TermDoc) -> bool:
    return term.unit == "µs"


def _paint_time(painter: QPainter, slot: QRectF, time: Time | None, theme: Theme) -> None:
    """A time with its origin's mark: ring, disc or dashed ring."""
    if time is None:
        painter.setPen(theme.colour("text-3"))
        draw_text(painter, slot, "—", right=True)
        return
    text = duration(time.microseconds)
    draw_text(painter, slot, text, right=True)
    left = slot.right() - painter.fontMetrics().horizontalAdvance(text) - 9
    paint_time_mark(painter, QPointF(left, slot.center().y() + 0.5), time.origin, theme)
