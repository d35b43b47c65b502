"""One axis of a plot: its ticks, and how a value on it is written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetricsF

from views.plots.scale import AxisScale, log_ticks, ticks
from views.theme import Theme, face

TICK_ROOM = {"bottom": 56, "left": 34}
"""Pixels between ticks, at least."""
BETWEEN = 8
"""Pixels between two names."""


class Axis(pg.AxisItem):
    """Round ticks with the program's figures; grid lines in the theme's colour."""

    def __init__(self, side: str) -> None:
        super().__init__(side)
        self.show_scale(AxisScale("", 0, 1), False)
        self._unit = 1.0
        """Pixels of one between two values."""
        self.enableAutoSIPrefix(False)
        self.setStyle(
            tickAlpha=255, tickLength=0, tickTextOffset=7, autoExpandTextSpace=False, hideOverlappingLabels=False
        )

    def show_scale(self, scale: AxisScale, log: bool) -> None:
        """Another meaning of the values."""
        self.scale_shown, self.log = scale, log
        self.picture = None
        self.update()

    def show_theme(self, theme: Theme) -> None:
        """Colours and faces; the title is written by `Plot`."""
        self.setPen(pg.mkPen(theme.colour("edge")))
        self.setTickPen(pg.mkPen(theme.colour("line")))
        self.setTextPen(pg.mkPen(theme.colour("text-3")))
        self.setTickFont(face(10.5))

    def say(self, value: float) -> str:
        """A value of the axis with what it counts; "" for an axis of names."""
        scale = self.scale_shown
        if scale.named and not scale.unit:
            return ""
        if scale.whole:
            return f"{scale.title} {max(value, 0):,.0f}"
        unit = scale.unit or scale.title
        return f"{scale.tick(value)} {unit}" if unit else ""

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, list[float]]]:
        """Round values, so many as find room."""
        self._unit = size / max(maxVal - minVal, 1e-9)
        if self.scale_shown.named:
            return [(1.0, [at for at, _ in self.scale_shown.named if minVal <= at <= maxVal])]
        most = max(int(size / TICK_ROOM.get(self.orientation, 40)), 2)
        if self.log:
            found = log_ticks(minVal, maxVal, most)
        else:
            found = ticks(minVal, maxVal, most, self.scale_shown.whole)
        return [(1.0, found)]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        """Figures as everywhere in the program."""
        if self.scale_shown.named:
            names = dict(self.scale_shown.named)
            return self._in_rows([names[value] for value in values], values)
        plain = [10**value if self.log else value for value in values]
        if self.scale_shown.whole:
            return [f"{value:,.0f}" if value >= 0 else "" for value in plain]
        said = [self.scale_shown.tick(value) for value in plain]
        if len(set(said)) < len(said):  # a range so narrow that three digits tell no ticks apart
            places = max(1 - int(np.floor(np.log10(plain[1] - plain[0]))), 0)
            said = [f"{value:,.{places}f}" for value in plain]
        return said

    def _in_rows(self, names: list[str], values: Sequence[float]) -> list[str]:
        """Names as they stand under an axis; every second one row lower where they have no room side by side."""
        if not self.scale_shown.staggered or len(names) < 2:
            return names
        metrics = QFontMetricsF(face(10.5))
        room = float(np.diff(values).min()) * self._unit - BETWEEN
        if all(metrics.horizontalAdvance(name) <= room for name in names):
            return names
        fitting = [metrics.elidedText(name, Qt.TextElideMode.ElideRight, 2 * room + BETWEEN) for name in names]
        return [f"\n{name}" if number % 2 else name for number, name in enumerate(fitting)]
