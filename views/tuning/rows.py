"""Rows of the smaller parts: what a rule left, where rounds went, why trials failed, what a dimension is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from engine.documents.ablation import AblationDoc, FlipDoc
from views.format import duration, percent
from views.moves.rows import gain_text
from views.rows import RowState, TreeRow, draw_text, text_width
from views.shapes import paint_author, paint_gain
from views.theme import Theme, code_face, face, semibold
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


def paint_cut(painter: QPainter, row: TreeRow, state: RowState, theme: Theme) -> None:
    """Name, bar, what is left, why."""
    cut, part, last = row.value
    _bar_row(painter, state.box, cut.rule, part, "accent" if last else "edge", theme)
    _figure_and_note(painter, state.box, f"{cut.left:,}", cut.because, theme, strong=last)


def paint_cause(painter: QPainter, row: TreeRow, state: RowState, theme: Theme) -> None:
    """Name, bar, count, an example; a wrong result is red."""
    cause, part = row.value
    _bar_row(painter, state.box, cause.kind, part, "wrong" if cause.wrong else "edge", theme)
    _figure_and_note(painter, state.box, f"{cause.count:,}", cause.example, theme)


def paint_share(painter: QPainter, row: TreeRow, state: RowState, theme: Theme) -> None:
    """Name, a tick for each round, their number, what they gained."""
    share, total = row.value
    box = state.box
    if share.refused:
        _paint_refused(painter, state, share, theme)
        return
    right = box.right() - PADDING
    painter.setFont(semibold() if state.marked else face())
    text = gain_text(share.gain) if share.gain > 0.0005 else "0 %"
    painter.setFont(face())
    paint_gain(painter, QRectF(right - GAIN, box.y(), GAIN, box.height()), text, theme)
    painter.setPen(theme.colour("text-2"))
    count = QRectF(right - GAIN - COUNT, box.y(), COUNT - 8, box.height())
    draw_text(painter, count, f"{len(share.rounds):,}", right=True)
    track = QRectF(PADDING + NAME + 8, box.y(), right - GAIN - COUNT - PADDING - NAME - 8, box.height())
    painter.setPen(QPen(theme.colour("line"), 1))
    middle = round(box.center().y()) + 0.5
    painter.drawLine(QPointF(track.x(), middle), QPointF(track.right(), middle))
    colour = theme.colour("accent" if state.marked else "text-3")
    width = min(max(track.width() / max(total, 1) - 1.0, 1.0), 4.0)
    places = np.asarray(share.rounds, float) - 1
    for x in np.unique(np.rint(track.x() + places / max(total - 1, 1) * (track.width() - width))):
        painter.fillRect(QRectF(x, box.center().y() - 6, width, 12), colour)
    painter.setFont(semibold() if state.marked else face(11 if state.depth else 12))
    painter.setPen(theme.colour("text-2" if state.depth else "text"))
    draw_text(painter, _name_box(state), share.title)


def _name_box(state: RowState) -> QRectF:
    """Where the name of a group or mapping stands: beside its chevron."""
    left = max(PADDING + (12.0 if state.depth else 0.0), state.left)
    return QRectF(left, state.box.y(), PADDING + NAME - left, state.box.height())


def _paint_refused(painter: QPainter, state: RowState, share: TrialShare, theme: Theme) -> None:
    """A mapping that is not searched, and why."""
    painter.setFont(face(11))
    painter.setPen(theme.colour("text-3"))
    draw_text(painter, _name_box(state), share.title)
    box, left = state.box, PADDING + NAME + 8
    draw_text(painter, QRectF(left, box.y(), max(box.right() - PADDING - left, 0.0), box.height()), share.refused)


def paint_importance(painter: QPainter, row: TreeRow, state: RowState, theme: Theme) -> None:
    """Name, bar, part of the variance, the best value."""
    found = row.value
    assert isinstance(found, Importance)
    _bar_row(painter, state.box, found.dimension.replace("_", " "), found.part, "edge", theme)
    note = f"best {found.best} of {found.values} values" if found.values > 1 else f"always {found.best}"
    _figure_and_note(painter, state.box, percent(found.part), note, theme)


def paint_flip(painter: QPainter, row: TreeRow, state: RowState, theme: Theme) -> None:
    """The author's mark and name, the entry, what stands there without it, what it gains."""
    flip, worth, without = row.value
    box = state.box
    right = box.right() - PADDING
    painter.setFont(face())
    paint_gain(painter, QRectF(right - WORTH, box.y(), WORTH, box.height()), worth, theme)
    painter.setFont(face(11))
    painter.setPen(theme.colour("text-3"))
    detail = min(text_width(painter, without), box.width() * 0.34)
    draw_text(painter, QRectF(right - WORTH - 8 - detail, box.y(), detail, box.height()), without, right=True)
    paint_author(painter, QPointF(PADDING + 6, box.center().y()), flip.author, theme)
    painter.setFont(face())
    painter.setPen(theme.colour("text-2"))
    draw_text(painter, QRectF(PADDING + 18, box.y(), 70, box.height()), flip.author)
    painter.setFont(code_face())
    painter.setPen(theme.colour("text"))
    left = PADDING + 92
    draw_text(painter, QRectF(left, box.y(), max(right - WORTH - 16 - detail - left, 0.0), box.height()), flip.entry)


def _bar_row(painter: QPainter, box: QRectF, name: str, part: float, token: str, theme: Theme) -> None:
    """A name and a bar of the token's colour; all but "edge" stand out."""
    painter.setFont(face() if token == "edge" else semibold())
    painter.setPen(theme.colour("wrong" if token == "wrong" else "text"))
    draw_text(painter, QRectF(PADDING, box.y(), NAME, box.height()), name)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.colour(token))
    track = _track(box)
    painter.drawRoundedRect(QRectF(track.x(), track.y(), max(track.width() * part, 1.5), BAR), 2, 2)


def _track(box: QRectF) -> QRectF:
    width = max((box.width() - NAME - FIGURE - 2 * PADDING) * BARS, 40.0)
    return QRectF(PADDING + NAME + 8, box.center().y() - BAR / 2, width, BAR)


def _figure_and_note(
    painter: QPainter, box: QRectF, value: str, note: str, theme: Theme, strong: bool = False
) -> None:
    left = _track(box).right() + 4
    painter.setFont(semibold() if strong else face())
    painter.setPen(theme.colour("text"))
    draw_text(painter, QRectF(left, box.y(), FIGURE, box.height()), value, right=True)
    painter.setFont(face(11))
    painter.setPen(theme.colour("text-3"))
    left += FIGURE + 10
    draw_text(painter, QRectF(left, box.y(), max(box.right() - PADDING - left, 0.0), box.height()), note)


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
