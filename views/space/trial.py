"""An axis being dragged over the iteration space: an interchange or a tile, with what it would mean."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QPen

from engine.documents.exploration import OrderDoc, SpaceDoc
from engine.documents.model import ProblemDoc
from views.shapes import paint_note
from views.space.geometry import ACROSS, INTO, SpaceGeometry
from views.space.painting import paint_axis_name
from views.theme import face
from views.themed_painter import ThemedPainter


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
    painter: ThemedPainter, plan: SpaceGeometry, trial: AxisDrag, answer: OrderDoc | ProblemDoc | None
) -> None:
    """The axis in hand, where it would go, and a note with the verdict."""
    outcome, sentence = verdict(trial, answer)
    line = Qt.PenStyle.SolidLine if outcome != "not reached" else Qt.PenStyle.DashLine
    pen = QPen(painter.colour({"honoured": "accent", "infeasible": "wrong"}.get(outcome, "edge")), 2, line)
    if trial.tile:
        _paint_tile_edges(painter, plan, trial, pen)
    others = (number for number in range(len(plan.doc.axes)) if number != trial.axis)
    for number in () if trial.tile else others if trial.target is None else (trial.target,):
        painter.ink(pen).drawRoundedRect(plan.label_box(number).adjusted(-4, -4, 4, 4), 6, 6)
    if trial.at is not None and not trial.tile:
        box = QRectF(trial.at.x() - 13, trial.at.y() - 10, 26, 20)
        paint_axis_name(painter, box, plan.doc.axes[trial.axis].name, True)
    _paint_verdict(painter, plan, trial, outcome, sentence)


def _paint_tile_edges(painter: ThemedPainter, plan: SpaceGeometry, trial: AxisDrag, pen: QPen) -> None:
    """The ends of the tiles as they would be."""
    area = plan.area
    for value in range(trial.tile, plan.shown[trial.axis] + 1, max(trial.tile, 1)):
        if trial.axis == ACROSS:
            x = plan.cells(value, 0).left()
            painter.line((x, area.top()), (x, area.bottom() + 8), pen)
        elif trial.axis < INTO:
            y = plan.cells(0, value).top()
            painter.line((area.left() - 8, y), (area.right(), y), pen)


def _paint_verdict(
    painter: ThemedPainter, plan: SpaceGeometry, trial: AxisDrag, outcome: str, sentence: str
) -> None:
    """What would be asked for and whether it is legal, beside the pointer or in the middle, never outside."""
    keys = "" if trial.at is not None or not trial.is_change else "Return applies, Esc drops it"
    title = trial.title(plan.doc)
    widest = max(painter.width(text, face(11)) for text in (title, sentence, keys))
    width = int(min(widest + 48, plan.area.width()))
    metrics = painter.qt.fontMetrics()
    wrapped = metrics.boundingRect(QRect(0, 0, width - 38, 400), Qt.TextFlag.TextWordWrap, sentence).height()
    height = 30.0 + wrapped + (18.0 if keys else 0.0)
    anchor = trial.at + QPointF(18, 16) if trial.at is not None else plan.area.center() - QPointF(width / 2, height / 2)
    right, bottom = plan.area.right() + 34 - width, plan.area.bottom() + 28 - height
    box = QRectF(max(min(anchor.x(), right), 6.0), max(min(anchor.y(), bottom), 6.0), width, height)
    words = QRectF(box.x() + 28, box.y() + 23, width - 36, wrapped + 2)
    paint_note(painter, box, words, outcome, (title, sentence))
    painter.text(QRectF(words.x(), words.bottom(), words.width(), 18 if keys else 0), keys, "text-3", face(11))
