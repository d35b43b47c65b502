"""An interchange or a tile that is held over the picture and not let go yet, with what it would mean."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from engine.documents.exploration import OrderDoc, SpaceDoc
from engine.documents.model import ProblemDoc
from views.rows import draw_text
from views.shapes import paint_verdict
from views.space.geometry import ACROSS, INTO, SpaceGeometry
from views.space.painting import paint_axis_name
from views.theme import Theme, face, semibold


@dataclass(frozen=True, slots=True)
class AxisDrag:
    """An axis in hand: `target` where it would change places with another, `tile` where it would be tiled."""

    axis: int
    target: int | None = None
    tile: int = 0
    at: QPointF | None = None
    """The pointer; None by keyboard."""

    @property
    def is_change(self) -> bool:
        """Whether letting go would ask for something."""
        return self.target is not None or self.tile > 0

    def order(self, doc: SpaceDoc) -> tuple[str, ...]:
        """The axes outermost first as they would be; empty where their order stays."""
        if self.target is None:
            return ()
        a, b = doc.axes[self.axis].name, doc.axes[self.target].name
        return tuple({a: b, b: a}.get(name, name) for name in doc.order)

    def tiles(self, doc: SpaceDoc) -> tuple[tuple[str, int], ...]:
        """The tile as it would be."""
        return ((doc.axes[self.axis].name, self.tile),) if self.tile else ()

    def title(self, doc: SpaceDoc) -> str:
        """What letting go asks for."""
        name = doc.axes[self.axis].name
        if self.target is not None:
            return f"Interchange {name} and {doc.axes[self.target].name}"
        if self.tile:
            return f"Tile {name} by {self.tile}" if self.tile > 1 else f"No tile of {name}"
        return f"Drop {name} on another axis"


def verdict(trial: AxisDrag, answer: OrderDoc | ProblemDoc | None) -> tuple[str, str]:
    """The glyph and the sentence about what was tried."""
    if not trial.is_change:
        return "not reached", "The name of an axis interchanges, its handle tiles."
    if answer is None:
        return "not reached", "Looking whether that is legal …"
    if isinstance(answer, ProblemDoc):
        return "infeasible", answer.reason
    if answer.legal:
        return "honoured", f"Legal: {answer.because}" if answer.because else "Legal"
    return "infeasible", f"Illegal: {answer.because}"


def paint_trial(
    painter: QPainter, plan: SpaceGeometry, trial: AxisDrag, answer: OrderDoc | ProblemDoc | None, theme: Theme
) -> None:
    """The axis in hand, where it would go, and a note with the verdict."""
    outcome, sentence = verdict(trial, answer)
    colour = theme.colour({"honoured": "accent", "infeasible": "wrong"}.get(outcome, "edge"))
    line = Qt.PenStyle.SolidLine if outcome != "not reached" else Qt.PenStyle.DashLine
    painter.setPen(QPen(colour, 2, line))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    if trial.target is not None:
        painter.drawRoundedRect(plan.label_box(trial.target).adjusted(-4, -4, 4, 4), 6, 6)
    elif trial.tile:
        _paint_tile_edges(painter, plan, trial)
    else:
        for number in range(len(plan.doc.axes)):
            if number != trial.axis:
                painter.drawRoundedRect(plan.label_box(number).adjusted(-4, -4, 4, 4), 6, 6)
    if trial.at is not None and not trial.tile:
        box = QRectF(trial.at.x() - 13, trial.at.y() - 10, 26, 20)
        paint_axis_name(painter, box, plan.doc.axes[trial.axis].name, True, theme)
    _paint_note(painter, plan, trial, outcome, sentence, theme)


def _paint_tile_edges(painter: QPainter, plan: SpaceGeometry, trial: AxisDrag) -> None:
    """The ends of the tiles as they would be."""
    shown = plan.shown[trial.axis]
    for value in range(trial.tile, shown + 1, max(trial.tile, 1)):
        cell = plan.cells(value, 0) if trial.axis == ACROSS else plan.cells(0, value)
        if trial.axis == ACROSS:
            painter.drawLine(QPointF(cell.left(), plan.area.top()), QPointF(cell.left(), plan.area.bottom() + 8))
        elif trial.axis < INTO:
            painter.drawLine(QPointF(plan.area.left() - 8, cell.top()), QPointF(plan.area.right(), cell.top()))


def _paint_note(
    painter: QPainter, plan: SpaceGeometry, trial: AxisDrag, outcome: str, sentence: str, theme: Theme
) -> None:
    """What would be asked for and whether it is legal, beside the pointer or in the middle, never outside."""
    painter.setFont(face(11))
    keys = "" if trial.at is not None or not trial.is_change else "Return applies, Esc drops it"
    title = trial.title(plan.doc)
    metrics, widest = painter.fontMetrics(), int(plan.area.width())
    width = min(max(metrics.horizontalAdvance(text) for text in (title, sentence, keys)) + 48, widest)
    wrapped = metrics.boundingRect(QRect(0, 0, width - 38, 400), Qt.TextFlag.TextWordWrap, sentence).height()
    height = 28.0 + wrapped + (18.0 if keys else 0.0)
    anchor = trial.at + QPointF(18, 16) if trial.at is not None else plan.area.center() - QPointF(width / 2, height / 2)
    right, bottom = plan.area.right() + 34 - width, plan.area.bottom() + 28 - height
    left, top = max(min(anchor.x(), right), 6.0), max(min(anchor.y(), bottom), 6.0)
    box = QRectF(left, top, width, height)
    painter.setPen(QPen(theme.colour("wrong" if outcome == "infeasible" else "edge"), 1))
    painter.setBrush(theme.colour("panel"))
    painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 5, 5)
    paint_verdict(painter, QPointF(left + 16, top + 14), outcome, theme, 4.5)
    painter.setFont(semibold(11))
    painter.setPen(theme.colour("text"))
    draw_text(painter, QRectF(left + 30, top + 4, width - 38, 18), title)
    painter.setFont(face(11))
    painter.setPen(theme.colour("wrong" if outcome == "infeasible" else "text-2"))
    painter.drawText(QRectF(left + 30, top + 21, width - 38, wrapped + 2), Qt.TextFlag.TextWordWrap, sentence)
    if keys:
        painter.setPen(theme.colour("text-3"))
        draw_text(painter, QRectF(left + 30, top + 22 + wrapped, width - 38, 18), keys)
