"""Rows of the smaller parts: what a rule left, where rounds went, why trials failed, what a dimension is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF, QRectF

from engine.documents.ablation import AblationDoc, FlipDoc
from views.format import duration, percent
from views.moves.rows import gain_text
from views.rows import RowState, TreeRow
from views.shapes import gain_tint, paint_author
from views.theme import code_face, face, semibold
from views.themed_painter import RIGHT, ThemedPainter
from views.tuning.nodes import Cause, Cut, Importance, TrialShare

NAME = 116.0
"""Pixels of the name at the left."""
PADDING = 12.0
BAR, BARS = 13.0, 0.4
"""Pixels of a bar's height; part of the room beside name and figure that bars take, the rest is for notes."""
FIGURE = 62.0
GAIN, COUNT = 62.0, 46.0
"""Pixels of the columns of the rounds."""
WORTH = 76.0
"""Pixels of the column of what an entry gains."""


def cut_rows(cuts: Sequence[Cut]) -> tuple[TreeRow, ...]:
    """One row for each step of the funnel, on a logarithmic scale; the last is what was tried."""
    most = max((cut.left for cut in cuts), default=1)
    rows = []
    for number, cut in enumerate(cuts):
        part = math.log(cut.left + 1) / math.log(most + 1) if most else 0.0
        last = number == len(cuts) - 1
        tip = _tip(cut.rule, cut.because, cut.example)
        rows.append(TreeRow(f"{number}", f"{cut.rule} {cut.left:,}", (cut, part, last), (), 24, tip))
    return tuple(rows)


def cause_rows(causes: Sequence[Cause]) -> tuple[TreeRow, ...]:
    """One row for each kind of failure, the most frequent first."""
    most = max((cause.count for cause in causes), default=1)
    ordered = sorted(causes, key=lambda cause: (cause.wrong, -cause.count))
    return tuple(
        TreeRow(
            cause.kind, f"{cause.kind} {cause.count:,}", (cause, cause.count / most), (), 24,
            _tip(cause.kind, cause.example),
        )
        for cause in ordered
    )  # fmt: skip


def share_rows(shares: Sequence[TrialShare], total: int) -> tuple[TreeRow, ...]:
    """One row for each group, its mappings under it where it has several; total: rounds of the run."""
    return tuple(_share(share, total, share.key) for share in shares)


def importance_rows(found: Sequence[Importance]) -> tuple[TreeRow, ...]:
    """One row for each dimension, the most important first."""
    ordered = sorted(found, key=lambda each: -each.part)
    return tuple(TreeRow(each.dimension, f"{each.dimension} {percent(each.part)}", each, (), 26) for each in ordered)


def flip_rows(found: AblationDoc) -> tuple[TreeRow, ...]:
    """One row for each entry, the most worthwhile first."""
    return tuple(
        TreeRow(f"{number}", flip.entry, (flip, worth_of(flip), time_without(flip, found)), (), 26, _flip_tip(flip))
        for number, flip in enumerate(found.flips)
    )


def paint_cut(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    """Name, bar, what is left, why."""
    cut, part, last = row.value
    _bar_row(painter, state.box, cut.rule, part, "accent" if last else "edge")
    _figure_and_note(painter, state.box, f"{cut.left:,}", cut.because, strong=last)


def paint_cause(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    """Name, bar, count, an example; a wrong result is red."""
    cause, part = row.value
    _bar_row(painter, state.box, cause.kind, part, "wrong" if cause.wrong else "edge")
    _figure_and_note(painter, state.box, f"{cause.count:,}", cause.example)


def paint_share(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    """Name, a tick for each round, their number, what they gained; of a mapping that is not searched, why."""
    (share, total), box = row.value, state.box.adjusted(0, 0, -PADDING, 0)
    track = box.adjusted(PADDING + NAME + 8, 0, -GAIN - COUNT, 0)
    left = max(PADDING + (12.0 if state.depth else 0.0), state.left)
    name = QRectF(left, box.y(), PADDING + NAME - left, box.height())
    if share.refused:
        painter.text(name, share.title, "text-3", face(11))
        painter.text(box.adjusted(PADDING + NAME + 8, 0, 0, 0), share.refused, "text-3", face(11))
        return
    text = gain_text(share.gain) if share.gain > 0.0005 else "0 %"
    painter.text(box, text, gain_tint(text), side=RIGHT)
    painter.text(box.adjusted(0, 0, -GAIN - 8, 0), f"{len(share.rounds):,}", "text-2", side=RIGHT)
    middle = round(box.center().y()) + 0.5
    painter.line((track.x(), middle), (track.right(), middle))
    width = min(max(track.width() / max(total, 1) - 1.0, 1.0), 4.0)
    places = np.asarray(share.rounds, float) - 1
    for x in np.unique(np.rint(track.x() + places / max(total - 1, 1) * (track.width() - width))):
        painter.area(QRectF(x, box.center().y() - 6, width, 12), "accent" if state.marked else "text-3")
    font = semibold() if state.marked else face(11 if state.depth else 12)
    painter.text(name, share.title, "text-2" if state.depth else "text", font)


def paint_importance(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    """Name, bar, part of the variance, the best value."""
    found = row.value
    assert isinstance(found, Importance)
    _bar_row(painter, state.box, found.dimension.replace("_", " "), found.part, "edge")
    note = f"best {found.best} of {found.values} values" if found.values > 1 else f"always {found.best}"
    _figure_and_note(painter, state.box, percent(found.part), note)


def paint_flip(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    """The author's mark and name, the entry, what stands there without it, what it gains."""
    (flip, worth, without), box = row.value, state.box.adjusted(PADDING, 0, -PADDING, 0)
    painter.text(box, worth, gain_tint(worth), side=RIGHT)
    paint_author(painter, QPointF(box.x() + 6, box.center().y()), flip.author)
    painter.text(QRectF(box.x() + 18, box.y(), 70, box.height()), flip.author, "text-2")
    detail = min(painter.width(without, face(11)), state.box.width() * 0.34)
    box = box.adjusted(80, 0, -WORTH - 8, 0)
    painter.text(box.adjusted(box.width() - detail, 0, 0, 0), without, "text-3", face(11), RIGHT)
    painter.text(box.adjusted(0, 0, -detail - 8, 0), flip.entry, font=code_face())


def _bar_row(painter: ThemedPainter, box: QRectF, name: str, part: float, token: str) -> None:
    """A name and a bar of the token's colour; all but "edge" stand out."""
    font = face() if token == "edge" else semibold()
    painter.text(QRectF(PADDING, box.y(), NAME, box.height()), name, "wrong" if token == "wrong" else "text", font)
    track = _track(box)
    painter.box(QRectF(track.x(), track.y(), max(track.width() * part, 1.5), BAR), fill=token, radius=2)


def _track(box: QRectF) -> QRectF:
    width = max((box.width() - NAME - FIGURE - 2 * PADDING) * BARS, 40.0)
    return QRectF(PADDING + NAME + 8, box.center().y() - BAR / 2, width, BAR)


def _figure_and_note(painter: ThemedPainter, box: QRectF, value: str, note: str, strong: bool = False) -> None:
    left = _track(box).right() + 4
    painter.text(QRectF(left, box.y(), FIGURE, box.height()), value, font=semibold() if strong else face(), side=RIGHT)
    painter.text(box.adjusted(left + FIGURE + 10, 0, -PADDING, 0), note, "text-3", face(11))


def _share(share: TrialShare, total: int, key: str) -> TreeRow:
    told = share.parts if len(share.parts) > 1 or any(part.refused for part in share.parts) else ()
    parts = tuple(_share(part, total, f"{key}/{part.key}") for part in told)
    tip = _tip(share.title, "\n".join(share.because), share.refused)
    return TreeRow(key, share.title, (share, total), parts, 22 if not parts and "/" in key else 24, tip)


def worth_of(flip: FlipDoc) -> str:
    """What an entry gains, as part of the time without it."""
    if flip.microseconds is None or flip.gain is None:
        return "needed"
    part = flip.gain / flip.microseconds
    return gain_text(part) if abs(part) > 0.0005 else "no change"


def time_without(flip: FlipDoc, found: AblationDoc) -> str:
    """The times without and with an entry, or why there is none without it."""
    if flip.microseconds is None:
        return flip.why_not
    return f"{duration(flip.microseconds)} → {duration(found.microseconds)}"


def _flip_tip(flip: FlipDoc) -> str:
    before = f"instead: {flip.before}" if flip.before else "without it: nothing in its place"
    return _tip(flip.entry, flip.because, before, flip.why_not)


def _tip(*lines: str) -> str:
    return "\n".join(line for line in lines if line)
