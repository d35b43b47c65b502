"""Edits of the advice: applied, refused, taken back."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt

from app.shell.window import Window
from engine.pipeline.detect import MAX_STAGES
from tests.app.driving import advice, select, settle
from views.constraints.form import FIELDS
from views.constraints.painting import link_boxes
from views.constraints.rows import Links
from views.rows import TreeRow

CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
ILLEGAL = "  required S2 @ j: parallel true"


@pytest.fixture
def window(quiet: Window) -> Window:
    return quiet


def apply(window: Window, qtbot: object, text: str) -> None:
    """Types advice and presses Apply."""
    window.panels.constraints.text.edit.setPlainText(text)
    window.action("apply").trigger()
    settle(window, qtbot)


def test_apply_waits_for_a_draft(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    assert not window.action("apply").isEnabled()
    window.panels.constraints.text.edit.setPlainText(advice(window) + "# a remark\n")
    assert window.action("apply").isEnabled()


def test_keys_in_the_editor_apply_and_take_back(window: Window, qtbot: Any) -> None:
    select(window, qtbot)
    window.set_perspective("Schedule")
    window.panels.constraints.select_tab("Text")
    changed = advice(window).replace("block 8", "block 4")
    editor = window.panels.constraints.text
    before = advice(window)
    editor.edit.setPlainText(changed)
    editor.edit.setFocus()
    qtbot.keyClick(editor.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    settle(window, qtbot)
    assert advice(window) == changed
    assert not editor.is_draft
    qtbot.keyClick(editor.edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    settle(window, qtbot)
    assert advice(window) == before == editor.edit.toPlainText()


@pytest.mark.parametrize("redo", [(Qt.Key.Key_Y, CONTROL), (Qt.Key.Key_Z, CONTROL | SHIFT)])
def test_the_keys_of_redo_are_the_editors_while_there_is_a_draft(
    window: Window, qtbot: object, redo: tuple[Qt.Key, Qt.KeyboardModifier]
) -> None:
    before = select(window, qtbot)
    apply(window, qtbot, advice(window).replace("stages 2", "stages 3"))
    window.action("undo").trigger()
    assert window.workspace.legal_kernel("softmax_0") is before
    window.set_perspective("Schedule")
    window.panels.constraints.select_tab("Text")
    editor = window.panels.constraints.text
    editor.edit.setFocus()
    qtbot.keyClicks(editor.edit, "# mine")  # type: ignore[attr-defined]
    qtbot.keyClick(editor.edit, Qt.Key.Key_Backspace)  # type: ignore[attr-defined]
    qtbot.keyClick(editor.edit, Qt.Key.Key_Z, CONTROL)  # type: ignore[attr-defined]
    assert editor.is_draft and "# mine" in editor.edit.toPlainText()
    qtbot.keyClick(editor.edit, *redo)  # type: ignore[attr-defined]
    assert "# min" in editor.edit.toPlainText() and "# mine" not in editor.edit.toPlainText()
    assert window.workspace.legal_kernel("softmax_0") is before, "the window made nothing again"
    editor.edit.setPlainText(advice(window))
    qtbot.keyClick(editor.edit, *redo)  # type: ignore[attr-defined]
    settle(window, qtbot)
    after = window.workspace.legal_kernel("softmax_0")
    assert after is not None and after.stages == 3, "without a draft it is the window that makes again"


def test_undo_and_redo_come_from_the_cache(window: Window, qtbot: object) -> None:
    before = select(window, qtbot)
    apply(window, qtbot, advice(window).replace("stages 2", "stages 3"))
    after = window.workspace.legal_kernel("softmax_0")
    assert after is not None and after.stages == 3
    window.action("undo").trigger()
    assert window.workspace.client.is_idle, "undo asks nobody"
    assert window.workspace.legal_kernel("softmax_0") is before
    window.action("redo").trigger()
    assert window.workspace.client.is_idle
    assert window.workspace.legal_kernel("softmax_0") is after
    assert window.panels.constraints.text.edit.toPlainText() == after.recipe


def test_an_illegal_edit_keeps_the_last_legal_schedule(window: Window, qtbot: object) -> None:
    before = select(window, qtbot)
    code = window.panels.code.text.toPlainText()
    apply(window, qtbot, advice(window) + "advice user\n" + ILLEGAL + "\n")
    kernel = window.workspace.kernel("softmax_0")
    assert kernel is not None and not kernel.legal
    assert window.workspace.legal_kernel("softmax_0") is before
    assert window.panels.code.text.toPlainText() == code
    assert "last one with a kernel" in window.panels.schedule.shape.text()
    assert "S2(i=2, j=3)" in window.workspace.problems[-1][1].reason
    rows = window.panels.constraints.tree.rows
    assert any("S2(i=2, j=3)" in rows.row_at(rows.index_of(key)).title for key in rows)
    assert window.status.problems.text() == "Problems 1"
    window.action("undo").trigger()
    assert window.status.problems.text() == "Problems 0"
    assert "last one with a kernel" not in window.panels.schedule.shape.text()


def test_advice_that_does_not_parse_is_said_inline(window: Window, qtbot: object) -> None:
    before = select(window, qtbot)
    apply(window, qtbot, advice(window) + "this is not an entry\n")
    assert "this is not an entry" in window.panels.constraints.text.message.text()
    assert window.workspace.legal_kernel("softmax_0") is before
    assert window.panels.constraints.text.edit.toPlainText().endswith("this is not an entry\n")
    window.action("undo").trigger()
    assert "not an entry" not in window.panels.constraints.text.message.text()


def entry_row(window: Window, part: str) -> TreeRow:
    rows = window.panels.constraints.tree.rows
    return next(row for row in (rows.row_at(rows.index_of(key)) for key in rows) if part in row.title)


def click(window: Window, qtbot: Any, part: str) -> None:
    """Clicks the text of a row as a person does."""
    tree = window.panels.constraints.tree
    index = tree.rows.index_of(entry_row(window, part).key)
    tree.scrollTo(index)
    at = tree.visualRect(index).topLeft() + QPoint(62, 8)
    qtbot.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=at)
    settle(window, qtbot)


def links_row(window: Window) -> TreeRow:
    tree = window.panels.constraints.tree
    rows = (tree.rows.row_at(tree.rows.index_of(key)) for key in tree.rows)
    return next(row for row in rows if isinstance(row.value, Links))


def click_link(window: Window, qtbot: Any, name: str) -> None:
    """Clicks one of the links in the box of what cannot hold."""
    tree, row = window.panels.constraints.tree, links_row(window)
    index, links = tree.rows.index_of(row.key), row.value
    assert isinstance(links, Links)
    tree.scrollTo(index)
    left, right = link_boxes(links)[[each for each, _ in links.repairs].index(name)]
    at = QPoint(round((left + right) / 2), tree.visualRect(index).center().y())
    qtbot.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=at)
    settle(window, qtbot)


@pytest.mark.parametrize(
    ("title", "line"), [("Make optional", "S2 @ j: parallel true"), ("Disable", "off required S2 @ j: parallel true")]
)
def test_a_repair_is_one_click_and_one_step_of_undo(window: Window, qtbot: object, title: str, line: str) -> None:
    before = select(window, qtbot)
    window.set_perspective("Schedule")
    illegal = advice(window) + "advice user\n" + ILLEGAL + "\n"
    apply(window, qtbot, illegal)
    steps = len(window.workspace.histories["softmax_0"].steps)
    click_link(window, qtbot, title)
    assert advice(window) == illegal.replace(ILLEGAL, f"  {line}")
    kernel = window.workspace.kernel("softmax_0")
    assert kernel is not None and kernel.legal and not window.workspace.problems
    assert len(window.workspace.histories["softmax_0"].steps) == steps + 1
    window.action("undo").trigger()
    assert advice(window) == before.recipe, "what was refused was never a step"
    window.action("redo").trigger()
    assert advice(window) == illegal.replace(ILLEGAL, f"  {line}")


def test_the_smallest_conflict_follows_the_verdict(window: Window, qtbot: Any) -> None:
    select(window, qtbot)
    window.set_perspective("Schedule")
    before, state = advice(window), window.panels.constraints.kernel_state
    window.workspace.edit("softmax_0", f"{before}advice user\n{ILLEGAL}\n# hard\n")
    qtbot.waitUntil(lambda: window.workspace.is_refused("softmax_0"))
    assert state.is_looking and state.kernel.text().startswith("Looking for the smallest conflict… No kernel")
    assert not any(repair for _, repair in links_row(window).value.repairs)
    settle(window, qtbot)
    assert not state.is_looking and state.kernel.text().startswith("No kernel")
    assert all(repair for name, repair in links_row(window).value.repairs if name in ("Make optional", "Disable"))
    assert len(window.workspace.problems) == 1, "its reason is told once"


def test_the_next_edit_is_not_told_the_conflict_of_the_one_before(window: Window, qtbot: Any) -> None:
    select(window, qtbot)
    window.set_perspective("Schedule")
    before, state = advice(window), window.panels.constraints.kernel_state
    window.workspace.edit("softmax_0", f"{before}advice user\n{ILLEGAL}\n# hard\n")
    qtbot.waitUntil(lambda: state.is_looking)
    window.workspace.edit("softmax_0", before.replace("block 8", "block 4"))
    assert not state.is_looking
    settle(window, qtbot)
    kernel = window.workspace.kernel("softmax_0")
    assert kernel is not None and kernel.legal and not window.workspace.problems


def test_a_repair_says_the_change_in_full(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    apply(window, qtbot, advice(window) + "advice user\n" + ILLEGAL + "\n")
    relax, disable = links_row(window).tip.splitlines()
    assert relax.startswith("Make optional: make “S2 @ j") and disable.startswith("Disable: switch off “required S2")


def test_what_was_refused_is_taken_back_and_asked_for_again(window: Window, qtbot: object) -> None:
    before = select(window, qtbot)
    history = window.workspace.histories["softmax_0"]
    illegal = advice(window) + "advice user\n" + ILLEGAL + "\n"
    for refused in (illegal, advice(window) + "this is not an entry\n"):
        apply(window, qtbot, refused)
        assert advice(window) == refused and len(history.steps) == 1, "no step, but not lost"
        window.action("undo").trigger()
        assert advice(window) == before.recipe and not window.workspace.problems
        assert not window.action("undo").isEnabled()
        window.action("redo").trigger()
        settle(window, qtbot)
        assert advice(window) == refused and window.workspace.problems
        window.action("undo").trigger()


def test_ten_edits_are_taken_back_and_made_again(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    texts = [advice(window)]
    for block in range(10, 20):
        apply(window, qtbot, texts[0].replace("block 8", f"block {block}"))
        texts.append(advice(window))
    assert len(set(texts)) == 11
    for text in reversed(texts[:-1]):
        window.action("undo").trigger()
        assert window.workspace.client.is_idle and advice(window) == text
        assert window.panels.constraints.text.edit.toPlainText() == text
    assert not window.action("undo").isEnabled()
    for text in texts[1:]:
        window.action("redo").trigger()
        assert window.workspace.client.is_idle and advice(window) == text
    assert not window.action("redo").isEnabled()


def test_an_edit_after_an_undo_is_a_branch(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    first = advice(window)
    apply(window, qtbot, first.replace("block 8", "block 4"))
    window.action("undo").trigger()
    apply(window, qtbot, first.replace("vector 8", "vector 4"))
    history = window.workspace.histories["softmax_0"]
    assert [(step.title, step.parent) for step in history.steps] == [
        ("Default schedule", -1),
        ("Block 8 → 4 at i", 0),
        ("Vector 8 → 4 on S1, S3", 0),
    ]
    window.action("undo").trigger()
    window.action("redo").trigger()
    assert history.current == 2, "redo goes where the last visit was"
    window.workspace.go("softmax_0", 1)
    window.action("undo").trigger()
    window.action("redo").trigger()
    assert history.current == 1


def test_edits_made_faster_than_they_are_answered_are_all_steps(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    first = advice(window)
    for block in range(20, 25):
        window.workspace.edit("softmax_0", first.replace("block 8", f"block {block}"))
    assert "block 24" in advice(window), "what was asked for last is shown"
    settle(window, qtbot)
    history = window.workspace.histories["softmax_0"]
    assert [step.parent for step in history.steps] == [-1, 0, 1, 2, 3, 4] and history.current == 5
    window.workspace.edit("softmax_0", first.replace("block 8", "block 30"))
    window.action("undo").trigger()
    settle(window, qtbot)
    assert history.current == 5 and len(history.steps) == 6, "an edit that is taken back in time is no step"


def test_an_edit_under_way_survives_a_cancel_as_a_draft(window: Window, qtbot: object) -> None:
    before = select(window, qtbot)
    changed = before.recipe.replace("block 8", "block 4")
    window.workspace.edit("softmax_0", changed)
    window.action("cancel").trigger()
    settle(window, qtbot)
    assert advice(window) == before.recipe
    window.action("redo").trigger()
    settle(window, qtbot)
    assert advice(window) == changed and window.workspace.histories["softmax_0"].current == 1


def test_return_follows_the_link_under_the_keyboard(window: Window, qtbot: Any) -> None:
    select(window, qtbot)
    refused = advice(window) + "advice user\n" + ILLEGAL + "\n"
    apply(window, qtbot, refused)
    tree = window.panels.constraints.tree
    tree.setCurrentIndex(tree.rows.index_of(links_row(window).key))
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Left):
        qtbot.keyClick(tree, key)
    qtbot.keyClick(tree, Qt.Key.Key_Return)
    settle(window, qtbot)
    assert advice(window) == refused.replace(ILLEGAL, ILLEGAL.replace("required ", "")), "the second link relaxes"
    kernel = window.workspace.kernel("softmax_0")
    assert kernel is not None and kernel.legal


def test_instances_of_a_conflict_are_shown(window: Window, qtbot: Any) -> None:
    select(window, qtbot)
    window.set_perspective("Schedule")
    apply(window, qtbot, advice(window) + "advice user\n" + ILLEGAL + "\n")
    click_link(window, qtbot, "Show instances")
    schedule = window.panels.schedule
    qtbot.waitUntil(lambda: schedule.space.canvas.plan is not None)
    assert schedule.tab == "Iteration space" and schedule.space.verdict.isVisible()
    assert schedule.space.verdict.title.text() == "1 of 9 dependences violated"


def test_a_repair_that_changes_the_program_is_one_click(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    window.set_perspective("Schedule")
    illegal = advice(window) + "advice user\n" + ILLEGAL + "\n"
    apply(window, qtbot, illegal)
    click(window, qtbot, "Let S2 add the terms")
    assert advice(window) == illegal + "  rewrite associative S2\n"


def test_an_entry_is_switched_off_and_on(window: Window, qtbot: Any) -> None:
    select(window, qtbot)
    text, tree = advice(window), window.panels.constraints.tree
    for expected in (True, False):
        tree.setCurrentIndex(tree.rows.index_of(entry_row(window, "mark lane 32").key))
        qtbot.keyClick(tree, Qt.Key.Key_Space)
        settle(window, qtbot)
        assert ("off all @ innermost: mark lane 32" in advice(window)) is expected
    assert advice(window) == text


def test_stages_are_one_click(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    window.panels.constraints.stages.buttons[3].click()
    settle(window, qtbot)
    assert "S0 @ k: mark stages 3" in advice(window)
    kernel = window.workspace.kernel("softmax_0")
    assert kernel is not None and kernel.stages == 3


def test_all_stages_that_a_kernel_may_have_are_offered_and_shown(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    bar = window.panels.constraints.stages
    kernel = window.workspace.kernel("softmax_0")
    assert kernel is not None
    entry = next(each for each in kernel.entries if "mark stages" in each.text)
    for stages in range(1, MAX_STAGES + 1):
        bar.show_stages(entry, stages)
        assert bar.buttons[stages].isChecked()


def test_the_form_adds_an_entry(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    form = window.panels.constraints.form
    form.statements.setCurrentText("S1")
    form.dimension.setCurrentText("j")
    form.field.setCurrentText("split")
    form.value.setText("4")
    form.add.click()
    settle(window, qtbot)
    assert advice(window).endswith("advice user\n  S1 @ j: split 4\n")
    entry_row(window, "split 4")


def test_the_form_has_room_for_what_it_offers_says_what_is_missing_and_closes(window: Window, qtbot: Any) -> None:
    select(window, qtbot)
    window.set_perspective("Schedule")
    constraints = window.panels.constraints
    constraints._show_form()
    constraints.setFixedWidth(360)
    qtbot.wait(50)
    form = constraints.form
    for field, example in FIELDS.items():
        form.field.setCurrentText(field)
        assert form.value.fontMetrics().horizontalAdvance(example) < form.value.width() - 16
    for choice in (form.statements, form.dimension, form.field):
        widest = max(choice.fontMetrics().horizontalAdvance(choice.itemText(k)) for k in range(choice.count()))
        assert widest < choice.width() - 32, choice.accessibleName()
    assert not form.add.isEnabled() and "first" in form.add.toolTip()
    form.value.setText("4")
    assert form.add.isEnabled()
    qtbot.keyClick(form.value, Qt.Key.Key_Escape)
    assert not form.isVisible() and constraints.tree.hasFocus()


def test_return_on_an_entry_edits_its_line_of_the_text(window: Window, qtbot: Any) -> None:
    select(window, qtbot)
    window.set_perspective("Schedule")
    constraints = window.panels.constraints
    row = entry_row(window, "mark block 8")
    constraints.tree.setCurrentIndex(constraints.tree.rows.index_of(row.key))
    qtbot.keyClick(constraints.tree, Qt.Key.Key_Return)
    assert constraints.tabs["Text"].isChecked() and constraints.text.edit.isVisible()
    assert "mark block 8" in constraints.text.edit.textCursor().selectedText()


def test_a_draft_survives_news_about_its_group(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    editor = window.panels.constraints.text
    draft = advice(window) + "# a remark\n"
    editor.edit.setPlainText(draft)
    window.action("check").trigger()
    settle(window, qtbot)
    assert editor.edit.toPlainText() == draft and editor.is_draft
    editor.revert.click()
    assert not editor.is_draft
