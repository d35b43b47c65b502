"""Over the plots: the shown group in one line, and what the marks of the plot mean."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, QRectF, QSize
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from views.format import duration, figure, plural
from views.moves.rows import gain_text
from views.shapes import gain_tint, paint_pill_in, paint_time_mark
from views.theme import face, semibold
from views.themed import Themed
from views.themed_painter import ThemedPainter
from views.tuning.nodes import GroupProgress

HEIGHT, PADDING, GAP = 32, 12.0, 16.0


class TuningHeadline(QWidget, Themed):
    """What finds no room is left out, the last things first; the title is cut before that."""

    def __init__(self) -> None:
        super().__init__()
        self._summary: GroupProgress | None = None
        self.setFixedHeight(HEIGHT)
        self.setAccessibleName("The group that is tuned")

    def show_summary(self, summary: GroupProgress | None) -> None:
        """Replaces what is said."""
        self._summary = summary
        said = " · ".join(" ".join(filter(None, pair)) for pair in self.facts())
        self.setAccessibleDescription(said)
        self.setToolTip(said)
        self.update()

    def facts(self) -> list[tuple[str, str]]:
        """(name, value) of everything that is said after the title."""
        found = self._summary
        if found is None:
            return []
        best = duration(found.best) if math.isfinite(found.best) else "none yet"
        facts = [("Best", best)]
        if found.gain:
            facts.append(("", gain_text(found.gain)))
        if found.before:
            facts.append(("Start", duration(found.before)))
        rounds = f" in {plural(found.rounds, 'round')}" if found.rounds else ""
        facts.append(("Trials", f"{found.trials:,}{rounds}"))
        facts.append(("Failed", f"{found.failed:,}"))
        return facts

    def paintEvent(self, event: QPaintEvent) -> None:
        """Title and facts from the left, the origin in an outlined chip at the right."""
        if self.theme is None or self._summary is None:
            return
        painter, origin = ThemedPainter(self, self.theme), self._summary.origin
        painter.area(QRectF(0, HEIGHT - 1, self.width(), 1), "line")
        width = painter.width(origin, face(10.5)) + 26
        chip = QRectF(self.width() - PADDING - width, 7, width, 18)
        paint_pill_in(painter, chip, "", outlined=True)
        paint_time_mark(painter, QPointF(chip.x() + 11, chip.center().y()), origin)
        painter.text(chip.adjusted(18, 0, 2, 0), origin, "text-2", face(10.5))
        box = QRectF(PADDING, 0, chip.x() - GAP - PADDING, HEIGHT)
        box = box.adjusted(painter.text(box, self._summary.title, font=semibold()) + GAP, 0, 0, 0)
        for name, value in self.facts():
            font, after = semibold() if name in ("Best", "") else face(), painter.width(name) + 6 if name else 0.0
            if after + painter.width(value, font) > box.width():
                return
            painter.text(box, name, "text-3")
            box = box.adjusted(after, 0, 0, 0)
            box = box.adjusted(painter.text(box, value, gain_tint(value, "text"), font) + GAP, 0, 0, 0)


class PlotLegend(QWidget, Themed):
    """A step, a dot and an arrow with their names, at the right of the header; it gives way to the tabs."""

    def __init__(self) -> None:
        super().__init__()
        self._origin, self._edge = "", 0.0
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("What the marks mean")

    def show_legend(self, origin: str, edge: float) -> None:
        """Replaces what is said.  edge: microseconds beyond which trials stand at the edge; 0 where none does."""
        if (origin, edge) != (self._origin, self._edge):
            self._origin, self._edge = origin, edge
            self.setAccessibleDescription(", ".join(self.texts()))
            self.update()

    def texts(self) -> list[str]:
        """The names of the marks."""
        return ["best so far", "trial", *([f"above {figure(self._edge)}"] if self._edge else [])]

    def sizeHint(self) -> QSize:
        """Room for all three."""
        return QSize(250, 22)

    def minimumSizeHint(self) -> QSize:
        """None: the tabs come first."""
        return QSize(0, 22)

    def paintEvent(self, event: QPaintEvent) -> None:
        """From the right; what finds no room is left out."""
        if self.theme is None or not self._origin:
            return
        painter, box = ThemedPainter(self, self.theme), QRectF(0, 0, self.width() - 8, self.height())
        for number, text in reversed(list(enumerate(self.texts()))):
            box = box.adjusted(0, 0, -painter.width(text, face(11)), 0)
            if box.width() < 24:
                return
            painter.text(QRectF(box.right(), 0, self.width(), box.height()), text, "text-2", face(11))
            self._mark(painter, number, QPointF(box.right() - 9, box.height() / 2))
            box = box.adjusted(0, 0, -34 if number == 1 else -26, 0)

    def _mark(self, painter: ThemedPainter, number: int, at: QPointF) -> None:
        x, y = at.x(), at.y()
        if number == 0:
            step = ((x - 14, y - 4), (x - 5, y - 4), (x - 5, y + 4), (x + 4, y + 4))
            painter.strokes(step, tint="accent", width=2)
        elif number == 1:
            paint_time_mark(painter, at, self._origin)
        else:
            painter.shape([at + QPointF(-3.4, 3), at + QPointF(0, -3.4), at + QPointF(3.4, 3)], "text-2")
