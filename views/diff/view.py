"""The comparison of two steps: figures and entries at the left, changed lines of code and schedule at the right."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QSplitter, QStackedWidget

from engine.documents.exploration import DiffDoc, DiffLine, FigureDoc
from views.diff.figures import figure_rows, paint_figure
from views.diff.lines import DiffLines
from views.format import plural
from views.panel import SUBHEADER, Panel, bar, icon_button, label
from views.rows import RowView

TEXTS = ("Code", "Schedule", "Entries")


class DiffView(Panel):
    """Any two steps of one group; both can be chosen here."""

    steps_chosen = Signal(int, int)

    def __init__(self) -> None:
        super().__init__("Compare", TEXTS)
        strip, layout = bar("subheader", SUBHEADER)
        self.a, self.b = QComboBox(), QComboBox()
        for box, name in ((self.a, "Before"), (self.b, "After")):
            box.setAccessibleName(name)
            box.setProperty("role", "small")
            box.setMinimumWidth(200)
            box.activated.connect(self._choose)
        self.swap = icon_button("Swap the two steps")
        self.swap.clicked.connect(self._swap)
        self.tint(self.swap, "swap")
        self.count = label("", "hint")
        layout.addWidget(self.a)
        layout.addWidget(self.swap)
        layout.addWidget(self.b)
        layout.addStretch(1)
        layout.addWidget(self.count)
        self.figures = RowView("Figures side by side", paint_figure)
        self.texts = {name: DiffLines(name) for name in TEXTS}
        self._pages = QStackedWidget()
        for text in self.texts.values():
            self._pages.addWidget(text)
        self.tab_selected.connect(self._show_tab)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.setHandleWidth(1)
        split.addWidget(self.figures)
        split.addWidget(self._pages)
        split.setSizes([400, 600])
        split.setChildrenCollapsible(False)
        self.body_layout.addWidget(strip)
        self.body_layout.addWidget(split, 1)
        self._document: DiffDoc | None = None
        self.show_empty("Choose two steps of a history")

    def show_steps(self, group: str, titles: Sequence[str], a: int, b: int) -> None:
        """Names the steps of a group that may be compared, and the two that are."""
        self.subtitle.setText(group)
        for box, number in ((self.a, a), (self.b, b)):
            box.clear()
            box.addItems([f"{index}  {title}" for index, title in enumerate(titles)])
            box.setCurrentIndex(number)
        self.show_loading(True)
        self.show_body()

    def show_document(self, document: DiffDoc, further: Sequence[FigureDoc] = ()) -> None:
        """Shows a comparison, and figures that its maker did not know: measured, counted, compiled."""
        self._document = document
        self.show_loading(False)
        rows = figure_rows([*document.figures, *further])
        self.figures.show_rows(rows)
        self.figures.expandAll()
        self.texts["Code"].show_lines(document.cuda)
        self.texts["Schedule"].show_lines(document.schedule)
        self.texts["Entries"].show_lines(_entry_lines(document.entries))
        for name, lines in (("Code", document.cuda), ("Schedule", document.schedule), ("Entries", document.entries)):
            self.tabs[name].setEnabled(bool(lines))
        changed = sum(line.mark != " " for line in document.cuda)
        self.count.setText(f"{plural(changed, 'line')} of code changed" if changed else "the same code")

    def show_refusal(self, sentence: str) -> None:
        """Says why there is no comparison."""
        self.show_loading(False)
        self.show_empty(sentence)

    def _show_tab(self, name: str) -> None:
        self._pages.setCurrentWidget(self.texts[name])

    def _choose(self) -> None:
        self.steps_chosen.emit(self.a.currentIndex(), self.b.currentIndex())

    def _swap(self) -> None:
        self.steps_chosen.emit(self.b.currentIndex(), self.a.currentIndex())


def _entry_lines(entries: Sequence[str]) -> tuple[DiffLine, ...]:
    """Entries that went and came, as lines without numbers."""
    return tuple(DiffLine(entry[:1], entry[2:], 0, 0) for entry in entries)
