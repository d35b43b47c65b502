"""Editing by hand in the real window with the real worker: menu, alternatives, switches, paste, repair, interchange."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu

from app.session.client import COMMAND
from app.shell.window import Window
from tests.app.driving import PATIENCE, advice, select, settle
from tests.support.pointer import drag_over
from tests.support.stalls import assert_fluent_in
from views.constraints.painting import link_boxes
from views.constraints.rows import Links
from views.schedule.view import ADDRESSES, DECISIONS, SPACE
from views.space.geometry import ACROSS, DOWN

MODEL = str(Path(__file__).parents[2] / "resources" / "models" / "softmax_96x512.onnx")
GROUP = "softmax_0"
BACKWARDS = "required all @ innermost: cut S3 | S0 S1 S2"
ALTERNATIVES = """\
  either "blocks of two"
    all @ i: mark block 2
  or "blocks of four"
    all @ i: mark block 4
"""


def explored(window: Window, qtbot: object) -> None:
    """Waits until the worker has answered everything that the panels want."""
    settle(window, qtbot)
    queries, client = window.wiring.queries, window.workspace.client
    qtbot.waitUntil(lambda: queries.is_settled and client.is_idle, timeout=PATIENCE)  # type: ignore[attr-defined]
    qtbot.wait(1)  # type: ignore[attr-defined]  # what a person does next comes in a later turn of the event loop


def rows(window: Window) -> dict[str, str]:
    """Title of every row of the constraint tree -> its key."""
    tree = window.panels.constraints.tree
    return {tree.rows.row_at(tree.rows.index_of(key)).title: key for key in tree.rows}


def opened(make: Callable[..., Window], qtbot: object) -> Window:
    """The Schedule perspective with the softmax, every tab of it built before anything is timed."""
    window = make(command=COMMAND)
    window.workspace.start()
    window.open_file(MODEL)
    settle(window, qtbot)
    window.set_perspective("Schedule")
    select(window, qtbot, GROUP)
    for tab in (DECISIONS, ADDRESSES, SPACE):
        window.panels.schedule.select_tab(tab)
        explored(window, qtbot)
    return window


@pytest.mark.slow(sentinel=True)
def test_editing_by_hand_and_its_longest_stall(make: Callable[..., Window], qtbot: object) -> None:
    assert_fluent_in(lambda: opened(make, qtbot), lambda window: edit_by_hand(window, qtbot))


def edit_by_hand(window: Window, qtbot: object) -> None:
    """Every way of editing once."""
    add_from_menu(window, qtbot)
    reorder(window, qtbot)
    toggle(window, qtbot)
    paste_with_an_error(window, qtbot)
    repair_a_conflict(window, qtbot)
    drag_an_interchange(window, qtbot)
    drag_a_tile(window, qtbot)
    look_at_the_addresses(window, qtbot)


def add_from_menu(window: Window, qtbot: object) -> None:
    before, menu = advice(window), window.panels.constraints.menu
    menu.aboutToShow.emit()
    blocks = next(action.menu() for action in menu.actions() if action.text() == "Blocks, Threads, Warps")
    assert isinstance(blocks, QMenu)
    action = next(action for action in blocks.actions() if "Rows per block 1 → 2" in action.text())
    assert "▼" in action.text() or "▲" in action.text() or "0.0 %" in action.text(), "each with its predicted effect"
    action.trigger()
    explored(window, qtbot)
    kernel = window.workspace.kernel(GROUP)
    assert kernel is not None and kernel.legal and advice(window) != before
    assert "  BLOCKS = 48," in window.panels.code.text.toPlainText()
    window.action("undo").trigger()
    explored(window, qtbot)
    assert advice(window) == before


def reorder(window: Window, qtbot: object) -> None:
    before = advice(window)
    window.workspace.edit(GROUP, without_blocks(before) + "advice user\n" + ALTERNATIVES)
    explored(window, qtbot)
    tree = window.panels.constraints.tree
    assert "  BLOCKS = 48," in window.panels.code.text.toPlainText()
    outcomes = {title: tree.rows.row_at(tree.rows.index_of(key)).value for title, key in rows(window).items()}
    assert [outcomes[f"Scenario {k}, blocks of {n}"].outcome for k, n in ((1, "two"), (2, "four"))] == [  # type: ignore[attr-defined]
        "taken",
        "not reached",
    ]
    tree.setCurrentIndex(tree.rows.index_of(rows(window)["Scenario 2, blocks of four"]))
    qtbot.keyClick(tree, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)  # type: ignore[attr-defined]
    explored(window, qtbot)
    assert "Scenario 1, blocks of four" in rows(window)
    assert "  BLOCKS = 24," in window.panels.code.text.toPlainText()
    for _ in range(2):
        window.action("undo").trigger()
        explored(window, qtbot)
    assert advice(window) == before


def without_blocks(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if "mark block" not in line)


def toggle(window: Window, qtbot: object) -> None:
    tree, before = window.panels.constraints.tree, advice(window)
    for switched in (True, False):
        key = next(key for title, key in rows(window).items() if "mark vector 4" in title)
        tree.setCurrentIndex(tree.rows.index_of(key))
        qtbot.keyClick(tree, Qt.Key.Key_Space)  # type: ignore[attr-defined]
        explored(window, qtbot)
        assert ("off S0 @ innermost: mark vector 4" in advice(window)) is switched
        assert ("Pack<float, 4>" in window.panels.code.text.toPlainText()) is not switched
    assert advice(window) == before


def paste_with_an_error(window: Window, qtbot: object) -> None:
    constraints, before, code = window.panels.constraints, advice(window), window.panels.code.text.toPlainText()
    QGuiApplication.clipboard().setText("S0 @ j: pin j\nS1 @ j: pn j\n")
    qtbot.keyClick(constraints.tree, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)  # type: ignore[attr-defined]
    explored(window, qtbot)
    lines = constraints.text.edit.toPlainText().splitlines()
    assert lines[-2:] == ["  S0 @ j: pin j", "  S1 @ j: pn j"], "what was pasted is not lost"
    assert "no field is called 'pn'" in constraints.text.message.text()
    assert constraints.text.edit.marked == len(lines)
    assert window.panels.code.text.toPlainText() == code, "the schedule in use stays"
    window.action("undo").trigger()
    explored(window, qtbot)
    assert advice(window) == before
    constraints.select_tab("Tree")


def repair_a_conflict(window: Window, qtbot: object) -> None:
    tree, before = window.panels.constraints.tree, advice(window)
    window.workspace.edit(GROUP, before + f"advice user\n  {BACKWARDS}\n")
    explored(window, qtbot)
    space = window.panels.schedule.space
    assert space.chip.text() == "order as requested" and "violated" in space.verdict.title.text()
    index = tree.rows.index_of(rows(window)["Show instances, Make optional, Disable"])
    links = tree.rows.row_at(index).value
    assert isinstance(links, Links)
    left, right = link_boxes(links)[1]
    tree.scrollTo(index)
    at = QPoint(round((left + right) / 2), tree.visualRect(index).center().y())
    qtbot.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=at)  # type: ignore[attr-defined]
    explored(window, qtbot)
    assert advice(window).endswith(f"  {BACKWARDS.removeprefix('required ')}\n")
    kernel = window.workspace.kernel(GROUP)
    assert kernel is not None and kernel.legal
    window.action("undo").trigger()
    explored(window, qtbot)
    assert advice(window) == before


def dragged(window: Window, qtbot: object, start: QPointF, end: QPointF) -> None:
    """Presses, moves, waits for what the drop would mean, lets go."""
    canvas, left = window.panels.schedule.space.canvas, Qt.MouseButton.LeftButton
    qtbot.mousePress(canvas, left, pos=start.toPoint())  # type: ignore[attr-defined]
    for part in (0.3, 0.7, 1.0):
        drag_over(canvas, (start + (end - start) * part).toPoint())
    explored(window, qtbot)
    qtbot.mouseRelease(canvas, left, pos=end.toPoint())  # type: ignore[attr-defined]


def drag_an_interchange(window: Window, qtbot: object) -> None:
    space, before = window.panels.schedule.space, advice(window)
    plan = space.canvas.plan
    assert plan is not None
    dragged(window, qtbot, plan.label_box(ACROSS).center(), plan.label_box(DOWN).center())
    explored(window, qtbot)
    assert advice(window) == before, "the sums forbid j outside i, so the order is drawn and not applied"
    assert space.chip.text() == "tried, not applied" and "2 of 4 dependences" in space.verdict.title.text()
    assert "reads it first" in space.verdict.sentence.text()
    space.verdict.buttons[-1].click()
    explored(window, qtbot)
    assert space.chip.text() == "order in use"


def drag_a_tile(window: Window, qtbot: object) -> None:
    canvas, before = window.panels.schedule.space.canvas, advice(window)
    plan = canvas.plan
    assert plan is not None and canvas.plan is not None
    present = plan.doc.axes[DOWN].tile
    dragged(window, qtbot, plan.handle_box(DOWN, present).center(), plan.handle_box(DOWN, 4).center())
    explored(window, qtbot)
    kernel = window.workspace.kernel(GROUP)
    assert kernel is not None and kernel.legal and "@ outermost: mark block 4" in advice(window)
    assert canvas.plan.doc.axes[DOWN].tile == 4
    window.action("undo").trigger()
    explored(window, qtbot)
    assert advice(window) == before


def look_at_the_addresses(window: Window, qtbot: object) -> None:
    page = window.panels.schedule.addresses
    window.panels.schedule.select_tab(ADDRESSES)
    page.button.click()
    explored(window, qtbot)
    titles = [page.table.rows.row_at(page.table.rows.index_of(key)).title for key in page.table.rows]
    assert any("global load of x, 16 bytes a lane; now 16 sectors, ideal 16" in title for title in titles)
    window.panels.schedule.select_tab(SPACE)
    explored(window, qtbot)


@pytest.mark.slow(sentinel=True)
def test_a_legal_interchange_is_applied_and_taken_back(make: Callable[..., Window], qtbot: object) -> None:
    window = make(command=COMMAND)
    window.workspace.start()
    window.open_file(str(Path(MODEL).with_name("bert_tiny.onnx")))
    settle(window, qtbot)
    window.set_perspective("Schedule")
    before = select(window, qtbot, "matmul_2")
    window.panels.schedule.select_tab(SPACE)
    explored(window, qtbot)
    plan = window.panels.schedule.space.canvas.plan
    assert plan is not None and plan.doc.order[:2] == ("i", "j")
    dragged(window, qtbot, plan.label_box(ACROSS).center(), plan.label_box(DOWN).center())
    explored(window, qtbot)
    kernel = window.workspace.kernel("matmul_2")
    assert kernel is not None and kernel.legal and kernel.recipe != before.recipe
    (outer,) = kernel.schedule.children
    assert (outer.dimension, outer.children[0].dimension) == ("j", "i")
    changed = window.panels.schedule.space.canvas.plan
    assert changed is not None and changed.doc.order[:2] == ("j", "i") and not changed.doc.violated
    window.action("undo").trigger()
    explored(window, qtbot)
    assert window.workspace.kernel("matmul_2") is before
