"""The history panel: where chips stand, and what keys and clicks on them do."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage, QPixmap
from PySide6.QtWidgets import QApplication

from app.session.client import COMMAND
from app.session.history import NO_STEP, History, HistoryStep
from app.session.recovery import journal_folder, read_journal
from app.shell.window import Window
from engine.documents.model import Time
from tests.app.driving import select, settle
from tests.app.test_real_session import MODEL
from tests.support.stalls import assert_fluent, assert_fluent_in
from views.history.layout import lay_out_steps

GROUP = "softmax_0"
"""Of the made-up model."""
REAL_GROUP = "matmul_1"
"""Of bert_tiny: 32 rows, every power of two of which may be a block."""


@pytest.mark.parametrize(
    ("parents", "lanes"),
    [
        ([-1], [0]),
        ([-1, 0, 1], [0, 0, 0]),
        ([-1, 0, 1, 1], [0, 0, 0, 1]),
        ([-1, 0, 0, 1, 1], [0, 0, 2, 0, 1]),  # the branch further right stays nearer, so that nothing crosses
        ([-1, 0, 0, 2, 0], [0, 0, 1, 1, 2]),
    ],
)
def test_branches_stand_in_lanes_below(parents: list[int], lanes: list[int]) -> None:
    assert list(lay_out_steps(parents).lanes) == lanes


def test_no_two_chips_share_a_place() -> None:
    dice = random.Random(5)
    for _ in range(60):
        parents = [-1] + [dice.randrange(max(number - 6, 0), number) for number in range(1, 80)]
        places = lay_out_steps(parents)
        cells = list(zip(places.columns, places.lanes, strict=True))
        assert len(set(cells)) == len(cells)
        for number, parent in enumerate(parents[1:], 1):
            assert places.columns[number] == places.columns[parent] + 1
            assert places.lanes[number] >= places.lanes[parent]


@pytest.mark.parametrize("shape", ["chain", "comb", "star"])
def test_ten_thousand_steps_are_placed_in_a_blink(shape: str) -> None:
    count = 10_000
    parents = {
        "chain": list(range(-1, count - 1)),
        "comb": [-1] + [number - 1 if number % 2 else max(number - 2, 0) for number in range(1, count)],
        "star": [-1] + [0] * 999,
    }[shape]
    started = time.process_time()
    lay_out_steps(parents)
    assert time.process_time() - started < 0.5


def branched(window: Window, qtbot: object) -> History:
    """The first step, one after it, and a branch of two."""
    kernel = select(window, qtbot, GROUP)
    window.set_perspective("Schedule")
    for texts in (("block 4",), ("block 2", "block 1")):
        window.workspace.go(GROUP, 0)
        for text in texts:
            window.workspace.edit(GROUP, kernel.recipe.replace("block 8", text))
            settle(window, qtbot)
    return window.workspace.histories[GROUP]


def press(window: Window, qtbot: Any, *keys: Qt.Key) -> int:
    for key in keys:
        qtbot.keyClick(window.panels.history.canvas, key)
    settle(window, qtbot)
    return window.panels.history.selected


@pytest.mark.slow(sentinel=True)
def test_keys_walk_along_the_tree(window: Window, qtbot: object) -> None:
    history = branched(window, qtbot)
    keys = Qt.Key
    assert window.panels.history.selected == history.current == 3
    assert press(window, qtbot, keys.Key_Left) == 2
    assert press(window, qtbot, keys.Key_Up) == 1
    assert press(window, qtbot, keys.Key_Home) == 0
    assert history.current == 3, "selecting goes nowhere yet"
    assert press(window, qtbot, keys.Key_Down) == 2
    assert press(window, qtbot, keys.Key_Return) == 2
    assert history.current == 2 and "block 2" in window.panels.constraints.text.edit.toPlainText()
    assert press(window, qtbot, keys.Key_Right) == 3, "where redo would go"
    assert press(window, qtbot, keys.Key_End, keys.Key_Right) == 3


@pytest.mark.slow(sentinel=True)
def test_the_selected_step_stays_in_sight_where_the_panel_becomes_narrow(window: Window, qtbot: Any) -> None:
    branched(window, qtbot)
    canvas = window.panels.history.canvas
    assert canvas.viewport().rect().contains(canvas.box_of(canvas.selected))
    canvas.setFixedWidth(400)
    qtbot.wait(50)
    assert canvas.viewport().rect().contains(canvas.box_of(canvas.selected))


@pytest.mark.slow(sentinel=True)
def test_a_click_selects_and_a_double_click_goes_there(window: Window, qtbot: Any) -> None:
    history = branched(window, qtbot)
    canvas = window.panels.history.canvas
    button = Qt.MouseButton.LeftButton
    at = canvas.box_of(1).center()
    qtbot.mouseClick(canvas.viewport(), button, pos=at)
    assert canvas.selected == 1 and history.current == 3
    qtbot.mouseClick(canvas.viewport(), button, pos=canvas.box_of(1).bottomRight() + QPoint(9, 0))
    assert canvas.selected == 1, "between the chips there is nothing"
    qtbot.mouseDClick(canvas.viewport(), button, pos=at)
    assert history.current == 1
    assert window.workspace.client.is_idle, "from the cache"


def test_the_baseline_is_pinned_and_gains_are_counted_from_it(window: Window, qtbot: object) -> None:
    history = branched(window, qtbot)
    history.learn(history.steps[1].text, predicted=Time(10.0, "predicted"))
    history.learn(history.steps[3].text, predicted=Time(5.0, "predicted"))
    window.panels.history.canvas.select(1)
    window.panels.history.canvas.setFocus()
    window.action("pin").trigger()
    assert history.baseline == 1
    window.panels.history.canvas.select(3)
    modelled, counted, checked, floor, measured = window.panels.history.summary.texts()
    assert modelled == "Gain, predicted ▼ 50.0 % 10.0 µs → 5.0 µs"
    assert counted == "Gain, counted — F8 counts sectors"
    assert measured == "Gain, measured — step not measured"
    assert "for 101 MB" in floor and checked == "Checked — F8 to check"


@pytest.mark.slow(sentinel=True)
def test_a_check_is_seen_on_the_chip(window: Window, qtbot: object) -> None:
    branched(window, qtbot)
    window.action("check").trigger()
    settle(window, qtbot)
    assert "Checked 48 / 6,144 blocks, source and ptx, late and early" in window.panels.history.summary.texts()


@pytest.mark.slow(sentinel=True)
def test_a_remark_is_written_to_the_selected_step(window: Window, qtbot: Any) -> None:
    history = branched(window, qtbot)
    window.panels.history.canvas.select(1)
    window.action("note").trigger()
    field = window.panels.history.summary.note
    qtbot.keyClicks(field, "worth a second look")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert history.steps[1].note == "worth a second look" and history.steps[3].note == ""
    window.panels.history.canvas.select(3)
    assert field.text() == ""


@pytest.mark.slow(sentinel=True)
def test_another_group_has_another_history(window: Window, qtbot: object) -> None:
    branched(window, qtbot)
    select(window, qtbot, "matmul_4")
    assert window.panels.history.selected == 0 and len(window.workspace.histories["matmul_4"].steps) == 1
    select(window, qtbot, GROUP)
    assert window.panels.history.selected == 3


@pytest.mark.slow(sentinel=True)
def test_ten_thousand_steps_hold_up_nothing(window: Window, qtbot: object) -> None:
    """Shown, walked, edited and journalled with 10,000 steps."""
    kernel = select(window, qtbot, GROUP)
    window.set_perspective("Schedule")
    steps = [HistoryStep(kernel.recipe, "As advised", NO_STEP, kernel.time)]
    steps += [HistoryStep(f"{kernel.recipe}# {number}\n", f"step {number}", number - 1) for number in range(1, 10_000)]
    window.workspace.histories[GROUP] = History(steps)
    window.workspace.go(GROUP, 0)
    window.workspace.edit(GROUP, kernel.recipe.replace("block 8", "block 3"))
    settle(window, qtbot)
    blocks = count(4)

    def work() -> None:
        window.workspace.edit(GROUP, kernel.recipe.replace("block 8", f"block {next(blocks)}"))
        settle(window, qtbot)
        window.action("undo").trigger()
        press(window, qtbot, Qt.Key.Key_Left, Qt.Key.Key_Home)
        window.action("redo").trigger()
        settle(window, qtbot)

    assert_fluent(work)


def picture(window: Window, theme: str) -> QImage:
    window.set_theme(theme)
    shown: QPixmap = window.docks["history"].grab()
    return shown.toImage()


@pytest.mark.slow(sentinel=True)
def test_both_themes_paint_the_chips(window: Window, qtbot: object) -> None:
    history = branched(window, qtbot)
    canvas = window.panels.history.canvas
    for theme in ("dark", "light"):
        image = picture(window, theme)
        box = canvas.box_of(history.current)
        inside = canvas.viewport().mapTo(window.docks["history"], box.topLeft() + QPoint(6, 34))
        other = canvas.viewport().mapTo(window.docks["history"], canvas.box_of(0).topLeft() + QPoint(6, 34))
        assert image.pixelColor(inside) == window.theme.colour("accent-bg")
        assert image.pixelColor(other) == window.theme.colour("panel")


@pytest.mark.slow(sentinel=True)
def test_ten_real_edits_and_their_longest_stall(make: Callable[..., Window], qtbot: object, tmp_path: Path) -> None:
    assert_fluent_in(lambda: _real_window(make, qtbot), lambda window: _edit_for_real(window, qtbot, tmp_path))


def _real_window(make: Callable[..., Window], qtbot: object) -> Window:
    window = make(command=COMMAND)
    window.set_perspective("Schedule")
    window.open_file(MODEL)
    settle(window, qtbot)
    select(window, qtbot, REAL_GROUP)
    settle(window, qtbot)
    return window


def _edit_for_real(window: Window, qtbot: Any, tmp_path: Path) -> None:
    """Ten edits, ten undos, a branch, a saved workspace, with the real worker."""
    kernel = window.workspace.legal_kernel(REAL_GROUP)
    assert kernel is not None
    assert "mark block 8" in kernel.recipe
    cuda = [kernel.cuda]
    for number in range(10):
        block = 2 ** (number % 3)
        text = kernel.recipe.replace("mark block 8", f"mark block {block}") + f"# {number}\n"
        window.workspace.edit(REAL_GROUP, text)
        settle(window, qtbot)
        made = window.workspace.legal_kernel(REAL_GROUP)
        assert made is not None and window.workspace.recipe(REAL_GROUP) == text
        cuda.append(made.cuda)
    history = window.workspace.histories[REAL_GROUP]
    assert len(history.steps) == 11 and all(step.predicted for step in history.steps)
    for expected in reversed(cuda[:-1]):
        window.action("undo").trigger()
        assert window.panels.code.text.toPlainText().rstrip() == expected.rstrip(), "at once, from the cache"
        QApplication.processEvents()  # two key presses are two events
    for expected in cuda[1:6]:
        window.action("redo").trigger()
        assert window.panels.code.text.toPlainText().rstrip() == expected.rstrip()
        QApplication.processEvents()
    window.workspace.edit(REAL_GROUP, kernel.recipe.replace("mark block 8", "mark block 32"))
    settle(window, qtbot)
    assert history.steps[11].parent == 5 and len(history.children(5)) == 2
    (file,) = journal_folder().glob("*.journal")
    left = read_journal(file)
    assert left is not None and left.content.groups[REAL_GROUP] == history.trail() and left.edits == 11
    window.document.save(str(tmp_path / "mine.loom"))
    qtbot.waitUntil(lambda: window.document.is_idle)
