"""Painting a pipeline's chart: bars, flights of tiles through their buffers, stalls, hazards and the selection."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from engine.documents.pipeline import COMPUTE, COPY, ROWS, STORE, WAIT, BarDoc, FlightDoc
from views.format import figure
from views.pipeline.geometry import AXIS, HEAD, HEADING, RIGHT, ROW, TOP, ChartGeometry, ChartMark
from views.rows import draw_text, text_width
from views.theme import Theme, face, semibold

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

    def __init__(self, painter: QPainter, plan: ChartGeometry, look: ChartState, theme: Theme) -> None:
        self.painter, self.plan, self.look, self.theme = painter, plan, look, theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)

    def paint(self) -> None:
        """Everything, from the back to the front."""
        self._names()
        self.painter.save()
        self.painter.setClipRect(self.area)
        self._grid()
        self._fold()
        plan = self.plan
        for flight in plan.doc.flights:
            if plan.is_seen(flight.copied, flight.freed):
                self._flight(flight)
        for bar in plan.doc.bars:
            if plan.is_seen(bar.start, bar.end):
                self._bar(bar)
        self._selection()
        self.painter.restore()
        self._axis()

    @property
    def area(self) -> QRectF:
        """Where times are drawn."""
        return QRectF(self.plan.left - 1, 0, self.plan.width + RIGHT + 1, self.plan.bottom + 1)

    def _grid(self) -> None:
        """A line where the arithmetic of each step begins, with the step's name."""
        painter, plan, doc = self.painter, self.plan, self.plan.doc
        steps = sorted({bar.step for bar in doc.bars if bar.row == COMPUTE})
        begins = [begin for step in steps if (begin := plan.begin_of(step)) is not None]
        chosen = self.look.selected
        painter.setPen(QPen(self.theme.colour("line"), 1))
        for begin in begins:
            painter.drawLine(QLineF(plan.x(begin), TOP + HEAD, plan.x(begin), plan.bottom))
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
            is_chosen = chosen is not None and step == chosen.tile
            painter.setFont(semibold(10.5) if is_chosen else face(10.5))
            painter.setPen(self.theme.colour("accent" if is_chosen else "text-3"))
            middle, wide = (plan.x(begin) + plan.x(end)) / 2, text_width(painter, name)
            if middle - wide / 2 > right + 4 or is_chosen:
                painter.drawText(QRectF(middle - 30, TOP, 60, HEAD), Qt.AlignmentFlag.AlignCenter, name)
                right = middle + wide / 2

    def _names(self) -> None:
        painter, plan = self.painter, self.plan
        for row in ROWS:
            painter.setFont(face(11))
            painter.setPen(self.theme.colour("text"))
            draw_text(painter, QRectF(12, plan.row_top(row), plan.left - 16, ROW), TITLES[row])
        if not plan.stages:
            return
        painter.setPen(QPen(self.theme.colour("line"), 1))
        painter.drawLine(QLineF(0, plan.break_at, plan.left + plan.width + 40, plan.break_at))
        painter.setPen(self.theme.colour("text-3"))
        box = QRectF(12, plan.flight_top(0) - HEADING, 240, HEADING)
        draw_text(painter, box, f"Stages of {plan.stage_bytes()}")
        for number, stage in enumerate(plan.stages):
            painter.setPen(self.theme.colour("text"))
            painter.setFont(semibold(11))
            draw_text(painter, QRectF(12, plan.flight_top(number), 60, ROW), f"b{stage}")

    def _fold(self) -> None:
        """Two broken lines and the number of steps that are left out between them."""
        found = self.plan.fold()
        if found is None:
            return
        left, right = (self.plan.x(time) for time in found)
        pen = QPen(self.theme.colour("edge"), 1)
        pen.setDashPattern([2, 3])
        self.painter.setPen(pen)
        for x in (left + 1, right - 1):
            self.painter.drawLine(QLineF(x, TOP + HEAD, x, self.plan.bottom))
        count = f"{self.plan.doc.folded[1]:,} more"
        self.painter.setFont(face(10.5))
        self.painter.setPen(self.theme.colour("text-3"))
        text = count if text_width(self.painter, count) <= right - left - 2 else "…"
        self.painter.drawText(QRectF(left, TOP, right - left, HEAD), Qt.AlignmentFlag.AlignCenter, text)

    def _bar(self, bar: BarDoc) -> None:
        box, theme, painter = self.plan.bar_box(bar), self.theme, self.painter
        chosen = _is_of(bar, self.look.selected)
        outline = {"hazard": "wrong", "stall": "worse"}.get(bar.kind, "accent" if chosen else "edge")
        painter.setBrush(theme.colour("accent-bg" if chosen else "raised" if bar.row == COMPUTE else "panel"))
        painter.setPen(QPen(theme.colour(outline), 1.6 if chosen else 1))
        if bar.kind == "shared":
            pen = QPen(theme.colour("edge"), 1)
            pen.setDashPattern([1, 3])
            painter.setPen(pen)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            middle = box.center().y()
            painter.drawLine(QLineF(box.left() + 1, middle, box.right() - 1, middle))
            return
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), min(3.0, box.width() / 2), 3)
        if bar.kind in ("stall", "hazard"):
            hatch(painter, box, theme.colour("worse" if bar.kind == "stall" else "wrong"), 1.2)
        text = _text(bar)
        painter.setFont(semibold(10.5) if chosen else face(10.5))
        if bar.row == COPY:
            self._beside(bar, box, chosen)
            return
        if text == "stall":
            if box.width() >= text_width(painter, text) + 12:
                painter.setPen(theme.colour("worse"))
                self._on_hatch(box, text, theme.colour("accent-bg" if chosen else "panel"))
            return
        shorter = (f"b{bar.stage}", f"{bar.stage}") if bar.row == COMPUTE else ()
        for shown in (text, *shorter):
            if shown and box.width() >= text_width(painter, shown) + 3:
                painter.setPen(theme.colour("accent" if chosen else "text"))
                painter.drawText(box, Qt.AlignmentFlag.AlignCenter, shown)
                return

    def _beside(self, bar: BarDoc, box: QRectF, chosen: bool) -> None:
        """The tile and the stage of a copy, at its right: issuing takes too short to be written on."""
        later = [other.start for other in self.plan.doc.bars if other.row == COPY and other.start > bar.start]
        room = self.plan.x(min(later, default=self.plan.end)) - box.right() - 6
        self.painter.setPen(self.theme.colour("accent" if chosen else "text-2"))
        texts = ("once",) if bar.tile is None else (f"{bar.tile} · b{bar.stage}", f"b{bar.stage}")
        for text in texts:
            if text_width(self.painter, text) <= room:
                draw_text(self.painter, QRectF(box.right() + 3, box.top(), room + 3, box.height()), text)
                return

    def _flight(self, flight: FlightDoc) -> None:
        """A tile in its buffer: copied (hatched), there, in use (filled)."""
        painter, theme, plan = self.painter, self.theme, self.plan
        box = plan.flight_box(flight)
        chosen = self.look.selected is not None and flight.tile == self.look.selected.tile
        there, used = plan.x(flight.arrived), plan.x(flight.read)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("accent-bg" if chosen else "panel"))
        painter.drawRoundedRect(box, 3, 3)
        copying = QRectF(box.left(), box.top(), max(there - box.left(), 0), box.height())
        hatch(painter, copying, theme.colour("accent" if chosen else "edge"), 0.8)
        use = QRectF(used, box.top(), max(box.right() - used, 0), box.height())
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("accent-bg" if chosen else "raised"))
        painter.drawRect(use)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(theme.colour("accent" if chosen else "edge"), 1.6 if chosen else 1))
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
        painter.drawLine(QLineF(used, box.top() + 1, used, box.bottom() - 1))
        painter.setFont(semibold(10.5) if chosen else face(10.5))
        painter.setPen(theme.colour("accent" if chosen else "text"))
        for name in (f"use {flight.tile}", f"{flight.tile}"):
            if use.width() >= text_width(painter, name) + 6:
                painter.drawText(use, Qt.AlignmentFlag.AlignCenter, name)
                break
        if copying.width() >= text_width(painter, "copy") + 8:
            self._on_hatch(copying, "copy", theme.colour("accent-bg" if chosen else "panel"))

    def _axis(self) -> None:
        painter, plan = self.painter, self.plan
        y = plan.bottom
        painter.setPen(QPen(self.theme.colour("edge"), 1))
        painter.drawLine(QLineF(plan.left, y, plan.left + plan.width, y))
        painter.setFont(face(10.5))
        painter.setPen(self.theme.colour("text-3"))
        draw_text(painter, QRectF(12, y + 3, 80, AXIS - 6), "cycles")
        for time, text in plan.ticks():
            x = plan.x(time)
            painter.setPen(QPen(self.theme.colour("edge"), 1))
            painter.drawLine(QLineF(x, y, x, y + 4))
            painter.setPen(self.theme.colour("text-3"))
            wide = text_width(painter, text) + 4
            left = min(x - wide / 2, plan.left + plan.width - wide + 16)
            painter.drawText(QRectF(left, y + 5, wide, 16), Qt.AlignmentFlag.AlignCenter, text)

    def _selection(self) -> None:
        """A line where the selected tile is first used, and how early it was there."""
        chosen = self.look.selected
        flight = next((f for f in self.plan.doc.flights if chosen and f.tile == chosen.tile), None)
        painter, plan = self.painter, self.plan
        if flight is None or not plan.is_seen(flight.copied, flight.freed):
            return
        accent = self.theme.colour("accent")
        painter.setPen(QPen(accent, 1.4))
        used, there = plan.x(flight.read), plan.x(flight.arrived)
        painter.drawLine(QLineF(used, TOP + HEAD, used, plan.bottom))
        y = plan.bottom - 11
        slack = flight.read - flight.arrived
        text = f"arrives {figure(slack)} cycles before it is used" if slack > 0.5 else "is waited for"
        if slack > 0.5:
            painter.drawLine(QLineF(there, y, used, y))
            painter.drawLine(QLineF(there, y - 4, there, y + 4))
        painter.setFont(semibold(10.5))
        wide = text_width(painter, text) + 10
        left = used + 8 if used + 8 + wide < plan.left + plan.width + 16 else there - 8 - wide
        painter.fillRect(QRectF(left - 3, y - 8, wide, 16), self.theme.colour("panel"))
        painter.drawText(QRectF(left, y - 9, wide, 18), Qt.AlignmentFlag.AlignVCenter, text)

    def _on_hatch(self, box: QRectF, text: str, back: QColor) -> None:
        """A word on strokes, on a plate that keeps them off it."""
        wide = text_width(self.painter, text) + 8
        self.painter.fillRect(QRectF(box.center().x() - wide / 2, box.top() + 3, wide, box.height() - 6), back)
        self.painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)


def hatch(painter: QPainter, box: QRectF, colour: QColor, width: float) -> None:
    """Strokes from lower left to upper right inside a box."""
    painter.save()
    painter.setClipRect(box.adjusted(1, 1, -1, -1), Qt.ClipOperation.IntersectClip)
    painter.setPen(QPen(colour, width))
    x = box.left() - box.height() + (HATCH - box.left() % HATCH)
    while x < box.right():
        painter.drawLine(QPointF(x, box.bottom()), QPointF(x + box.height(), box.top()))
        x += HATCH
    painter.restore()


def _is_of(bar: BarDoc, place: ChartMark | None) -> bool:
    """Whether a bar belongs to what is selected: all of a tile, or the bar alone where it is no tile's."""
    if place is None:
        return False
    return bar.tile == place.tile if place.tile is not None else (bar.row, bar.step) == (place.row, place.step)


def _text(bar: BarDoc) -> str:
    """What stands in a cell: the tile, and the stage that holds it."""
    match bar.row:
        case "compute":
            return f"{bar.tile} · b{bar.stage}"
        case "store":
            return "store"
        case _:
            return "stall" if bar.kind == "stall" else ""
