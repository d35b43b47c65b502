"""Where the bars of a pipeline's chart stand."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSizeF

from engine.documents.pipeline import ROWS, BarDoc, ChartDoc, FlightDoc
from views.format import kibibytes

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


@dataclass(frozen=True, slots=True)
class ChartMark:
    """What may be selected: one tile's bars and its flight, or one bar alone."""

    row: str
    step: int
    tile: int | None
    """None for a bar that is about no tile."""


class ChartGeometry:
    """The chart laid out in a widget of some size."""

    def __init__(self, doc: ChartDoc, size: QSizeF) -> None:
        self.doc = doc
        self.end = max([bar.end for bar in doc.bars] + [1.0])
        self.left, self.width = LABELS, max(size.width() - LABELS - RIGHT, 50.0)
        self.stages = tuple(sorted({flight.stage for flight in doc.flights}))
        self.bottom = self.flight_top(len(self.stages)) + SLACK

    @property
    def height(self) -> float:
        """Pixels that everything needs."""
        return self.bottom + AXIS

    def x(self, cycles: float) -> float:
        """Where a time lies."""
        return self.left + cycles / self.end * self.width

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
        cut = self.doc.folded_cycles
        fold = self.fold()
        step = _nice(self.end / TICKS)
        found = []
        number = 0
        while number * step <= self.end + cut:
            time = number * step
            hidden = fold is not None and fold[0] < time < fold[1] + cut
            shown = time - cut if fold is not None and time >= fold[1] + cut else time
            if not hidden and shown <= self.end:
                found.append((shown, f"{time:,.0f}"))
            number += 1
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
        return kibibytes(sum(buffer.size for buffer in piped) / max(self.doc.stages, 1))


def _nice(size: float) -> float:
    """The next of 1, 2 or 5 times a power of ten."""
    power = 1.0
    while power * 10 <= size:
        power *= 10
    return next((factor * power for factor in (1, 2, 5) if factor * power >= size), 10 * power)
