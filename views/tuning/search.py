"""Where the trials went: what pruning left of the programs, which groups got the rounds, why trials failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QScrollArea, QVBoxLayout, QWidget

from views.format import plural
from views.panel import PADDING, Panel, bar, label
from views.rows import RowState, RowView, TreeRow, set_role
from views.themed_painter import ThemedPainter
from views.tuning.nodes import Cause, Cut, TrialShare
from views.tuning.rows import (
    COUNT,
    GAIN,
    NAME,
    cause_rows,
    cut_rows,
    paint_cause,
    paint_cut,
    paint_share,
    share_rows,
)

NOTHING = "Pruning, rounds and failures of a run appear here"
NO_FAILURE = "none so far"


class SearchView(Panel):
    """`group_selected` carries the group of a clicked row of the rounds."""

    group_selected = Signal(str)

    def __init__(self) -> None:
        super().__init__("Search")
        self.cuts = _WholeRows("What pruning left", paint_cut)
        self.shares = _WholeRows("Rounds", paint_share)
        self.causes = _WholeRows("Failures by cause", paint_cause)
        self.shares.row_selected.connect(lambda row: self.group_selected.emit(row.key.partition("/")[0]))
        self._rounds_head, self._rounds = _section("Rounds")
        self._causes_head, self._causes = _section("Failures by cause")
        heads, row = bar("subheader", 26)
        row.setContentsMargins(int(PADDING), 0, int(PADDING), 0)
        row.setSpacing(0)
        columns = (
            ("Group", int(NAME) + 8), ("round 1", 0), ("Rounds", int(COUNT) - 8), ("", 8), ("Gain", int(GAIN)),
        )  # fmt: skip
        for text, width in columns:
            head = label(text, "small-hint")
            if width:
                head.setFixedWidth(width)
            if text in ("Rounds", "Gain"):
                head.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            row.addWidget(head, 0 if width else 1)
        self._heads = heads
        content = set_role(QWidget(), "body")
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(0)
        parts = (self.cuts, self._rounds_head, heads, self.shares, self._causes_head, self.causes)
        for widget in parts:
            column.addWidget(widget)
        column.addStretch(1)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setWidget(content)
        self.body_layout.addWidget(area)
        self.show_empty(NOTHING)

    def show_funnel(self, cuts: Sequence[Cut], title: str) -> None:
        """Replaces the steps of the funnel; `title`: whose programs these are."""
        self.subtitle.setText(f"pruning of {title}, log scale, counts")
        self.cuts.show_all(cut_rows(cuts))
        self.show_body()

    def show_rounds(self, shares: Sequence[TrialShare], total: int, skipped: Mapping[str, str]) -> None:
        """Replaces the groups and their rounds.  total: rounds of the run; skipped: why groups are not searched."""
        left_out = f", {plural(len(skipped), 'group')} not searched" if skipped else ""
        self._rounds.setText(plural(total, "round") + left_out)
        self._rounds.setToolTip("\n".join(f"{group}: {why}" for group, why in skipped.items()))
        rows = share_rows(shares, total)
        self.shares.show_all(rows)
        self.shares.chevrons = any(row.children for row in rows)

    def show_failures(self, causes: Sequence[Cause]) -> None:
        """Replaces the kinds of failures."""
        self._causes.setText("" if causes else NO_FAILURE)
        self.causes.show_all(cause_rows(causes))

    def show_selection(self, group: str) -> None:
        """Marks a group's rounds."""
        self.shares.mark((group,) if group else ())

    def show_nothing(self) -> None:
        """No run is shown."""
        self.subtitle.setText("")
        self.show_empty(NOTHING)


class _WholeRows(RowView):
    """Rows that are all in sight: the panel scrolls, not each part of it."""

    def __init__(self, name: str, paint: Callable[[ThemedPainter, TreeRow, RowState], None]) -> None:
        super().__init__(name, paint)
        self.chevrons = False
        self.expanded.connect(lambda _: self._fit())
        self.collapsed.connect(lambda _: self._fit())

    def show_all(self, rows: Sequence[TreeRow]) -> None:
        """Replaces the rows and takes the room for them; the panel is as tall as they are."""
        self.show_rows(rows, opened=lambda row: False)
        self._fit()

    def _fit(self) -> None:
        height, index = 0, self.rows.index(0, 0)
        while index.isValid():
            height += self.rows.row_at(index).height
            index = self.indexBelow(index)
        self.setFixedHeight(height + (8 if height else 0))


def _section(title: str) -> tuple[QWidget, QLabel]:
    """A header like that of a panel, and the label beside its title."""
    strip, row = bar("header", 28)
    row.setContentsMargins(int(PADDING), 0, 8, 0)
    row.addWidget(label(title, "title"))
    note = label("", "hint")
    row.addWidget(note, 1)
    return strip, note
