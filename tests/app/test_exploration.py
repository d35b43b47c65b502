"""Editing by hand in the window, against the made-up worker: what is asked, shown, applied and taken back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication

from app.controllers.query_queue import Question
from app.shell.window import Window
from tests.app.driving import MODEL, advice, afresh, select, settle
from tests.app.fake_exploration import ILLEGAL, moves, with_lines
from tests.support.pointer import drag_over
from views.constraints.rows import scenario_key
from views.constraints.view import TEXT
from views.constraints.view import TREE as ENTRIES
from views.schedule.view import ADDRESSES, DECISIONS, SPACE, TREE
from views.space.geometry import ACROSS, DOWN
from views.space.trial import AxisDrag

ALTERNATIVES = """\
advice user
  either "first"
    S0 @ j: split 4
  or "second"
    S1 @ j: split 8
  or "third"
    S3 @ j: split 2
"""


@pytest.fixture
def opened(shared: Window, qtbot: object) -> Window:
    """The made-up model, nothing selected, the first tabs in front."""
    shared.set_perspective("Explore")
    for panel, tab in ((shared.panels.schedule, TREE), (shared.panels.constraints, ENTRIES)):
        panel.select_tab(tab)
    afresh(shared, qtbot)
    return shared


@pytest.fixture
def editing(opened: Window, qtbot: object) -> Window:
    """The Schedule perspective with the softmax selected and everything visible answered."""
    opened.set_perspective("Schedule")
    select(opened, qtbot)
    explored(opened, qtbot)
    return opened


def explored(window: Window, qtbot: object) -> None:
    """Waits until everything wanted has been answered."""
    settle(window, qtbot)
    queries = window.wiring.queries
    qtbot.waitUntil(lambda: queries.is_settled and window.workspace.client.is_idle)  # type: ignore[attr-defined]


def apply(window: Window, qtbot: object, text: str) -> None:
    window.workspace.edit("softmax_0", text)
    explored(window, qtbot)


def test_moves_are_asked_for_while_nothing_else_waits(editing: Window) -> None:
    known = editing.panels.moves.moves
    assert known is not None and known.recipe == advice(editing)
    assert editing.panels.moves.subtitle.text() == "4 legal"
    assert not editing.panels.moves.progress.isVisible()


def test_a_hidden_panel_asks_for_nothing(opened: Window, qtbot: object) -> None:
    select(opened, qtbot)
    explored(opened, qtbot)
    question = Question("moves", "softmax_0", advice(opened))
    assert opened.wiring.queries.answer(question) is None
    opened.set_perspective("Schedule")
    explored(opened, qtbot)
    assert opened.wiring.queries.answer(question) is not None


def test_a_move_is_one_step_and_its_answers_are_kept(editing: Window, qtbot: object) -> None:
    before = advice(editing)
    table = editing.panels.moves.table
    table.setCurrentIndex(table.rows.index_of(next(iter(table.rows))))
    qtbot.keyClick(table, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    explored(editing, qtbot)
    assert advice(editing) == moves("softmax_0", before).possible[0].recipe
    editing.action("undo").trigger()
    assert advice(editing) == before
    assert editing.wiring.queries.is_settled, "what was answered for this advice is not asked again"
    known = editing.panels.moves.moves
    assert known is not None and known.recipe == before


def test_moves_of_refused_advice_start_from_the_last_legal_one(editing: Window, qtbot: object) -> None:
    before = advice(editing)
    apply(editing, qtbot, with_lines(before, [ILLEGAL]))
    known = editing.panels.moves.moves
    assert known is not None and known.recipe == before
    assert editing.panels.moves.subtitle.text() == "4 legal from the last legal advice"


def test_the_iteration_space_follows_the_advice_and_the_selection(editing: Window, qtbot: object) -> None:
    schedule = editing.panels.schedule
    schedule.select_tab(SPACE)
    explored(editing, qtbot)
    assert schedule.space.chip.text() == "order in use"
    editing.workspace.edit("softmax_0", with_lines(advice(editing), [ILLEGAL]))
    assert schedule.space.chip.text() == "recipe changed"
    explored(editing, qtbot)
    assert schedule.space.chip.text() == "order as requested"
    assert schedule.space.verdict.title.text() == "1 of 9 dependences violated"
    canvas = schedule.space.canvas
    assert canvas.plan is not None
    at = canvas.plan.centres[0].toPoint()
    qtbot.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=at)  # type: ignore[attr-defined]
    assert editing.workspace.bus.selection.statements == ("S2",)
    assert editing.panels.code.text.marked == {25, 26, 27}
    schedule.space.verdict.buttons[0].click()
    explored(editing, qtbot)
    assert "all @ j: cut S2 | S3" in advice(editing) and ILLEGAL not in advice(editing)


def test_a_dropped_interchange_is_applied_when_it_is_legal(editing: Window, qtbot: object) -> None:
    before, schedule = advice(editing), editing.panels.schedule
    schedule.select_tab(SPACE)
    explored(editing, qtbot)
    canvas = schedule.space.canvas
    assert canvas.plan is not None
    start, end = (canvas.plan.label_box(axis).center().toPoint() for axis in (ACROSS, DOWN))
    qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, pos=start)  # type: ignore[attr-defined]
    drag_over(canvas, end)
    explored(editing, qtbot)
    assert "Legal: every dependence keeps its direction" in canvas.accessibleDescription(), "told before it is let go"
    assert advice(editing) == before
    qtbot.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=end)  # type: ignore[attr-defined]
    explored(editing, qtbot)
    assert advice(editing) == with_lines(before, ["all @ outermost: pin j"])
    editing.action("undo").trigger()
    assert advice(editing) == before


def test_a_drop_faster_than_its_answer_is_applied_all_the_same(editing: Window, qtbot: object) -> None:
    before, schedule = advice(editing), editing.panels.schedule
    schedule.select_tab(SPACE)
    explored(editing, qtbot)
    schedule.space.canvas.dropped.emit(AxisDrag(ACROSS, tile=8))
    explored(editing, qtbot)
    assert advice(editing) == with_lines(before, ["all @ j: split 8"])
    schedule.space.canvas.dropped.emit(AxisDrag(ACROSS, tile=64))
    explored(editing, qtbot)
    assert advice(editing) == with_lines(before, ["all @ j: split 8"]), "an illegal tile is said, not applied"
    assert "exceeds the registers" in schedule.space.verdict.sentence.text()


def test_an_illegal_order_is_drawn_before_it_is_asked_for(editing: Window, qtbot: object) -> None:
    before, schedule = advice(editing), editing.panels.schedule
    apply(editing, qtbot, before + "# the order i j is the only one\n")
    before = advice(editing)
    schedule.select_tab(SPACE)
    explored(editing, qtbot)
    schedule.space.canvas.dropped.emit(AxisDrag(ACROSS, target=DOWN))
    explored(editing, qtbot)
    assert advice(editing) == before and schedule.space.chip.text() == "tried, not applied"
    assert [button.text() for button in schedule.space.verdict.buttons] == ["Apply Anyway", "Back"]
    schedule.space.verdict.buttons[1].click()
    explored(editing, qtbot)
    assert schedule.space.chip.text() == "order in use"
    schedule.space.canvas.dropped.emit(AxisDrag(ACROSS, target=DOWN))
    explored(editing, qtbot)
    schedule.space.verdict.buttons[0].click()
    explored(editing, qtbot)
    assert advice(editing) == with_lines(before, ["all @ outermost: pin j"])


def test_other_axes_are_chosen_and_remembered(editing: Window, qtbot: object) -> None:
    schedule = editing.panels.schedule
    schedule.select_tab(SPACE)
    explored(editing, qtbot)
    schedule.space.axes_requested.emit(("i", "j"))
    explored(editing, qtbot)
    assert [choice.currentText() for choice in schedule.space.choices] == ["i", "j", "—"]
    select(editing, qtbot, "layernorm_0")
    explored(editing, qtbot)
    assert schedule.space.choices[0].currentText() == "j"
    select(editing, qtbot)
    explored(editing, qtbot)
    assert schedule.space.choices[0].currentText() == "i"


def test_a_decision_is_asked_for_in_the_users_advice(editing: Window, qtbot: object) -> None:
    schedule = editing.panels.schedule
    schedule.select_tab(DECISIONS)
    explored(editing, qtbot)
    table = schedule.decisions.table
    table.setCurrentIndex(schedule.decisions.model.index(3, 0))
    qtbot.keyClick(table, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    explored(editing, qtbot)
    assert advice(editing).endswith("advice user\n  S1 @ outermost: pin j\n")


def test_addresses_are_counted_on_demand_and_compared_with_the_baseline(editing: Window, qtbot: object) -> None:
    page = editing.panels.schedule.addresses
    editing.panels.schedule.select_tab(ADDRESSES)
    explored(editing, qtbot)
    assert not list(page.table.rows), "nobody asked yet"
    page.button.click()
    explored(editing, qtbot)
    assert len(list(page.table.rows)) == 3 and "now 16 sectors" in titles(page.table)[0]
    apply(editing, qtbot, advice(editing).replace("vector 8", "vector 4"))
    assert not page.table.isVisible(), "counts of other advice are not shown as those of this one"
    page.button.click()
    explored(editing, qtbot)
    assert "before 16 sectors, ideal 16; now 2 sectors, ideal 2" in titles(page.table)[0]


def titles(view: object) -> list[str]:
    rows = view.rows  # type: ignore[attr-defined]
    return [rows.row_at(rows.index_of(key)).title for key in rows]


def test_the_menu_adds_an_entry(editing: Window, qtbot: object) -> None:
    constraints = editing.panels.constraints
    constraints.menu.aboutToShow.emit()
    menus = {action.text(): action.menu() for action in constraints.menu.actions()}
    before = advice(editing)
    menus["Blocks, Threads, Warps"].actions()[1].trigger()  # type: ignore[attr-defined]
    explored(editing, qtbot)
    assert advice(editing) == with_lines(before, ["all @ i: mark warp 4"])
    assert any("mark warp 4, user, honoured" in title for title in titles(constraints.tree))


def order_of(window: Window) -> list[str]:
    return [title for title in titles(window.panels.constraints.tree) if title.startswith("Scenario")]


def test_alternatives_are_reordered_by_keys(editing: Window, qtbot: object) -> None:
    apply(editing, qtbot, advice(editing) + ALTERNATIVES)
    tree, number = editing.panels.constraints.tree, advice(editing).count("advice ") - 1
    assert order_of(editing) == ["Scenario 1, first", "Scenario 2, second", "Scenario 3, third"]
    tree.setCurrentIndex(tree.rows.index_of(scenario_key((number, 2))))
    for expected in (["first", "third", "second"], ["third", "first", "second"], ["third", "first", "second"]):
        qtbot.keyClick(tree, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)  # type: ignore[attr-defined]
        explored(editing, qtbot)
        assert [title.partition(", ")[2] for title in order_of(editing)] == expected
    current = tree.rows.row_at(tree.currentIndex())
    assert current.title == "Scenario 1, third", "the keyboard goes with what it moves"
    for _ in range(2):
        editing.action("undo").trigger()
    assert order_of(editing) == ["Scenario 1, first", "Scenario 2, second", "Scenario 3, third"]


def test_alternatives_are_reordered_by_dragging(editing: Window, qtbot: object) -> None:
    apply(editing, qtbot, advice(editing) + ALTERNATIVES)
    tree = editing.panels.constraints.tree
    keys = [key for key in tree.rows if key.startswith("scenario")]
    tree.scrollTo(tree.rows.index_of(keys[-1]))
    tree.scrollToBottom()
    first, last = (tree.visualRect(tree.rows.index_of(key)) for key in (keys[0], keys[-1]))
    port, left = tree.viewport(), Qt.MouseButton.LeftButton
    start, end = first.topLeft() + QPoint(80, 8), last.bottomLeft() + QPoint(80, 2)
    qtbot.mousePress(port, left, pos=start)  # type: ignore[attr-defined]
    drag_over(port, start + QPoint(0, 12))
    drag_over(port, end)
    qtbot.mouseRelease(port, left, pos=end)  # type: ignore[attr-defined]
    explored(editing, qtbot)
    assert order_of(editing) == ["Scenario 1, second", "Scenario 2, third", "Scenario 3, first"]


def test_entries_are_copied_pasted_and_removed_by_keys(editing: Window, qtbot: object) -> None:
    tree, before = editing.panels.constraints.tree, advice(editing)
    key = next(key for key in tree.rows if "mark lane" in key)
    tree.setCurrentIndex(tree.rows.index_of(key))
    qtbot.keyClick(tree, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)  # type: ignore[attr-defined]
    assert QGuiApplication.clipboard().text() == "all @ innermost: mark lane 32  # because one warp holds a row"
    qtbot.keyClick(tree, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)  # type: ignore[attr-defined]
    explored(editing, qtbot)
    pasted = before + "advice user\n  all @ innermost: mark lane 32  # because one warp holds a row\n"
    assert advice(editing) == pasted
    mine = next(key for key in tree.rows if key.startswith("user:"))
    tree.setCurrentIndex(tree.rows.index_of(mine))
    qtbot.keyClick(tree, Qt.Key.Key_Delete)  # type: ignore[attr-defined]
    explored(editing, qtbot)
    assert advice(editing) == before + "advice user\n"


def test_pasted_text_with_an_error_is_shown_where_it_is_wrong_and_kept(editing: Window, qtbot: object) -> None:
    constraints, before = editing.panels.constraints, advice(editing)
    code = editing.panels.code.text.toPlainText()
    QGuiApplication.clipboard().setText("S0 @ i: split 2\nthis is not an entry\n")
    qtbot.keyClick(constraints.tree, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)  # type: ignore[attr-defined]
    explored(editing, qtbot)
    lines = constraints.text.edit.toPlainText().splitlines()
    assert lines[:-3] == before.splitlines() and lines[-2:] == ["  S0 @ i: split 2", "  this is not an entry"]
    assert constraints.pages.currentIndex() == 0 and constraints.tabs["Tree"].isChecked(), "the tree stays in front"
    assert constraints.refused.isVisible() and "this is not an entry" in constraints.refused.reason.text()
    constraints.refused.show_text.click()
    assert constraints.pages.currentIndex() == 1 and constraints.tabs["Text"].isChecked()
    assert "this is not an entry" in constraints.text.message.text()
    assert constraints.text.edit.marked == len(lines)
    assert editing.panels.code.text.toPlainText() == code
    editing.action("undo").trigger()
    assert advice(editing) == before and constraints.text.edit.marked == 0
    assert constraints.refused.isHidden()


def test_a_refused_edit_is_told_again_when_its_group_is_selected_again(editing: Window, qtbot: object) -> None:
    constraints = editing.panels.constraints
    constraints.select_tab(TEXT)
    constraints.text.edit.setPlainText(advice(editing) + "this is not an entry\n")
    constraints.text.request_apply()
    explored(editing, qtbot)
    assert constraints.pages.currentIndex() == 1, "an edit of the text is answered in the text"
    refused = advice(editing)
    select(editing, qtbot, "layernorm_0")
    assert constraints.refused.isHidden() and "this is not an entry" not in constraints.text.edit.toPlainText()
    select(editing, qtbot)
    assert not constraints.refused.isHidden()
    assert constraints.text.edit.toPlainText() == refused
    assert any("mark lane" in title for title in titles(constraints.tree)), "with the entries of the last legal advice"


def test_cancelling_gives_a_question_up_until_it_is_asked_again(editing: Window, qtbot: object) -> None:
    queries = editing.wiring.queries
    editing.workspace.edit("softmax_0", advice(editing) + "# slow\n")
    question = Question("moves", "softmax_0", advice(editing))
    client = editing.workspace.client
    qtbot.waitUntil(lambda: queries.is_open(question) and [job.verb for job in client.jobs] == ["moves"])  # type: ignore[attr-defined]
    editing.action("cancel").trigger()
    explored(editing, qtbot)
    assert "stopped" in editing.panels.moves.empty.sentence.text()
    queries.ask(question)
    explored(editing, qtbot)
    assert editing.panels.moves.subtitle.text() == "4 legal"


def test_everything_stays_in_its_place_at_a_small_size(make: Callable[..., Window], qtbot: object) -> None:
    window = make(1280, 800)
    window.open_file(MODEL)
    settle(window, qtbot)
    window.set_perspective("Schedule")
    select(window, qtbot)
    window.panels.schedule.select_tab(SPACE)
    apply(window, qtbot, with_lines(advice(window), [ILLEGAL]) + ALTERNATIVES.removeprefix("advice user\n"))
    widths = {name: window.docks[name].width() for name in ("code", "schedule", "constraints")}
    assert sum(widths.values()) <= 1280 and min(widths.values()) > 300
    assert window.panels.schedule.space.canvas.height() >= 150
