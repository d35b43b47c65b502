"""The tuning panel: progress of one group, promises against results, what its dimensions and entries are worth."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPushButton, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from engine.documents.ablation import AblationDoc
from engine.documents.model import ProblemDoc
from views.format import duration
from views.message import Message
from views.panel import Elided, Panel, bar
from views.plots.frame import PlotFrame
from views.rows import RowView
from views.tuning.ablation_plot import AblationPlot
from views.tuning.comparison import ComparisonView
from views.tuning.headline import PlotLegend, TuningHeadline
from views.tuning.nodes import GroupProgress, Importance
from views.tuning.parallel import ParallelPlot
from views.tuning.progress import ProgressPlot
from views.tuning.promise import PromisePlot
from views.tuning.rows import flip_rows, importance_rows, paint_flip, paint_importance
from views.tuning.trials import Rows, Trials

PROGRESS, PROMISE, DIMENSIONS, ABLATION, COMPARISON = TABS = (
    "Progress", "Estimate vs. result", "Dimensions", "Ablation", "Two runs",
)  # fmt: skip
NOTHING = "No run is shown. Start one for the open model, or open the log of a run, also of one still running."
BEGINNING = "The run has begun: it works out what there is to try. Its trials appear here as they come."
NO_SPREAD = "Nothing can be said about dimensions before several programs have a time"
NO_ABLATION = "Which entries of the best recipe matter: the kernel without each, predicted"


class TuningView(Panel):
    """Shows one group of a run; `trial_selected` carries the row of a trial."""

    trial_selected = Signal(int)
    filter_requested = Signal(str)
    """A filter of trials, from a region that was drawn."""
    start_requested = Signal()
    attach_requested = Signal()
    ablation_requested = Signal()
    dismissed = Signal()
    """What was refused has been read."""

    def __init__(self) -> None:
        super().__init__("Tuning", TABS)
        self.headline = TuningHeadline()
        self.progress_plot = ProgressPlot()
        self.promise = PromisePlot()
        self.parallel, self.bars = ParallelPlot(), AblationPlot()
        for plot in (self.progress_plot, self.promise, self.parallel):
            plot.trial_selected.connect(self.trial_selected)
            plot.filter_requested.connect(self.filter_requested)
        self.comparison = ComparisonView()
        self.importance = RowView("How much of the spread each dimension explains", paint_importance)
        self.ablation = RowView("What each entry of the best recipe is worth", paint_flip)
        for rows in (self.importance, self.ablation):
            rows.chevrons = False
        self.bars.entry_selected.connect(lambda entry: self.select_entry(f"{entry}"))
        self.ablation.row_selected.connect(lambda row: self.select_entry(row.key))
        self.ablate = QPushButton("Run ablation")
        self.ablate.setProperty("role", "small")
        self.ablate.clicked.connect(self.ablation_requested)
        self._importance_note, self._ablation_note = Elided("small-hint"), Elided("small-hint")
        self._importance_note.setText(NO_SPREAD)
        self._ablation_note.setText(NO_ABLATION)
        self.refused = Message((("Open tuning log…", self.attach_requested), ("Back", self.dismissed)))
        self.pages = QStackedWidget()
        self.pages.addWidget(self.progress_plot)
        self.pages.addWidget(self.promise)
        self.pages.addWidget(_under(self._importance_note, _beside(self.parallel, self.importance)))
        self.pages.addWidget(_under(self._ablation_note, _beside(self.bars, self.ablation), self.ablate))
        self.pages.addWidget(self.comparison)
        self.pages.addWidget(self.refused)
        self.tab_selected.connect(lambda name: self.pages.setCurrentIndex(TABS.index(name)))
        self.legend, self.log = PlotLegend(), QPushButton("Log")
        self.log.setProperty("role", "small")
        self.log.setCheckable(True)
        self.log.setToolTip("Times on a logarithmic axis, with the slowest trials in sight (L in the plot)")
        self.log.toggled.connect(self._set_log)
        self.progress_plot.scale_changed.connect(self._show_scale)
        self.comparison.plot.scale_changed.connect(self._show_scale)
        for widget in (self.legend, self.log):
            self.header_layout.addWidget(widget)
        self.tab_selected.connect(self._show_means)
        self.body_layout.addWidget(self.headline)
        self.body_layout.addWidget(self.pages, 1)
        self._ways = self.empty.add_button("Start tuning"), self.empty.add_button("Open tuning log…")
        """What gives a run to show where there is none."""
        for button, wish in zip(self._ways, (self.start_requested, self.attach_requested), strict=True):
            button.clicked.connect(wish)
        self.show_nothing(can_start=False)

    @property
    def tab(self) -> str:
        """The tab in front."""
        return next(name for name, button in self.tabs.items() if button.isChecked())

    def show_progress(self, trials: Trials, rows: Rows, summary: GroupProgress, total: int) -> None:
        """Replaces headline and dots; `total`: trials that the group may get, 0 where that is unknown."""
        self.headline.show_summary(summary)
        self.progress_plot.show_trials(trials, rows, summary, total)
        self._show_scale()
        self.headline.show()
        self.pages.setCurrentIndex(TABS.index(self.tab))
        self.show_body()

    def show_promise(self, trials: Trials, rows: Rows, origin: str, correlation: float) -> None:
        """Replaces the dots of promises and results."""
        self.promise.show_trials(trials, rows, origin, correlation)

    def show_dimensions(self, trials: Trials, rows: Rows, found: Sequence[Importance], origin: str) -> None:
        """Replaces the dimensions: all trials over them, and how much of the spread each explains."""
        self.parallel.show_trials(trials, rows, origin)
        self.parallel.setVisible(self.parallel.has_data())
        self.importance.show_rows(importance_rows(found))
        said = f"Part of the variance of the {origin} times (their logarithm) that each dimension explains alone"
        self._importance_note.setText(said if found else NO_SPREAD)

    def show_ablation(self, found: AblationDoc | None, note: str = "") -> None:
        """Replaces the entries of the best recipe; `note`: of which trial, or why there are none."""
        self.ablation.show_rows(flip_rows(found) if found else ())
        self.bars.show_ablation(found)
        self.bars.setVisible(self.bars.has_data())
        if found is not None:
            time = f"{duration(found.microseconds)} {found.origin}"
            note = f"{note}, {time}: each entry taken back by itself, and the kernel {found.origin} again"
        self._ablation_note.setText(note or NO_ABLATION)

    def select_entry(self, key: str) -> None:
        """Marks an entry of the ablation in plot and table."""
        self.ablation.mark((key,))
        self.bars.show_selection(int(key))

    def show_refusal(self, title: str, problem: ProblemDoc) -> None:
        """Says why records cannot be shown or a run not be started, and what to do."""
        self.refused.show_refusal(title, problem)
        self.headline.hide()
        self.pages.setCurrentWidget(self.refused)
        self.show_body()

    def show_nothing(self, can_start: bool, is_starting: bool = False) -> None:
        """No run is shown.

        can_start: whether there is a model to start one of.  is_starting: one has begun, of which nothing is known yet.
        """
        for button in self._ways:
            button.setVisible(not is_starting)
        self._ways[0].setEnabled(can_start)
        self.show_empty(BEGINNING if is_starting else NOTHING)

    @property
    def _upright(self) -> PlotFrame:
        """The plot in front that has a button for its axis of times."""
        return self.comparison.plot if self.tab == COMPARISON else self.progress_plot

    def _set_log(self, on: bool) -> None:
        if ("y" in self._upright.log) != on:
            self._upright.set_log("y", on)

    def _show_means(self, tab: str) -> None:
        """Of what is in the header that which belongs to a tab."""
        self.legend.setVisible(tab == PROGRESS)
        self.log.setVisible(tab in (PROGRESS, COMPARISON))
        self._show_scale()

    def _show_scale(self) -> None:
        """What stands at the edge depends on the axis."""
        summary = self.progress_plot.summary
        self.log.setChecked("y" in self._upright.log)
        self.legend.show_legend(summary.origin if summary else "", self.progress_plot.edge)

    def show_selection(self, row: int) -> None:
        """Marks a trial."""
        self.progress_plot.show_selection(row)
        self.promise.show_selection(row)
        self.parallel.show_selection(row)


def _beside(plot: QWidget, rows: QWidget) -> QSplitter:
    """A plot with its table at the right; hidden until it has data."""
    parts = QSplitter()
    parts.setHandleWidth(1)
    parts.setChildrenCollapsible(False)
    for part in (plot, rows):
        parts.addWidget(part)
    parts.setSizes([560, 440])
    plot.hide()
    return parts


def _under(note: QWidget, rows: QWidget, *buttons: QWidget) -> QWidget:
    """Rows under a strip with a note."""
    page = QWidget()
    layout = QVBoxLayout(page)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(0)
    strip, row = bar("subheader", 32)
    row.addWidget(note, 1)
    for button in buttons:
        row.addWidget(button)
    layout.addWidget(strip)
    layout.addWidget(rows, 1)
    return page
