"""Where the bars of a pipeline's chart stand."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

from PySide6.QtCore import QPointF, QRectF, QSizeF

from engine.documents.pipeline import ROWS, BarDoc, ChartDoc, FlightDoc
from engine.documents.units import kib

LABELS, RIGHT, TOP = 116.0, 20.0, 8.0
"""Pixels of the column that names the rows, and of the room around the chart."""
HEAD = 22.0
"""Height of the line that names the steps."""
ROW, BAR = 26.0, 21.0
"""Height of a row and of the bars in it."""
BREAK = 12.0
"""Between the rows of the block and those of the buffers, with their heading below it."""
HEADING = 20.0
SLACK = 20.0
"""Height of the line that says how early the selected tile arrives."""
AXIS = 26.0
NARROWEST = 3.0
"""Pixels of a bar that takes no time."""
TICKS = 6
OUTSIDE = 4.0
"""Pixels beyond the picture at which what lies further out is drawn: its words stay in the part that is seen."""
SHORTEST = 12.0
"""Cycles that the axis shows at least."""


@dataclass(frozen=True, slots=True)
class ChartMark:
    """What may be selected: one tile's bars and its flight, or one bar alone."""

    row: str
    step: int
    tile: int | None
    """None for a bar that is about no tile."""


class ChartGeometry:
    """The chart laid out in a widget of some size; span: the cycles of the picture that are seen, None for all."""

    def __init__(self, doc: ChartDoc, size: QSizeF, span: tuple[float, float] | None = None) -> None:
        self.doc = doc
        self.end = max([bar.end for bar in doc.bars] + [1.0])
        self.low, self.high = span or (0.0, self.end)
        self.left, self.width = LABELS, max(size.width() - LABELS - RIGHT, 50.0)
        self.stages = tuple(sorted({flight.stage for flight in doc.flights}))
        self.bottom = self.flight_top(len(self.stages)) + SLACK

    @property
    def height(self) -> float:
        """Pixels that everything needs."""
        return self.bottom + AXIS

    def x(self, cycles: float) -> float:
        """Where a time lies; times out of sight lie at its borders."""
        at = self.left + (cycles - self.low) / (self.high - self.low) * self.width
        return min(max(at, self.left - OUTSIDE), self.left + self.width + RIGHT + OUTSIDE)

    def cycles(self, x: float) -> float:
        """The time of the picture at a place."""
        return self.low + (x - self.left) / self.width * (self.high - self.low)

    def is_seen(self, start: float, end: float) -> bool:
        """Whether any of a stretch of time is in sight."""
        return self.x(end) > self.left - 1 and self.x(start) < self.left + self.width + RIGHT

    def clock_time(self, x: float) -> float | None:
        """The block's own time at a place, in cycles: what is folded away counts; None inside the fold."""
        cycles, fold = self.cycles(x), self.fold()
        if fold is None or cycles <= fold[0]:
            return cycles
        return None if cycles < fold[1] else cycles + self.doc.folded_cycles

    def span_around(self, x: float, factor: float) -> tuple[float, float]:
        """What is seen after a zoom that keeps the time at a place there; factor: part of the span that is left."""
        middle = self.cycles(x)
        return self.limit(middle - (middle - self.low) * factor, middle + (self.high - middle) * factor)

    def limit(self, low: float, high: float) -> tuple[float, float]:
        """A span as long as the given one, inside the picture."""
        length = min(max(high - low, SHORTEST), self.end)
        low = min(max(low, 0.0), self.end - length)
        return low, low + length

    def row_top(self, row: str) -> float:
        """Where a row of the block begins."""
        return TOP + HEAD + ROWS.index(row) * ROW

    @property
    def break_at(self) -> float:
        """The line between the block's rows and the buffers."""
        return TOP + HEAD + len(ROWS) * ROW + BREAK / 2

    def flight_top(self, number: int) -> float:
        """Where the row of a buffer begins."""
        return self.break_at + BREAK / 2 + HEADING + number * ROW

    def bar_box(self, bar: BarDoc) -> QRectF:
        """The box of a bar; one that takes no time is still seen."""
        left, right = self.x(bar.start), self.x(bar.end)
        return QRectF(left, self.row_top(bar.row) + (ROW - BAR) / 2, max(right - left, NARROWEST), BAR)

    def flight_box(self, flight: FlightDoc) -> QRectF:
        """From the copy of a tile to the end of its use."""
        top = self.flight_top(self.stages.index(flight.stage)) + (ROW - BAR) / 2
        return QRectF(self.x(flight.copied), top, self.x(flight.freed) - self.x(flight.copied), BAR)

    def bar_at(self, at: QPointF) -> BarDoc | None:
        """The bar under a point; the narrow ones first, which lie on others."""
        hits = [bar for bar in self.doc.bars if self.bar_box(bar).adjusted(-1, 0, 1, 0).contains(at)]
        return min(hits, key=lambda bar: bar.end - bar.start, default=None)

    def flight_at(self, at: QPointF) -> FlightDoc | None:
        """The tile's time in a buffer under a point."""
        return next((flight for flight in self.doc.flights if self.flight_box(flight).contains(at)), None)

    def begin_of(self, step: int) -> float | None:
        """When the arithmetic of a step begins."""
        return min((bar.start for bar in self.doc.bars if bar.step == step and bar.row == "compute"), default=None)

    def ticks(self) -> list[tuple[float, str]]:
        """Times of the axis with their text; beyond what is left out, with what was left out added."""
        cut, (before, after) = self.doc.folded_cycles, self.fold() or (self.high, self.high + 1)
        step = _nice((self.high - self.low) / TICKS)
        found = []
        for low, high, left_out in ((self.low, min(before, self.high), 0.0), (max(after, self.low), self.high, cut)):
            first, last = ceil((low + left_out) / step), floor((high + left_out) / step)
            found += [(number * step - left_out, f"{number * step:,.0f}") for number in range(first, last + 1)]
        return found

    def fold(self) -> tuple[float, float] | None:
        """Where in the picture steps are left out; None where none are."""
        first, count = self.doc.folded
        if not count:
            return None
        after = [bar.start for bar in self.doc.bars if bar.step >= first + count and bar.start > 0]
        before = [bar.end for bar in self.doc.bars if bar.step < first]
        return max(before), min(after)

    def stage_bytes(self) -> str:
        """Bytes of one stage of all buffers that are pipelined."""
        piped = [buffer for buffer in self.doc.shared if buffer.stages == self.doc.stages]
        return kib(sum(buffer.size for buffer in piped) / max(self.doc.stages, 1))


def _nice(size: float) -> float:
    """The next of 1, 2 or 5 times a power of ten."""
    power = 1.0
    while power * 10 <= size:
        power *= 10
    return next((factor * power for factor in (1, 2, 5) if factor * power >= size), 10 * power)
