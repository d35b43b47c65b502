"""The table of decisions and the addresses of one warp."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtTest import QAbstractItemModelTester

from engine.documents.exploration import LanesDoc
from tests.app.fake_documents import ADVICE
from tests.app.fake_exploration import addresses, decisions
from views.schedule.addresses import AccessPair, AddressesPage, _words_by_bank, address_rows, count, describe
from views.schedule.decisions import DecisionModel, DecisionsPage, word_in
from views.theme import load_theme
from views.themed_painter import ThemedPainter


@pytest.fixture
def page(qtbot: object) -> DecisionsPage:
    made = DecisionsPage()
    qtbot.addWidget(made)  # type: ignore[attr-defined]
    made.set_theme(load_theme("dark"))
    made.show_decisions(decisions("softmax_0", ADVICE))
    return made


def test_the_item_model_keeps_qts_rules(qtbot: object) -> None:
    model = DecisionModel()
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    model.show_decisions(decisions("softmax_0", ADVICE))
    assert (model.rowCount(), model.columnCount()) == (8, 2)
    model.show_decisions(None)
    assert (model.rowCount(), model.columnCount()) == (0, 0)


def test_a_cell_says_in_words_what_its_mark_says(page: DecisionsPage) -> None:
    model = page.model
    assert model.data(model.index(0, 0)) == "S0 i as dimension 1: chosen, parallel"
    assert model.data(model.index(1, 0)) == "S0 j as dimension 1: impossible"
    tip = str(model.data(model.index(1, 0), Qt.ItemDataRole.ToolTipRole)).splitlines()
    assert tip == [
        "S0 j as dimension 1: impossible: the flow of m runs backwards",
        "S0(i=2, j=3) then S0(i=2, j=4)",
    ]
    assert model.headerData(2, Qt.Orientation.Vertical) == "S1  i  49,152"
    assert model.headerData(3, Qt.Orientation.Vertical) == "    j  512"


def test_a_cell_with_an_entry_is_asked_for_by_click_and_by_return(page: DecisionsPage, qtbot: object) -> None:
    asked: list[str] = []
    page.entry_requested.connect(asked.append)
    page.show()
    index = page.model.index(3, 0)
    at = page.table.visualRect(index).center()
    qtbot.mouseClick(page.table.viewport(), Qt.MouseButton.LeftButton, pos=at)  # type: ignore[attr-defined]
    qtbot.keyClick(page.table, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    assert asked == ["S1 @ outermost: pin j"] * 2
    page.table.setCurrentIndex(page.model.index(1, 0))
    qtbot.keyClick(page.table, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    assert len(asked) == 2, "what is impossible cannot be asked for"
    assert "runs backwards" in page.reason.text()


def test_the_keyboard_stays_in_its_cell_when_the_table_changes(page: DecisionsPage) -> None:
    page.table.setCurrentIndex(page.model.index(3, 1))
    page.show_decisions(replace(decisions("softmax_0", ADVICE), recipe="other"))
    at = page.table.currentIndex()
    assert (at.row(), at.column()) == (3, 1)


def test_accesses_are_paired_with_the_baselines() -> None:
    before = addresses("softmax_0", ADVICE)
    after = addresses("softmax_0", ADVICE.replace("vector 8", "vector 4"))
    pairs = [row.value for row in address_rows(after, before)]
    assert [(p.before.array, p.after.array) for p in pairs] == [("x", "x"), ("shared_memory",) * 2, ("y", "y")]  # type: ignore[attr-defined]
    assert describe(pairs[0]) == (  # type: ignore[arg-type]
        "Line 18: global load of x, 2 bytes a lane; before 16 sectors, ideal 16; now 2 sectors, ideal 2"
    )
    alone = replace(after, lanes=after.lanes[:1])
    (x, gone, _) = (row.value for row in address_rows(alone, before))
    assert isinstance(x, AccessPair) and x.before is not None
    assert isinstance(gone, AccessPair) and gone.after is None and gone.lanes.array == "shared_memory"
    (only,) = (row.value for row in address_rows(alone, None))
    assert isinstance(only, AccessPair) and not only.compared


def test_passes_are_counted_for_shared_memory() -> None:
    shared = addresses("softmax_0", ADVICE).lanes[1]
    assert count(shared) == "2 passes" and count(replace(shared, sectors=1)) == "1 pass"
    words = _words_by_bank(shared)
    assert len(words) == 16 and {len(each) for each in words.values()} == {2}, "every second bank, two words each"
    wide = LanesDoc(1, "shared load", "m", 8, (0, -1, 120), 1, 1)
    assert _words_by_bank(wide) == {0: {0: 0}, 1: {1: 0}, 30: {30: 2}, 31: {31: 2}}


def test_addresses_wait_for_their_button(qtbot: object) -> None:
    page = AddressesPage()
    qtbot.addWidget(page)  # type: ignore[attr-defined]
    asked: list[bool] = []
    page.asked.connect(lambda: asked.append(True))
    page.button.click()
    page.show_loading(True)
    page.button.click()
    assert asked == [True], "a block that runs is not started again"
    lines: list[int] = []
    page.line_selected.connect(lines.append)
    page.show_loading(False)
    page.show_addresses(addresses("softmax_0", ADVICE), None)
    page.table.setCurrentIndex(page.table.rows.index_of("2"))
    assert lines == [30]


def test_a_narrow_cell_says_one_whole_word(qapp: object) -> None:
    """Of a product of five dimensions every other cell ended in an ellipsis."""
    image = QImage(8, 8, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    themed = ThemedPainter(painter, load_theme("light"))
    assert [word_in(themed, "used", room) for room in (66.0, 200.0)] == ["used", "used by outer loop"]
    assert word_in(themed, "parallel", 66.0) == "parallel"
    painter.end()
