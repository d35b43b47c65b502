"""The timing panel: all kernels, the terms of one prediction, live samples, the roofline."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from engine.documents.model import KernelDoc, ModelDoc, Time
from views.format import duration, origin_of
from views.panel import Panel, bar, column_heads, label
from views.roofline.nodes import Roofline
from views.roofline.view import RooflinePage
from views.rows import RowView
from views.timing.page import LivePage
from views.timing.rows import COLUMNS, kernel_cells, kernel_rows, paint_kernel, paint_term, term_rows

KERNELS, PREDICTION, LIVE, ROOFLINE = TABS = ("Kernels", "Prediction", "Live", "Roofline")


class TimingView(Panel):
    """Times with their origin; `group_selected` carries the group of the clicked row."""

    group_selected = Signal(str)

    def __init__(self) -> None:
        super().__init__("Timing", TABS)
        self.kernels = RowView("Kernels with their times", paint_kernel)
        self.kernels.cells = kernel_cells
        self.kernels.chevrons = False
        self.kernels.row_selected.connect(lambda row: self.group_selected.emit(row.key))
        self.terms = RowView("Terms of the prediction", paint_term)
        self.terms.chevrons = False
        self.live = LivePage()
        self.roofline = RooflinePage()
        self.roofline.group_selected.connect(self.group_selected)
        self.prediction_head, self._prediction = bar("subheader", 32)
        self._headline = label("", "title")
        self._note = label("", "hint")
        self._prediction.addWidget(self._headline)
        self._prediction.addWidget(self._note, 1)
        self.pages = QStackedWidget()
        self.pages.addWidget(_column(column_heads("Kernel", COLUMNS), self.kernels))
        self.pages.addWidget(_column(self.prediction_head, self.terms))
        self.pages.addWidget(self.live)
        self.pages.addWidget(self.roofline)
        self.tab_selected.connect(lambda name: self.pages.setCurrentIndex(TABS.index(name)))
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

    def show_roofline(self, roofline: Roofline) -> None:
        """Replaces the points of all kernels."""
        self.roofline.show_roofline(roofline)

    def show_selection(self, group: str) -> None:
        """Marks a group's row."""
        self.kernels.mark((group,) if group else ())
        self.roofline.show_selection(group)


def _column(*widgets: QWidget) -> QWidget:
    page = QWidget()
    layout = QVBoxLayout(page)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(0)
    for widget in widgets:
        layout.addWidget(widget, 1 if isinstance(widget, RowView) else 0)
    return page
