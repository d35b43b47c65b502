"""The timing panel: all kernels, the terms of one prediction, live samples, the roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPushButton, QStackedWidget, QVBoxLayout, QWidget

from engine.documents.model import KernelDoc, ModelDoc, Time
from views.format import duration, origin_of, plural
from views.panel import Elided, Panel, bar, column_heads, label
from views.roofline.nodes import Roofline
from views.roofline.view import RooflinePage
from views.rows import RowView, TreeRow
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
        self.roofline.canvas.region_selected.connect(self.filter_kernels)
        self._rows: tuple[TreeRow, ...] = ()
        self._kept: frozenset[str] = frozenset()
        """The groups of a region of the roofline, which the table is filtered to; none: it shows all."""
        self.filter_strip, strip = bar("subheader", 32)
        self.filter_note, every = Elided("hint"), QPushButton("Show all")
        every.setProperty("role", "small")
        every.clicked.connect(lambda: self.filter_kernels(()))
        strip.addWidget(self.filter_note, 1)
        strip.addWidget(every)
        self.prediction_head, self._prediction = bar("subheader", 32)
        self._headline = label("", "title")
        self._note = label("", "hint")
        self._prediction.addWidget(self._headline)
        self._prediction.addWidget(self._note, 1)
        self.pages = QStackedWidget()
        self.pages.addWidget(_column(self.filter_strip, column_heads("Kernel", COLUMNS), self.kernels))
        self.pages.addWidget(_column(self.prediction_head, self.terms))
        self.pages.addWidget(self.live)
        self.pages.addWidget(self.roofline)
        self.tab_selected.connect(lambda name: self.pages.setCurrentIndex(TABS.index(name)))
        self.body_layout.addWidget(self.pages)
        self._show_rows()
        self.show_empty("Times of the opened model's kernels appear here")

    def show_times(self, model: ModelDoc, predicted: Mapping[str, Time], measured: Mapping[str, Time]) -> None:
        """Replaces the table of kernels."""
        self._rows = kernel_rows(model, predicted, measured)
        self._show_rows()
        self.show_body()

    def filter_kernels(self, groups: Sequence[str]) -> None:
        """Leaves some groups in the table of kernels and brings it to the front; none: shows all again."""
        self._kept = frozenset(groups)
        self._show_rows()
        self.select_tab(KERNELS)

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


    def _show_rows(self) -> None:
        """The kernels that the filter leaves; one without any of the present groups is another model's."""
        kept = tuple(row for row in self._rows if row.key in self._kept)
        self._kept = self._kept if kept else frozenset()
        self.filter_strip.setVisible(bool(kept))
        self.filter_note.setText(f"{len(kept)} of {plural(len(self._rows), 'kernel')}, from a region of the roofline")
        self.kernels.show_rows(kept or self._rows)


def _column(*widgets: QWidget) -> QWidget:
    page = QWidget()
    layout = QVBoxLayout(page)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(0)
    for widget in widgets:
        layout.addWidget(widget, 1 if isinstance(widget, RowView) else 0)
    return page
