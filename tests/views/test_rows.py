"""What the panels' rows say."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QFocusEvent
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QApplication, QLabel

from engine.documents.exploration import FigureDoc
from engine.documents.model import RepairDoc
from engine.documents.units import kib
from tests.app.fake_documents import ADVICE, kernel, model
from views.code.spans import spans
from views.constraints.rows import Links, as_text, repairs_to_show, rows_of, summary, wish
from views.constraints.tree import is_opened
from views.diff.figures import change
from views.format import amount, compact_shape, duration, figure, percent
from views.hierarchy import boxes
from views.history.view import StepFigure, StepSummary
from views.outline.rows import OutlineItem, filter_rows, outline, rows_of_group
from views.rows import RowModel, RowView, TreeRow
from views.search.index import SearchIndex
from views.timing.rows import kernel_rows, term_rows


def titles(rows: tuple[TreeRow, ...]) -> list[str]:
    return [title for row in rows for title in (row.title, *titles(row.children))]


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0.279, "0.279 µs"),
        (5.4, "5.4 µs"),
        (99.96, "100 µs"),
        (307.2, "307 µs"),
        (2423.0, "2.42 ms"),
        (1.2e6, "1.20 s"),
    ],
)
def test_durations(microseconds: float, text: str) -> None:
    assert duration(microseconds) == text


def test_figures() -> None:
    assert [figure(value) for value in (0, 0.0123, 1.234, 12.34, 123.4, 1755)] == [
        "0",
        "0.012",
        "1.23",
        "12.3",
        "123",
        "1,755",
    ]
    assert [amount(0), amount(32), amount(999)] == ["0 B", "32 B", "999 B"]
    assert [amount(512), amount(100_663_296), amount(14.5e9, "FLOP")] == ["512 B", "101 MB", "14.5 GFLOP"]
    assert [kib(size) for size in (64, 49_152, 56_064)] == ["64 B", "48 KiB", "54.8 KiB"]
    assert [percent(part) for part in (0.0, 0.0001, 0.126, 1.0)] == ["0.0 %", "< 0.1 %", "12.6 %", "100 %"]
    assert [percent(change) for change in (1.126, 27.27)] == ["113 %", "2,727 %"]  # of a time that grew
    assert compact_shape("96 x 512 x 512 float16") == "96×512×512"


def test_outline_adds_up() -> None:
    (top,) = outline(model(), boxes(model()))
    assert [row.title for row in top.children] == ["embeddings + layernorm", "encoder layer", "pooler"]
    layer = top.children[1]
    assert isinstance(layer.value, OutlineItem) and layer.value.count == 12
    parts = [row.value.microseconds for row in layer.children if isinstance(row.value, OutlineItem)]
    assert sum(parts) == pytest.approx(layer.value.microseconds)
    assert sum(row.value.share for row in top.children if isinstance(row.value, OutlineItem)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("softmax", {"softmax"}),
        ("type:contraction time>20%", {"FFN up + bias + GELU", "FFN down + bias"}),
        ("time > 20 %", {"FFN up + bias + GELU", "FFN down + bias"}),
        ("nothing like it", set()),
    ],
)
def test_filter(query: str, expected: set[str]) -> None:
    kept = filter_rows(outline(model(), boxes(model())), SearchIndex(model()).find(query).groups)
    groups = {row.title for row in flat(kept) if isinstance(row.value, OutlineItem) and row.value.group}
    assert groups == expected


def flat(rows: tuple[TreeRow, ...]) -> list[TreeRow]:
    return [found for row in rows for found in (row, *flat(row.children))]


def test_every_group_has_an_outline_row() -> None:
    rows = outline(model(), boxes(model()))
    assert all(rows_of_group(rows, group.name) for group in model().groups)


def test_the_item_model_keeps_qts_rules(qtbot: object) -> None:
    rows = RowModel()
    QAbstractItemModelTester(rows, QAbstractItemModelTester.FailureReportingMode.Fatal)
    rows.show_rows(outline(model(), boxes(model())))
    rows.show_rows(outline(model(2), boxes(model(2))))
    assert rows.rowCount() == 1


def test_constraints_hang_under_their_statements() -> None:
    entries = kernel("softmax_0").entries
    rows = rows_of(entries)
    assert [row.title for row in rows] == ["All statements", "S1, S3", "S0"]
    assert sum(len(row.children) for row in rows) == len(entries)
    assert wish(entries[1]) == "i: mark block 8"
    assert summary(entries) == (("honoured", 4), ("matches nothing", 1))


def test_an_infeasible_entry_carries_its_witness() -> None:
    entries = kernel("softmax_0", ADVICE + "advice user\n  required S2 @ j: parallel true\n").entries
    (row,) = (row for heading in rows_of(entries) for row in heading.children if "infeasible" in row.title)
    assert "S2(i=2, j=3)" in row.children[0].title


def test_spans_cover_words_of_their_line() -> None:
    found = spans("const int n = 42; // forty-two\n/* a\nb */ float x;\n")
    assert (0, 5, "keyword") in found[0] and (14, 2, "number") in found[0] and (18, 12, "text-3") in found[0]
    assert found[1] == [(0, 4, "text-3")] and found[2][0] == (0, 4, "text-3")


def test_kernels_come_dearest_first() -> None:
    rows = kernel_rows(model(), {}, {})
    assert rows[0].title == "FFN down + bias" and rows[-1].title == "pooler"
    assert len(term_rows(kernel("softmax_0").terms)) == 4


def test_repairs_close_the_box_of_what_cannot_hold() -> None:
    refused = kernel("softmax_0", ADVICE + "advice user\n  required S2 @ j: parallel true\n")
    rows = rows_of(refused.entries, refused.repairs)
    (wrong,) = (row for heading in rows for row in heading.children if "infeasible" in row.title)
    _, links, *offers = wrong.children
    assert isinstance(links.value, Links)
    assert [name for name, _ in links.value.repairs] == ["Show instances", "Make optional", "Disable"]
    assert [repair.kind if repair else "" for _, repair in links.value.repairs] == ["", "relax", "switch off"]
    assert [row.title for row in offers] == ["Let S2 add the terms of s in any order"]
    assert [row.value.last for row in (links, *offers)] == [False, True]  # type: ignore[attr-defined]
    (alone,) = (row for heading in rows_of(refused.entries) for row in heading.children if "infeasible" in row.title)
    assert [type(row.value).__name__ for row in alone.children] == ["EntryRefusal", "Links"]
    assert alone.children[1].value.last  # type: ignore[attr-defined]


def test_repairs_of_other_entries_and_incomplete_ones_are_told_in_full() -> None:
    refused = kernel("softmax_0", ADVICE + "advice user\n  required S2 @ j: parallel true\n")
    (entry,) = (each for each in refused.entries if each.outcome == "infeasible")
    other = RepairDoc("relax", (9, 9), "make “S0 @ i: pin i” optional", "advice user\n", True)
    partial = RepairDoc("relax", entry.path, "make it optional (then “b” still cannot hold)", "advice user\n", False)
    rows = rows_of(refused.entries, (other, partial))
    (wrong,) = (row for heading in rows for row in heading.children if "infeasible" in row.title)
    titles = [row.title for row in wrong.children[2:]]
    assert titles == ["Make “S0 @ i: pin i” optional", "Make it optional (then “b” still cannot hold)"]


ALTERNATIVES = """\
advice user
  all @ i: mark block 4
  either "long rows"
    S0 @ j: split 4  # because rows are long
    either
      S1 @ j: split 4
    or
      S1 @ j: split 8
  or
    S0 @ j: split 8
"""


def test_alternatives_are_a_tree_of_their_own() -> None:
    told = kernel("softmax_0", ALTERNATIVES)
    common, first, second = rows_of(told.entries, (), told.scenarios)
    assert [row.title for row in common.children] == ["i: mark block 4, user, honoured"]
    assert (first.title, second.title) == ("Scenario 1, long rows", "Scenario 2")
    inside = [row.title.partition(",")[0] for row in first.children]
    assert inside == ["S0 @ j: split 4", "Scenario 1.1", "Scenario 1.2"]
    assert [row.value.outcome for row in (first, second)] == ["taken", "not reached"]  # type: ignore[attr-defined]
    assert is_opened(first) and not is_opened(second)


def test_an_alternative_is_copied_as_it_is_written() -> None:
    told = kernel("softmax_0", ALTERNATIVES)
    inside = ALTERNATIVES.partition('"long rows"\n')[2].partition("  or\n    S0")[0]
    assert as_text(told.scenarios[0], told.entries, told.scenarios) == dedent(inside).rstrip("\n")
    assert as_text((), told.entries, told.scenarios) == "all @ i: mark block 4"


def test_of_many_replacements_the_first_are_offered() -> None:
    many = [RepairDoc("replace", (0, 0), f"leave S{n} out", "advice user\n", True) for n in range(9)]
    relax = RepairDoc("relax", (0, 0), "make it optional", "advice user\n", True)
    assert repairs_to_show([*many, relax]) == [*many[:3], relax]


def test_waves_and_occupancy_are_no_gain_and_no_loss() -> None:
    figures = {
        unit: change(FigureDoc("", unit, 0.011, 0.023, origin, True))
        for unit, origin in (("µs", "predicted"), ("waves", "predicted"), ("%", "predicted"), ("sectors", "counted"))
    }
    assert figures["waves"] == figures["%"] == "" and figures["µs"] and figures["sectors"]


def test_no_figure_of_a_step_is_cut(qapp: object) -> None:
    summary = StepSummary()
    floor = StepFigure("Against floor", "13.5×", "0.551 µs for 2.37 MB moved")
    figures = [floor, StepFigure("Counted", "1", "1.54 k requests")]
    summary.show_columns(1000)
    summary.show_figures(figures, "")
    summary.show()
    cells = [part for part in summary.findChildren(QLabel) if part.text()]
    assert len(cells) == 6
    assert all(part.width() >= part.fontMetrics().horizontalAdvance(part.text()) for part in cells)
    summary.show_columns(150)
    assert sum(part.isVisible() for part in cells) == 3, "one less before any is cut"


def test_a_marked_row_stays_in_sight_where_the_panel_becomes_low(qtbot: Any) -> None:
    """Schedule leaves the outline six rows: the selected group was below them."""
    view = RowView("Rows", lambda painter, row, state: None)
    qtbot.addWidget(view)
    view.show_rows(TreeRow(str(number), str(number), None) for number in range(12))
    view.resize(200, 300)
    view.show()
    view.mark(["9"])
    view.resize(200, 100)
    assert view.viewport().rect().contains(view.visualRect(view.rows.index_of("9")).center())
    view.resize(200, 300)
    view.scrollToTop()
    view.resize(200, 130)
    view.scrollToTop()
    view.resize(200, 100)
    assert not view.verticalScrollBar().value(), "who scrolled away from it stays there"


def test_the_keyboard_comes_to_a_list_and_selects_nothing(qtbot: Any) -> None:
    view = RowView("Rows", lambda painter, row, state: None)
    qtbot.addWidget(view)
    view.show_rows([TreeRow(name, name, name) for name in "abc"])
    view.show()
    chosen: list[str] = []
    view.row_selected.connect(lambda row: chosen.append(row.key))
    QApplication.sendEvent(view, QFocusEvent(QEvent.Type.FocusIn, Qt.FocusReason.TabFocusReason))
    assert view.current_key == "a" and not chosen
    qtbot.keyClick(view, Qt.Key.Key_Down)
    at = view.visualRect(view.rows.index_of("b")).center()
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert chosen == ["b", "b"]
