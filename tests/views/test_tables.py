"""Tables as text: what is copied and written is what the rows stand for, to the last digit."""

from __future__ import annotations

import csv
import io

import pytest
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from engine.documents.model import ProblemDoc, Time
from tests.app.fake_documents import model
from views.problems.view import ProblemsView
from views.rows import RowView, TreeRow
from views.tables import Table, comma_separated, flatten, tab_separated, tables_in
from views.timing.view import KERNELS, ROOFLINE, TimingView

HOSTILE = '=HYPERLINK("http://x")\tone\ntwo "quoted", µ'


def test_comma_separated_text_is_read_back_as_it_was() -> None:
    table = Table(("name", "time, µs"), ((HOSTILE, 0.1 + 0.2), ("", 3)))
    rows = list(csv.reader(io.StringIO(comma_separated(table), newline="")))
    assert rows == [["name", "time, µs"], [HOSTILE, "0.30000000000000004"], ["", "3"]]


def test_pasted_text_keeps_its_cells_and_computes_nothing() -> None:
    lines = tab_separated(Table(("name", "time"), ((HOSTILE, -1.5),))).splitlines()
    assert lines[0] == "name\ttime" and len(lines) == 2
    name, time = lines[1].split("\t")
    assert name.startswith("'=HYPERLINK") and "one two" in name and float(time) == -1.5


def test_documents_become_cells_with_the_names_of_their_fields() -> None:
    found = flatten(Time(1.25, "predicted", samples=(1.0, 2.0)))
    assert found["microseconds"] == 1.25 and found["origin"] == "predicted"
    assert "samples" not in found, "a list of figures is no cell"
    assert flatten((("a", "b"), ProblemDoc("s", "x", "y", "z"))) == {}


def test_copy_takes_the_selected_kernels_with_heads(qtbot: QtBot) -> None:
    view = TimingView()
    qtbot.addWidget(view)
    shown = model()
    times = {group.name: group.time for group in shown.groups if group.time}
    view.show_times(shown, times, {})
    rows = view.kernels
    order = [row.key for row in rows.rows.walk()]
    rows.setCurrentIndex(rows.rows.index_of(order[1]))
    QTest.keyClick(rows, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    read = list(csv.DictReader(io.StringIO(QGuiApplication.clipboard().text()), delimiter="\t"))
    assert [row["group"] for row in read] == [order[1]]
    assert float(read[0]["predicted µs"]) == times[order[1]].microseconds
    rows.selectionModel().select(rows.rows.index_of(order[0]), QItemSelectionModel.SelectionFlag.Select)
    QTest.keyClick(rows, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    read = list(csv.DictReader(io.StringIO(QGuiApplication.clipboard().text()), delimiter="\t"))
    assert [row["group"] for row in read] == order[:2], "from top to bottom, however they were chosen"


def test_a_region_of_the_roofline_filters_the_kernels(qtbot: QtBot) -> None:
    view = TimingView()
    qtbot.addWidget(view)
    shown = model()
    view.show_times(shown, {}, {})
    every = [row.key for row in view.kernels.rows.walk()]
    view.select_tab(ROOFLINE)
    view.roofline.canvas.region_selected.emit((every[1],))
    assert [row.key for row in view.kernels.rows.walk()] == [every[1]] and view.tabs[KERNELS].isChecked()
    assert view.filter_note.text().startswith(f"1 of {len(every)} kernels") and not view.filter_strip.isHidden()
    view.show_times(shown, {}, {})
    assert [row.key for row in view.kernels.rows.walk()] == [every[1]], "new times leave the filter"
    view.filter_strip.findChild(QPushButton).click()
    assert [row.key for row in view.kernels.rows.walk()] == every and view.filter_strip.isHidden()
    view.filter_kernels(("of another model",))
    assert [row.key for row in view.kernels.rows.walk()] == every and view.filter_strip.isHidden()


def test_every_table_of_a_panel_is_found_by_its_name(qtbot: QtBot) -> None:
    view = ProblemsView()
    qtbot.addWidget(view)
    assert tables_in(view) == [], "a table without rows is none"
    view.show_problems([ProblemDoc("graph", HOSTILE, "why", "hint")])
    ((name, table),) = tables_in(view)
    assert name == "Problems"
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert (row["subject"], row["reason"], row["hint"], row["stage"]) == (HOSTILE, "why", "hint", "graph")


@pytest.mark.parametrize("chosen", [False, True])
def test_rows_below_others_are_rows_of_the_table(qtbot: QtBot, chosen: bool) -> None:
    view = RowView("Tree", lambda *_: None)
    qtbot.addWidget(view)
    below = (TreeRow("b", "below", Time(2.0, "predicted")),)
    view.show_rows((TreeRow("a", "above", None, below),))
    view.selectAll()
    table = view.table(chosen)
    assert [row[0] for row in table.rows] == ["above", "below"]
    assert table.rows[1][table.columns.index("microseconds")] == 2.0
