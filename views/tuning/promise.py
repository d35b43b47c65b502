"""What the model estimated before anything was compiled against what came of it: how far its order can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QRectF

from views.plots.mark_style import MarkStyle
from views.plots.scale import AxisScale
from views.plots.writing import Cells
from views.tuning.progress import TrialPlot, between
from views.tuning.trials import Numbers, Rows, Trials

if TYPE_CHECKING:
    from views.plots.chart import Chart
    from views.plots.plot import Plot

AIR = 0.06
"""Part of the axis between its ends and the outermost dots."""
NOTHING = "No trial has both an estimate and a time yet"
NO_ESTIMATE = "No trial has an estimate: logs of other tuners hold none"


class PromisePlot(TrialPlot):
    """A dot for each trial on two equal axes, logarithmic at first, and the line on which promises are kept."""

    def __init__(self) -> None:
        super().__init__("Estimates against results")
        self._origin, self._correlation = "predicted", float("nan")
        self.log = {"x", "y"}

    def show_trials(self, trials: Trials, rows: Rows, origin: str, correlation: float) -> None:
        """Replaces the dots.  correlation: Spearman's, NaN where there are too few trials."""
        known = np.isfinite(trials.promised[rows]) & np.isfinite(trials.microseconds[rows])
        self.trials, self.rows, self._origin, self._correlation = trials, rows[known], origin, correlation
        self.nothing = NO_ESTIMATE if origin == "published" else NOTHING
        self.setAccessibleDescription(self.headline())
        self.refresh()

    def headline(self) -> str:
        """What the dots say in a sentence."""
        if np.isnan(self._correlation):
            return self.nothing if not len(self.rows) else "too few trials for a rank correlation"
        said = f"rank correlation {self._correlation:.3f} (Spearman) over {len(self.rows):,} trials"
        return f"{said}; both are predictions" if self._origin == "predicted" else said

    def draw(self, chart: Chart) -> None:
        """Dots, and the line of equal times."""
        plot, (promised, came) = chart.plot(), self._sides()
        low, high = float(min(promised.min(), came.min())), float(max(promised.max(), came.max()))
        plot.show_title(self.headline())
        x = AxisScale("estimate before compiling, µs", low, high, inset=AIR)
        plot.show_axes(x, AxisScale(f"{self._origin} µs", low, high, inset=AIR), self.logs)
        plot.line("kept", np.array([low, high]), np.array([low, high]), "edge")
        plot.marks("trials", promised, came, MarkStyle("text-3", self._origin))
        plot.aim(promised, came, self.rows)
        self.ring(plot, came, promised)

    def keep(self, plot: Plot, region: QRectF) -> None:
        """Filters the table by the promises and times of a region."""
        promised = between("promised", plot, "bottom", region.left(), region.right())
        self.filter_requested.emit(f"{promised} {between('time', plot, 'left', region.top(), region.bottom())}")

    def table(self) -> tuple[tuple[str, ...], Cells]:
        """All trials that have both."""
        columns = (each.tolist() for each in (self.trials.number[self.rows], *self._sides()))
        return ("trial", "promised microseconds", "microseconds"), zip(*columns, strict=True)

    def _sides(self) -> tuple[Numbers, Numbers]:
        return self.trials.promised[self.rows], self.trials.microseconds[self.rows]
