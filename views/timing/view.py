"""The timing panel: all kernels, the terms of one prediction, live samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from engine.documents import KernelDoc, ModelDoc, Time
from views.format import duration, origin_of
from views.panel import Panel, bar, column_heads, label
from views.rows import RowView
from views.theme import Theme
from views.timing.plot import SamplePlot
from views.timing.rows import COLUMNS, kernel_rows, paint_kernel, paint_term, term_rows

KERNELS, PREDICTION, LIVE = "Kernels", "Prediction", "Live"
NO_GPU = "This machine has no GPU, so nothing can be measured here. Predicted times are hollow; everything else works."
NOT_YET = "Nothing measured yet. Press Time (F9) to measure the selected kernel."


class TimingView(Panel):
    """Times with their origin; `group_selected` carries the group of the clicked row."""

    group_selected = Signal(str)

    def __init__(self) -> None:
        super().__init__("Timing", (KERNELS, PREDICTION, LIVE))
        self.kernels = RowView("Kernels with their times", paint_kernel)
        self.kernels.chevrons = False
        self.kernels.row_selected.connect(lambda row: self.group_selected.emit(row.key))
        self.terms = RowView("Terms of the prediction", paint_term)
        self.terms.chevrons = False
        self.plot = SamplePlot()
        self.missing = label(NOT_YET, "hint", wrap=True)
        self.missing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.missing.setContentsMargins(32, 0, 32, 0)
        self.prediction_head, self._prediction = bar("subheader", 32)
        self._headline = label("", "title")
        self._note = label("", "hint")
        self._prediction.addWidget(self._headline)
        self._prediction.addWidget(self._note, 1)
        self._live = QStackedWidget()
        self._live.addWidget(self.missing)
        self._live.addWidget(self.plot)
        self.pages = QStackedWidget()
        self.pages.addWidget(_column(column_heads("Kernel", COLUMNS), self.kernels))
        self.pages.addWidget(_column(self.prediction_head, self.terms))
        self.pages.addWidget(self._live)
        self.tab_selected.connect(lambda name: self.pages.setCurrentIndex((KERNELS, PREDICTION, LIVE).index(name)))
        self.body_layout.addWidget(self.pages)
        self.show_empty("Times of the opened model's kernels appear here")

    def show_times(self, model: ModelDoc, predicted: Mapping[str, Time], measured: Mapping[str, Time]) -> None:
        """Replaces the table of kernels."""
        self.kernels.show_rows(kernel_rows(model, predicted, measured))
        self.show_body()

    def show_kernel(self, kernel: KernelDoc, title: str) -> None:
        """Shows what the prediction of a kernel consists of."""
        self._headline.setText(f"{title}   {duration(kernel.time.microseconds)}")
        self._note.setText(origin_of(kernel.time))
        self.terms.show_rows(term_rows(kernel.terms))

    def show_samples(self, title: str, samples: Sequence[float], origin: str) -> None:
        """Shows samples as they come."""
        self.plot.show_samples(title, samples, origin)
        self._live.setCurrentWidget(self.plot if samples else self.missing)

    def show_machine(self, gpu: str) -> None:
        """Says what is missing where nothing can be measured."""
        self.missing.setText(NOT_YET if gpu else NO_GPU)

    def show_selection(self, group: str) -> None:
        """Marks a group's row."""
        self.kernels.mark((group,) if group else ())

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        super().set_theme(theme)
        for view in (self.kernels, self.terms, self.plot):
            view.set_theme(theme)


def _column(*widgets: QWidget) -> QWidget:
    page = QWidget()
    layout = QVBoxLayout(page)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(0)
    for widget in widgets:
        layout.addWidget(widget, 1 if isinstance(widget, RowView) else 0)
    return page
