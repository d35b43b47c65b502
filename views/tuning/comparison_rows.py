"""Rows of a comparison of two runs: what each found of a group, and where their best programs differ."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF

from engine.documents.comparison import GroupComparison, GroupResult, ProgramDifference
from views.format import duration, plural
from views.moves.rows import gain_text
from views.rows import RowState, TreeRow
from views.shapes import gain_tint
from views.theme import code_face, face, semibold
from views.themed_painter import RIGHT, ThemedPainter
from views.tuning.nodes import ComparedGroup

PADDING, GAP = 12.0, 8.0
TIME, GAIN, NEEDED, VALUE = 62, 58, 74, 96
"""Pixels of the columns: a time, what is gained, trials of both runs, a value of a dimension."""
NOT_THERE = "–"


def compared_rows(groups: Sequence[ComparedGroup]) -> tuple[TreeRow, ...]:
    """One row for each pair of groups, in the order given."""
    return tuple(TreeRow(each.key, _speech(each), each, (), 24, _tip(each)) for each in groups)


def difference_rows(found: Sequence[ProgramDifference]) -> tuple[TreeRow, ...]:
    """One row for each dimension."""
    return tuple(TreeRow(each.name, _difference_said(each), each, (), 24) for each in found)


def paint_compared(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    """Title, both bests, what the shown run gains, the trials that each needed for the slower best."""
    group, box = row.value, state.box.adjusted(PADDING, 0, -PADDING, 0)
    assert isinstance(group, ComparedGroup)
    found = group.found
    gain = gain_of(found)
    cells = (
        (trials_of(found), "text-2", NEEDED), (gain, gain_tint(gain), GAIN),
        (best_of(found.other), "text-2", TIME), (best_of(found.own), "text", TIME),
    )  # fmt: skip
    for text, token, width in cells:
        painter.text(box, text, token, side=RIGHT)
        box = box.adjusted(0, 0, -width, 0)
    painter.text(box.adjusted(0, 0, -GAP, 0), group.title, "text", semibold() if state.marked else face())


def paint_difference(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    """The dimension, its value in either program."""
    one, box = row.value, state.box.adjusted(PADDING, 0, -PADDING, 0)
    assert isinstance(one, ProgramDifference)
    for text, token in ((one.other, "text-2"), (one.own, "text")):
        slot = QRectF(box.right() - VALUE + GAP, box.y(), VALUE - GAP, box.height())
        painter.text(slot, text or NOT_THERE, token, code_face(), RIGHT)
        box = box.adjusted(0, 0, -VALUE, 0)
    painter.text(box.adjusted(0, 0, -GAP, 0), one.name.replace("_", " "))


def best_of(result: GroupResult) -> str:
    """The best time of a run, or that it has none."""
    return NOT_THERE if result.best is None else duration(result.best)


def gain_of(found: GroupComparison) -> str:
    """What the shown run's best saves of the other's: "▼ 12 %"; a dash where they do not compare."""
    return NOT_THERE if found.ratio is None else gain_text(1 - 1 / found.ratio)


def trials_of(found: GroupComparison) -> str:
    """Trials of both runs until the slower best: "12 : 64"."""
    if found.own.reached is None or found.other.reached is None:
        return NOT_THERE
    return f"{found.own.reached:,} : {found.other.reached:,}"


def _speech(group: ComparedGroup) -> str:
    """A row for a screen reader."""
    found = group.found
    parts = (f"{best_of(found.own)} {found.own.origin}", f"{best_of(found.other)} {found.other.origin}", gain_of(found))
    return f"{group.title}: {', '.join(part.strip() for part in parts)}"


def _tip(group: ComparedGroup) -> str:
    found = group.found
    lines = [group.title, f"this run: {_result_said(found.own)}", f"other run: {_result_said(found.other)}"]
    if found.own.reached is not None and found.other.reached is not None:
        slower = max(found.own.best or 0.0, found.other.best or 0.0)
        each = f"{plural(found.own.reached, 'trial')} here and {found.other.reached:,} there"
        lines.append(f"{duration(slower)} or faster after {each}")
    return "\n".join([*lines, found.why_not] if found.why_not else lines)


def _result_said(result: GroupResult) -> str:
    if not result.origin:
        return "has no such group"
    counts = f"{plural(result.trials, 'trial')}, {result.failures:,} failed"
    if result.best is None or result.number is None:
        return f"no time yet, {counts}"
    return f"{duration(result.best)} {result.origin} at trial {result.number:,}; {counts}"


def _difference_said(one: ProgramDifference) -> str:
    return f"{one.name.replace('_', ' ')}: {one.own or 'none'}, other run {one.other or 'none'}"
