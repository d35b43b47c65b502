"""What the moves panel says and asks for; the same moves as a menu."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu

from engine.documents.model import Time
from tests.app.fake_documents import ADVICE
from tests.app.fake_exploration import decisions, moves
from views.constraints.menu import fill
from views.moves.rows import WHY_NOT, describe, gain_text, move_rows
from views.moves.view import MovesView

NOW = Time(18.3, "predicted")


@pytest.fixture
def panel(qtbot: object) -> MovesView:
    made = MovesView()
    qtbot.addWidget(made)  # type: ignore[attr-defined]
    made.show_document(moves("softmax_0", ADVICE), NOW)
    return made


@pytest.mark.parametrize(
    ("gain", "text"),
    [(0.06, "▼ 6.0 %"), (-0.011, "▲ 1.1 %"), (0.0004, "0.0 %"), (-0.0004, "0.0 %"), (-2.0, "▲ 200 %")],
)
def test_a_gain_has_its_sign(gain: float, text: str) -> None:
    assert gain_text(gain) == text


def test_possible_moves_come_first_and_the_rest_under_one_heading() -> None:
    rows = move_rows(moves("softmax_0", ADVICE))
    assert [row.title for row in rows[:2]] == [
        "Rows per block 8 → 16: 17.2 µs predicted, ▼ 6.0 %",
        "Swizzle rows by 128 B: 17.6 µs predicted, ▼ 3.8 %",
    ]
    assert rows[-1].key == WHY_NOT and rows[-1].title == "Why not, 3"
    assert [describe(row.value) for row in rows[-1].children][1] == (  # type: ignore[arg-type]
        "Parallel S2 j: not possible, the sum is carried by j"
    )
    none = replace(moves("softmax_0", ADVICE), impossible=())
    assert all(row.key != WHY_NOT for row in move_rows(none))


def test_return_applies_the_current_move(panel: MovesView, qtbot: object) -> None:
    asked: list[str] = []
    panel.apply_requested.connect(asked.append)
    table = panel.table
    for key in list(table.rows)[:2]:
        table.setCurrentIndex(table.rows.index_of(key))
        qtbot.keyClick(table, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    possible = moves("softmax_0", ADVICE).possible
    assert asked == [possible[0].recipe, possible[1].recipe]


def test_what_is_impossible_cannot_be_applied(panel: MovesView, qtbot: object) -> None:
    asked: list[str] = []
    panel.apply_requested.connect(asked.append)
    table = panel.table
    why = table.rows.index_of(WHY_NOT)
    assert not table.isExpanded(why)
    table.setCurrentIndex(why)
    qtbot.keyClick(table, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    assert table.isExpanded(why)
    table.setCurrentIndex(table.rows.index(0, 0, why))
    qtbot.keyClick(table, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    assert not asked
    assert panel.preview.lines.text().splitlines()[0] == "flow of m runs backwards"


def test_the_preview_stands_beside_what_is_in_use(panel: MovesView) -> None:
    assert "17.2 µs instead of 18.3 µs, predicted" in panel.preview.figures.text(), "the best one at first"
    panel.table.setCurrentIndex(panel.table.rows.index_of(list(panel.table.rows)[3]))
    assert panel.preview.lines.text() == "all @ i: mark warp 4"
    assert "18.5 µs instead of 18.3 µs" in panel.preview.figures.text()


def test_a_move_is_copied_as_the_lines_it_adds(panel: MovesView) -> None:
    panel.table.setCurrentIndex(panel.table.rows.index_of(list(panel.table.rows)[2]))
    panel.table.actions()[0].trigger()
    assert QGuiApplication.clipboard().text() == "S0 @ j: split 4\nS2 @ j: split 4"


def test_an_answer_cut_short_says_so_and_keeps_the_chosen_row(panel: MovesView) -> None:
    panel.table.setCurrentIndex(panel.table.rows.index_of(list(panel.table.rows)[1]))
    known = moves("softmax_0", ADVICE)
    panel.show_document(replace(known, possible=known.possible[1:], complete=False), NOW)
    assert panel.subtitle.text() == "3 legal, not all tried yet"
    assert panel.preview.lines.text() == "S0 @ j: mark vector 8"
    panel.show_document(known, NOW, stale=True)
    assert panel.subtitle.text() == "4 legal from the last legal advice"


def texts(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions() if not action.isSeparator()]


def test_the_menu_of_entries_has_what_is_possible_and_why_the_rest_is_not(qtbot: object) -> None:
    menu, applied, added = QMenu(), [], []
    qtbot.addWidget(menu)  # type: ignore[attr-defined]
    fill(menu, moves("softmax_0", ADVICE), decisions("softmax_0", ADVICE), applied.append, added.append)
    assert texts(menu) == ["Order", "Blocks, Threads, Warps", "Tiles and Splits", "Dimensions", "Why Not, 5"]
    inside = {action.text(): action.menu() for action in menu.actions()}
    blocks = inside["Blocks, Threads, Warps"].actions()  # type: ignore[attr-defined]
    assert [action.text() for action in blocks] == ["Rows per block 8 → 16\t▼ 6.0 %", "Warps per block 8 → 4\t▲ 1.1 %"]
    blocks[0].trigger()
    assert applied == [moves("softmax_0", ADVICE).possible[0].recipe]
    inside["Dimensions"].actions()[0].trigger()  # type: ignore[attr-defined]
    assert added == ["S1 @ outermost: pin j"]
    assert not any(action.isEnabled() for action in inside["Why Not, 5"].actions())  # type: ignore[attr-defined]


def test_the_menu_says_that_it_is_being_filled(qtbot: object) -> None:
    menu = QMenu()
    qtbot.addWidget(menu)  # type: ignore[attr-defined]
    fill(menu, None, None, lambda text: None, lambda text: None)
    (only,) = menu.actions()
    assert "Trying" in only.text() and not only.isEnabled()
