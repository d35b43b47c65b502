"""The outline panel: the whole model as a tree with its predicted time, and the accessible way to everything."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Signal
from PySide6.QtGui import QResizeEvent

from views.field import Field
from views.format import duration, percent
from views.outline.rows import OutlineItem, filter_rows, opened_first, rows_of_group
from views.overview import Overview
from views.panel import Panel, bar, label
from views.rows import RowState, RowView, TreeRow
from views.search.hits import summary
from views.search.index import SearchIndex
from views.search.query import QueryError
from views.shapes import paint_bar
from views.theme import face, semibold
from views.themed_painter import RIGHT, ThemedPainter

SHARE = 52
TIME = 58
BAR = 28
TALL = 240
"""Pixels of height from which on the filter and the heads of the columns find room."""
WIDE = 270
"""Pixels of a panel that has room for the share as a figure beside the names."""
FULL_SHARE = 0.25
"""Share of the whole model that fills the bar."""


class OutlineView(Panel):
    """Model, layers and groups; `group_selected` carries the group's name."""

    group_selected = Signal(str)
    open_requested = Signal()
    example_requested = Signal()

    def __init__(self) -> None:
        super().__init__("Outline")
        self._rows: tuple[TreeRow, ...] = ()
        self._index: SearchIndex | None = None
        self._group = ""
        self.filter = Field("filter", "Filter: name, type:MatMul, time>5%, A > * > B", "Filter the outline")
        self.filter.setClearButtonEnabled(True)
        self.filter.textChanged.connect(self._show)
        self._search, layout = bar("body", 44)
        layout.setContentsMargins(12, 0, 12, 0)
        layout.addWidget(self.filter)
        self.told = label("", "small-hint")
        self.told.setContentsMargins(12, 0, 12, 8)
        self.told.setWordWrap(True)
        self.told.hide()
        self._columns, heads = bar("subheader", 24)
        for text, width in (("Group", 0), ("Share", SHARE), ("Predicted", TIME)):
            head = label(text, "small-hint")
            if width:
                head.setFixedWidth(width)
                head.setAlignment(head.alignment().AlignRight | head.alignment().AlignVCenter)
            heads.addWidget(head, 0 if width else 1)
            if text == "Share":
                self._share_head = head
        heads.setContentsMargins(12, 0, 12, 0)
        heads.setSpacing(0)
        self.tree = RowView("Outline tree", self._paint)
        self.tree.row_selected.connect(self._select)
        self.body_layout.addWidget(self._search)
        self.body_layout.addWidget(self.told)
        self.body_layout.addWidget(self._columns)
        self.body_layout.addWidget(self.tree, 1)
        self.empty.add_button("Open…").clicked.connect(self.open_requested)
        self.empty.add_button("Open the example").clicked.connect(self.example_requested)
        self.show_empty("Drop an ONNX file here, or open the example")

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow panel names go before figures that the bars show, too; in a low one rows get all height."""
        super().resizeEvent(event)
        tall = self.height() >= TALL
        self._share_head.setVisible(self.width() >= WIDE)
        self._search.setVisible(tall or bool(self.filter.text()))
        self._columns.setVisible(tall)

    def show_model(self, overview: Overview) -> None:
        """Replaces the tree."""
        self._rows = overview.rows
        self._index = overview.index
        self.show_body()
        self._show()

    def show_times(self, overview: Overview) -> None:
        """Shows other times of the same model's kernels; what is open and in sight stays."""
        self._rows, self._index = overview.rows, overview.index
        if self.filter.text().strip():
            self._show()  # other groups may be found: `time>5%`
        else:
            self.tree.renew(self._rows)

    def show_selection(self, group: str) -> None:
        """Marks the rows of a group."""
        self._group = group
        self.tree.mark(rows_of_group(self._rows, group) if group else ())

    def _show(self) -> None:
        rows = self._filter_rows(self.filter.text())
        opened = opened_first(rows)
        self.tree.show_rows(rows, lambda row: row.key in opened)
        self.show_selection(self._group)

    def _filter_rows(self, text: str) -> tuple[TreeRow, ...]:
        """The rows that the filter keeps; the line below it tells how much that is, or why it is no filter."""
        self.told.setVisible(bool(text.strip()) and self._index is not None)
        if not text.strip() or self._index is None:
            return self._rows
        try:
            found = self._index.find(text)
        except QueryError as error:
            self.told.setText(str(error))
            return self._rows
        self.told.setText(summary(self._index, found))
        return filter_rows(self._rows, found.groups)

    def _paint(self, painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
        _paint(painter, row, state, self._share_head.isVisibleTo(self))

    def _select(self, row: TreeRow) -> None:
        if isinstance(row.value, OutlineItem):
            self.group_selected.emit(row.value.group)


def _paint(painter: ThemedPainter, row: TreeRow, state: RowState, share: bool) -> None:
    item, box = row.value, state.box.adjusted(state.left - state.box.x(), 0, -12, 0)
    assert isinstance(item, OutlineItem)
    if item.microseconds:
        painter.text(box, duration(item.microseconds), side=RIGHT)
    box = box.adjusted(0, 0, -TIME, 0)
    if share:
        painter.text(box, percent(item.share) if item.microseconds else "", "text-2", side=RIGHT)
        box = box.adjusted(0, 0, -SHARE, 0)
    if item.group:
        track = QRectF(box.right() - BAR - 2, box.center().y() - 3.5, BAR, 8)
        paint_bar(painter, track, item.share / FULL_SHARE, painter.theme.cost_colour(item.cost))
    box = box.adjusted(0, 0, -BAR - 8, 0)
    used = painter.text(box, row.title, font=semibold() if state.marked or state.depth == 0 else face()) + 1.0
    for suffix in (f" × {item.count:,}" if item.count > 1 else "", f"  {item.name}" if item.name else ""):
        box, width = box.adjusted(used, 0, 0, 0), painter.width(suffix) + 1.0
        used = width if suffix and width <= box.width() else 0.0
        if used:  # a shortened name cannot be told from others; the tool tip has the whole
            painter.text(box, suffix, "text-3")
