"""Undo and redo are one list for the document, whatever is selected."""

from __future__ import annotations

import pytest

from app.session import undo_stack
from app.shell.window import Window
from tests.app.driving import advice, select, settle


def groups(window: Window) -> tuple[str, str]:
    model = window.workspace.model
    assert model is not None
    first, second = (group.name for group in model.groups[:2])
    return first, second


def edit(window: Window, qtbot: object, group: str, line: str) -> str:
    """Adds an entry to a group's advice; the advice then."""
    window.workspace.edit(group, advice(window, group) + f"advice user\n  {line}\n")
    settle(window, qtbot)
    return advice(window, group)


def trigger(window: Window, qtbot: object, action: str) -> None:
    window.action(action).trigger()
    settle(window, qtbot)


@pytest.mark.slow(sentinel=True)
def test_edits_of_two_groups_are_taken_back_in_their_order_and_nothing_is_selected(
    quiet: Window, qtbot: object
) -> None:
    window = quiet
    a, b = groups(window)
    start = {}
    for group in (a, b):
        select(window, qtbot, group)
        start[group] = advice(window, group)
    first = edit(window, qtbot, a, "S0 @ i: mark block 16")
    second = edit(window, qtbot, b, "S0 @ i: mark block 32")
    select(window, qtbot, a)
    selected = window.workspace.bus.selection
    trigger(window, qtbot, "undo")
    assert (advice(window, a), advice(window, b)) == (first, start[b]), "the newest first, though a is selected"
    title = window.workspace.group(b).title  # type: ignore[union-attr]
    assert window.status.currentMessage() == f"Undo: Block 32 on S0, {title}"
    trigger(window, qtbot, "undo")
    assert (advice(window, a), advice(window, b)) == (start[a], start[b])
    assert not window.action("undo").isEnabled()
    trigger(window, qtbot, "redo")
    assert (advice(window, a), advice(window, b)) == (first, start[b]), "what was taken back last comes first"
    trigger(window, qtbot, "redo")
    assert (advice(window, a), advice(window, b)) == (first, second)
    assert not window.action("redo").isEnabled()
    assert window.workspace.bus.selection == selected


def test_undo_works_with_nothing_selected(quiet: Window, qtbot: object) -> None:
    a, _ = groups(quiet)
    select(quiet, qtbot, a)
    before = advice(quiet, a)
    edit(quiet, qtbot, a, "S0 @ i: mark block 16")
    quiet.workspace.bus.select_group("")
    assert quiet.action("undo").isEnabled()
    trigger(quiet, qtbot, "undo")
    assert advice(quiet, a) == before and quiet.workspace.bus.selection.group == ""


def test_a_new_edit_ends_what_could_be_made_again(quiet: Window, qtbot: object) -> None:
    a, b = groups(quiet)
    for group in (a, b):
        select(quiet, qtbot, group)
    edit(quiet, qtbot, b, "S0 @ i: mark block 32")
    trigger(quiet, qtbot, "undo")
    assert quiet.action("redo").isEnabled()
    select(quiet, qtbot, a)
    edit(quiet, qtbot, a, "S0 @ i: mark block 16")
    assert not quiet.action("redo").isEnabled()


def test_the_order_of_old_edits_is_forgotten_and_said_once_and_none_is_lost(
    quiet: Window, qtbot: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo_stack, "LIMIT", 3)
    stack, said = quiet.undo_stack, []
    stack._has_told = False
    stack.acted.connect(said.append)
    a, b = groups(quiet)
    for group in (a, b):
        select(quiet, qtbot, group)
    texts = {a: [advice(quiet, a)], b: [advice(quiet, b)]}
    order = (a, b, a, b, a, b)
    for number, group in enumerate(order):
        texts[group].append(edit(quiet, qtbot, group, f"S0 @ i: mark block {8 << number}"))
        assert len({when for _, times in stack._made.values() for when in times.values()} - {0}) <= 3
        assert len(said) == (number >= 3)
    assert said == ["Undo: the order of edits before the last 3 is forgotten"]
    for group in reversed(order[3:]):
        texts[group].pop()
        trigger(quiet, qtbot, "undo")
        assert advice(quiet, group) == texts[group][-1], "of the newest ones the order is known"
    for _ in order[:3]:
        trigger(quiet, qtbot, "undo")
    assert [advice(quiet, group) for group in (a, b)] == [texts[group][0] for group in (a, b)]
    assert not quiet.action("undo").isEnabled()
    trigger(quiet, qtbot, "redo")
    assert quiet.action("redo").isEnabled(), "coming back to an old step was no new edit"
    stack.acted.disconnect(said.append)
