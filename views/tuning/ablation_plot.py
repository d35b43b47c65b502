"""What each entry of the best recipe is worth: a bar for each, the most worthwhile at the top."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import Signal

from engine.documents.ablation import AblationDoc
from views.plots.frame import NONE, PlotFrame
from views.plots.mark_style import TOP, TextStyle
from views.plots.scale import BOTTOM, AxisScale
from views.plots.writing import Cells
from views.tuning.rows import time_without, worth_of

if TYPE_CHECKING:
    from views.plots.chart import Chart
    from views.plots.plot import Keys, Plot

ROW, HEAD = 34, 40
"""Pixels of an entry with its bar, and of the plot's head with its margins."""
BAR = 0.3
"""Height of a bar, of its row."""
NAME, BELOW = 0.22, -0.2
"""Where name and bar stand, in rows above the row's middle."""
AIR = 0.18
"""Part of the range at its ends, where figures stand beside the bars."""
SPOTS = 24
"""Places of a bar that the pointer finds."""


class AblationPlot(PlotFrame):
    """Bars to the right save time, those to the left cost some; hollow where the times are predicted."""

    entry_selected = Signal(int)
    """The place of an entry among those of the ablation."""

    def __init__(self) -> None:
        super().__init__("What each entry saves")
        self.found: AblationDoc | None = None
        self.selected = NONE

    def show_ablation(self, found: AblationDoc | None) -> None:
        """Replaces the bars."""
        self.found, self.selected = found, NONE
        said = [f"{flip.entry}: {worth_of(flip)}" for flip in found.flips] if found else []
        self.setAccessibleDescription("; ".join(said))
        self.refresh()

    def show_selection(self, entry: int) -> None:
        """Marks an entry."""
        self.selected = entry
        self.refresh()

    def has_data(self) -> bool:
        """Whether there is an entry."""
        return self.found is not None and bool(self.found.flips)

    def draw(self, chart: Chart) -> None:
        """As many entries as find room; the others are reached by a drag."""
        assert self.found is not None
        found, plot = self.found, chart.plot()
        gains = np.array([flip.gain or 0.0 for flip in found.flips])
        low, high = min(float(gains.min()), 0.0), max(float(gains.max()), 0.0)
        air = AIR * ((high - low) or 1.0)
        rows = min(len(gains), max((self.height() - BOTTOM - HEAD) // ROW, 1))
        below = f"drag for {len(gains) - rows} more" if rows < len(gains) else ""
        plot.show_title("1 entry" if len(gains) == 1 else f"{len(gains)} entries", below)
        x = AxisScale(f"{found.origin} µs saved", low - (air if low else 0.0), high + air)
        plot.show_axes(x, AxisScale("", 0.5 - rows, 0.5))
        plot.show_left(False)
        plot.axes["left"].setGrid(False)
        places = -np.arange(len(gains), dtype=float)
        for token, which in (("better", gains > 0), ("worse", gains < 0)):
            plot.bars(token, gains[which], places[which] + BELOW, BAR, token, filled=found.origin == "measured")
        plot.rule("nothing", 0.0, "edge", "", TOP)
        self._draw_names(plot, gains, places, x.low)
        keys = np.repeat(np.arange(len(gains)), SPOTS)
        plot.aim(np.linspace(0, gains, SPOTS).T.ravel(), np.repeat(places + BELOW, SPOTS), keys)

    def choose(self, keys: Keys) -> None:
        """Selects the entry whose bar was clicked."""
        if len(keys):
            self.entry_selected.emit(int(keys[0]))

    def describe(self, key: int) -> str:
        """An entry, the times without and with it, and why it stands there."""
        assert self.found is not None
        flip = self.found.flips[key]
        return "\n".join(filter(None, (flip.entry, time_without(flip, self.found), flip.because)))

    def table(self) -> tuple[tuple[str, ...], Cells]:
        """All entries."""
        heads = ("entry", "author", "microseconds saved", "microseconds without it", "instead", "why not", "origin")
        flips = self.found.flips if self.found else ()
        return heads, (
            (flip.entry, flip.author, flip.gain, flip.microseconds, flip.before, flip.why_not, self.found.origin)
            for flip in flips
            if self.found is not None
        )

    def _draw_names(self, plot: Plot, gains: np.ndarray, places: np.ndarray, left: float) -> None:
        """Each entry over its bar, what it is worth at the bar's end."""
        assert self.found is not None
        each = zip(self.found.flips, gains.tolist(), places.tolist(), strict=True)
        for number, (flip, gain, place) in enumerate(each):
            chosen = number == self.selected
            named = TextStyle("accent" if chosen else "text", strong=chosen)
            plot.text(f"name {number}", left, place + NAME, flip.entry, named)
            token = "better" if gain > 0 else "worse" if gain < 0 else "text-3"
            worth = TextStyle(token, (1 if gain < 0 else 0, 0.5))
            plot.text(f"worth {number}", gain, place + BELOW, worth_of(flip), worth)
