"""Painting a pipeline's chart: bars, flights of tiles through their buffers, stalls, hazards and the selection."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFont, QPen

from engine.documents.pipeline import COMPUTE, COPY, ROWS, STORE, WAIT, BarDoc, FlightDoc
from views.format import figure
from views.pipeline.geometry import AXIS, HEAD, HEADING, RIGHT, ROW, TOP, ChartGeometry, ChartMark
from views.theme import face, semibold
from views.themed_painter import ThemedPainter, Tint

TITLES = {COPY: "Copy, issued", WAIT: "Wait and barrier", COMPUTE: "Read and multiply", STORE: "Epilogue, store"}
HATCH = 5.0
"""Pixels between the strokes of a hatch."""


@dataclass(frozen=True, slots=True)
class ChartState:
    """What is selected and pointed at."""

    selected: ChartMark | None
    hovered: ChartMark | None


class ChartPainter:
    """Paints one chart with one theme."""

    def __init__(self, painter: ThemedPainter, plan: ChartGeometry, look: ChartState) -> None:
        self.painter, self.plan, self.look = painter, plan, look

    def paint(self) -> None:
        """Everything, from the back to the front."""
        plan, painter = self.plan, self.painter.qt
        self._names()
        painter.save()
        painter.setClipRect(self.area)
        self._grid()
        self._fold()
        for flight in plan.doc.flights:
            if plan.is_seen(flight.copied, flight.freed):
                self._flight(flight)
        for bar in plan.doc.bars:
            if plan.is_seen(bar.start, bar.end):
                self._bar(bar)
        self._selection()
        painter.restore()
        self._axis()

    @property
    def area(self) -> QRectF:
        """Where times are drawn."""
        return QRectF(self.plan.left - 1, 0, self.plan.width + RIGHT + 1, self.plan.bottom + 1)

    def _upright(self, x: float, tint: Tint | QPen, width: float = 1.0) -> None:
        """A line through all rows."""
        self.painter.line((x, TOP + HEAD), (x, self.plan.bottom), tint, width)

    def _grid(self) -> None:
        """A line where the arithmetic of each step begins, with the step's name."""
        plan, doc = self.plan, self.plan.doc
        steps = sorted({bar.step for bar in doc.bars if bar.row == COMPUTE})
        begins = [begin for step in steps if (begin := plan.begin_of(step)) is not None]
        for begin in begins:
            self._upright(plan.x(begin), "line")
        last = max((bar.end for bar in doc.bars if bar.row == COMPUTE), default=plan.end)
        fold = plan.fold()
        nexts = zip(begins, [*begins[1:], last], strict=True)
        ends = [fold[0] if fold and begin < fold[0] < end else end for begin, end in nexts]
        spans = list(zip(steps, begins, ends, strict=True))
        right = -1.0
        for step, begin, end in [(-1, 0.0, begins[0] if begins else 0.0), *spans, (doc.steps, last, plan.end)]:
            if end <= plan.low or begin >= plan.high:
                continue
            name = "fill" if step < 0 else "out" if step == doc.steps else f"{doc.loop}{step}"
            is_chosen = self.look.selected is not None and step == self.look.selected.tile
            font = semibold(10.5) if is_chosen else face(10.5)
            middle, wide = (plan.x(begin) + plan.x(end)) / 2, self.painter.width(name, font)
            if middle - wide / 2 > right + 4 or is_chosen:
                self.painter.word(QRectF(middle - 30, TOP, 60, HEAD), name, "accent" if is_chosen else "text-3", font)
                right = middle + wide / 2

    def _names(self) -> None:
        painter, plan = self.painter, self.plan
        for row in ROWS:
            painter.text(QRectF(12, plan.row_top(row), plan.left - 16, ROW), TITLES[row], font=face(11))
        if plan.stages:
            painter.line((0, plan.break_at), (plan.left + plan.width + 40, plan.break_at))
            box = QRectF(12, plan.flight_top(0) - HEADING, 240, HEADING)
            painter.text(box, f"Stages of {plan.stage_bytes()}", "text-3", face(11))
        for number, stage in enumerate(plan.stages):
            painter.text(QRectF(12, plan.flight_top(number), 60, ROW), f"b{stage}", font=semibold(11))

    def _fold(self) -> None:
        """Two broken lines and the number of steps that are left out between them."""
        found = self.plan.fold()
        if found is None:
            return
        left, right = (self.plan.x(time) for time in found)
        for x in (left + 1, right - 1):
            self._upright(x, _dashed_pen(self.painter, 2, 3))
        box, texts = QRectF(left, TOP, right - left, HEAD), (f"{self.plan.doc.folded[1]:,} more", "…")
        self.painter.fits(box, texts, "text-3", face(10.5), 2)

    def _bar(self, bar: BarDoc) -> None:
        box, painter, is_chosen = self.plan.bar_box(bar), self.painter, _is_of(bar, self.look.selected)
        if bar.kind == "shared":
            middle = box.center().y()
            painter.line((box.left() + 1, middle), (box.right() - 1, middle), _dashed_pen(painter, 1, 3))
            return
        kind = {"hazard": "wrong", "stall": "worse"}.get(bar.kind, "")
        back = "accent-bg" if is_chosen else "raised" if bar.row == COMPUTE else "panel"
        outline = kind or ("accent" if is_chosen else "edge")
        painter.box(box, outline, back, min(3.0, box.width() / 2), 1.6 if is_chosen else 1)
        if kind:
            paint_hatch(painter, box, kind, 1.2)
        font = semibold(10.5) if is_chosen else face(10.5)
        if bar.row == COPY:
            self._beside(bar, box, "accent" if is_chosen else "text-2", font)
        elif bar.kind == "stall" and bar.row != COMPUTE:
            self._on_hatch(box, "stall", "worse", "accent-bg" if is_chosen else "panel", font)
        else:
            texts = (f"{bar.tile} · b{bar.stage}", f"b{bar.stage}", f"{bar.stage}") if bar.row == COMPUTE else ()
            painter.fits(box, texts or ("store",) * (bar.row == STORE), "accent" if is_chosen else "text", font, 3)

    def _beside(self, bar: BarDoc, box: QRectF, tint: str, font: QFont) -> None:
        """The tile and the stage of a copy, at its right: issuing takes too short to be written on."""
        later = [other.start for other in self.plan.doc.bars if other.row == COPY and other.start > bar.start]
        room = self.plan.x(min(later, default=self.plan.end)) - box.right() - 6
        texts = ("once",) if bar.tile is None else (f"{bar.tile} · b{bar.stage}", f"b{bar.stage}")
        text = next((text for text in texts if self.painter.width(text, font) <= room), "")
        self.painter.text(QRectF(box.right() + 3, box.top(), room + 3, box.height()), text, tint, font)

    def _flight(self, flight: FlightDoc) -> None:
        """A tile in its buffer: copied (hatched), there, in use (filled)."""
        painter, plan, chosen = self.painter, self.plan, self.look.selected
        box, is_chosen = plan.flight_box(flight), chosen is not None and flight.tile == chosen.tile
        there, used = plan.x(flight.arrived), plan.x(flight.read)
        back, line, font = ("accent-bg", "accent", semibold(10.5)) if is_chosen else ("panel", "edge", face(10.5))
        copying = QRectF(box.left(), box.top(), max(there - box.left(), 0), box.height())
        use = QRectF(used, box.top(), max(box.right() - used, 0), box.height())
        painter.box(box, fill=back, radius=3)
        paint_hatch(painter, copying, line, 0.8)
        painter.area(use, back if is_chosen else "raised")
        painter.box(box, line, radius=3, width=1.6 if is_chosen else 1)
        painter.line((used, box.top() + 1), (used, box.bottom() - 1), line, 1.6 if is_chosen else 1)
        painter.fits(use, (f"use {flight.tile}", f"{flight.tile}"), "accent" if is_chosen else "text", font, 6)
        self._on_hatch(copying, "copy", "accent" if is_chosen else "text", back, font)

    def _axis(self) -> None:
        painter, plan, y = self.painter, self.plan, self.plan.bottom
        painter.line((plan.left, y), (plan.left + plan.width, y), "edge")
        painter.text(QRectF(12, y + 3, 80, AXIS - 6), "cycles", "text-3", face(10.5))
        for time, text in plan.ticks():
            x, wide = plan.x(time), painter.width(text, face(10.5)) + 4
            painter.line((x, y), (x, y + 4), "edge")
            left = min(x - wide / 2, plan.left + plan.width - wide + 16)
            painter.word(QRectF(left, y + 5, wide, 16), text, "text-3", face(10.5))

    def _selection(self) -> None:
        """A line where the selected tile is first used, and how early it was there."""
        chosen, painter, plan = self.look.selected, self.painter, self.plan
        flight = next((f for f in plan.doc.flights if chosen and f.tile == chosen.tile), None)
        if flight is None or not plan.is_seen(flight.copied, flight.freed):
            return
        used, there, y = plan.x(flight.read), plan.x(flight.arrived), plan.bottom - 11
        self._upright(used, "accent", 1.4)
        slack = flight.read - flight.arrived
        text = f"arrives {figure(slack)} cycles before it is used" if slack > 0.5 else "is waited for"
        if slack > 0.5:
            painter.line((there, y), (used, y), "accent", 1.4)
            painter.line((there, y - 4), (there, y + 4), "accent", 1.4)
        wide = painter.width(text, semibold(10.5)) + 10
        left = used + 8 if used + 8 + wide < plan.left + plan.width + 16 else there - 8 - wide
        painter.area(QRectF(left - 3, y - 8, wide, 16), "panel")
        painter.text(QRectF(left, y - 9, wide, 18), text, "accent", semibold(10.5))

    def _on_hatch(self, box: QRectF, text: str, tint: str, back: str, font: QFont) -> None:
        """A word on strokes, where it finds room, on a plate that keeps them off it."""
        wide = self.painter.width(text, font) + 8
        if box.width() >= wide + 4 * (text == "stall"):
            self.painter.area(QRectF(box.center().x() - wide / 2, box.top() + 3, wide, box.height() - 6), back)
            self.painter.word(box, text, tint, font)


def paint_hatch(painter: ThemedPainter, box: QRectF, tint: Tint, width: float) -> None:
    """Strokes from lower left to upper right inside a box."""
    painter.qt.save()
    painter.qt.setClipRect(box.adjusted(1, 1, -1, -1), Qt.ClipOperation.IntersectClip)
    x = box.left() - box.height() + (HATCH - box.left() % HATCH)
    while x < box.right():
        painter.line((x, box.bottom()), (x + box.height(), box.top()), tint, width)
        x += HATCH
    painter.qt.restore()


def _dashed_pen(painter: ThemedPainter, on: int, off: int) -> QPen:
    """A pen for lines that say that something is left out."""
    pen = QPen(painter.colour("edge"), 1)
    pen.setDashPattern([on, off])
    return pen


def _is_of(bar: BarDoc, place: ChartMark | None) -> bool:
    """Whether a bar belongs to what is selected: all of a tile, or the bar alone where it is no tile's."""
    if place is None:
        return False
    return bar.tile == place.tile if place.tile is not None else (bar.row, bar.step) == (place.row, place.step)

