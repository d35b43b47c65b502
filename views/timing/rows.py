"""Rows of the timing panel: kernels by their part of the model's time, and the terms of one prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF

from engine.documents.model import GroupDoc, ModelDoc, TermDoc, Time
from views.format import duration, figure, origin_of, percent
from views.hierarchy import ambiguous_titles
from views.rows import RowState, TreeRow
from views.shapes import paint_bar, paint_time, paint_track
from views.tables import Cell
from views.theme import face, semibold
from views.themed_painter import RIGHT, ThemedPainter

COLUMNS = (("×", 26), ("Predicted", 70), ("Measured", 70), ("Floor", 62), ("Share", 54))
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


def paint_kernel(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    """Paints a kernel's row, columns from the right."""
    item, box = row.value, state.box.adjusted(12, 0, -12, 0)
    assert isinstance(item, KernelRow)
    group = item.group
    cells = (f"{group.instances}", item.predicted, item.measured, duration(group.floor), percent(group.share))
    for (head, width), cell in zip(reversed(COLUMNS), reversed(cells), strict=True):
        if isinstance(cell, Time):
            paint_time(painter, box, duration(cell.microseconds), cell.origin, "text")
        else:
            quiet = cell is None or head in ("×", "Floor")
            painter.text(box, cell or "—", "text-3" if quiet else "text", side=RIGHT)
        box = box.adjusted(0, 0, -width, 0)
    box = box.adjusted(0, 0, -4, 0)
    font = semibold() if state.marked else face()
    name = row.title.removeprefix(group.title).strip()
    rest = box.adjusted(painter.text(box, group.title, font=font) + 8, 0, 0, 0)
    if painter.width(name) <= rest.width():  # the tool tip has a name that is too long
        painter.text(rest, name, "text-3")


def paint_term(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    """Paints a term: name, bar, value, why."""
    (term, part), box = row.value, state.box
    painter.text(QRectF(12, box.y(), 128, box.height()), term.name)
    track = QRectF(148, box.center().y() - 3.5, 90, 7)
    if part:
        paint_track(painter, track)
        paint_bar(painter, track, part, painter.theme.cost_colour(part))
    value = f"{figure(term.value)} {term.unit}".strip()
    painter.text(QRectF(244, box.y(), 76, box.height()), value, side=RIGHT)
    painter.text(box.adjusted(334, 0, -12, 0), term.because, "text-3")


def _is_time(term: TermDoc) -> bool:
    return term.unit == "µs"

