"""Two steps side by side, in the window; the documents themselves are tested with the engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt

from app.session.client import COMMAND
from app.shell.window import Window
from engine.documents.exploration import DiffLine, FigureDoc
from engine.documents.model import Time
from tests.app.driving import select, settle
from tests.app.test_real_session import MODEL
from views.diff.figures import change, figure_rows

GROUP = "softmax_0"


def compared(make: Callable[..., Window], qtbot: object) -> Window:
    """The real worker, and a step with two rows a block beside the first."""
    window = make(command=COMMAND)
    window.open_file(MODEL.replace("bert_tiny", "softmax_96x512"))
    settle(window, qtbot)
    kernel = select(window, qtbot, GROUP)
    window.workspace.edit(GROUP, kernel.recipe.replace("block 1", "block 2"))
    settle(window, qtbot)
    window.action("compare").trigger()
    settle(window, qtbot)
    return window


@pytest.mark.slow(sentinel=True)
def test_the_baseline_stands_beside_the_step(make: Callable[..., Window], qtbot: object) -> None:
    window = compared(make, qtbot)
    shown = window.diff
    assert shown.window.isVisible() and not shown.window.isModal()
    assert DiffLine("-", "  BLOCKS = 96,", 14, 0) in shown.view.texts["Code"].lines
    assert DiffLine("+", "  BLOCKS = 48,", 0, 14) in shown.view.texts["Code"].lines
    assert [line.mark for line in shown.view.texts["Entries"].lines] == ["-", "+"]
    rows = shown.view.figures.rows
    time = rows.row_at(rows.index_of("predicted time"))
    assert time.title == "time: 4.83 µs → 4.80 µs ▼ 0.6 %"
    assert shown.view.count.text() == "16 lines of code changed"
    shown.view.swap.click()
    settle(window, qtbot)
    assert DiffLine("+", "  BLOCKS = 96,", 0, 14) in shown.view.texts["Code"].lines
    qtbot.keyClick(shown.window, Qt.Key.Key_Escape)  # type: ignore[attr-defined]
    assert not shown.window.isVisible()


@pytest.mark.slow(sentinel=True)
def test_figures_of_the_history_stand_under_their_origin(make: Callable[..., Window], qtbot: object) -> None:
    window = compared(make, qtbot)
    window.action("check").trigger()
    settle(window, qtbot)
    history = window.workspace.histories[GROUP]
    history.learn(history.text, measured=Time(2.0, "measured", "H200"))
    window.action("compare").trigger()
    settle(window, qtbot)
    rows = window.diff.view.figures.rows
    titles = {key: rows.row_at(rows.index_of(key)).title for key in rows}
    assert titles["measured time"] == "time: — → 2.00 µs", "the other step was not measured, so there is no gain"
    assert titles["counted sectors"].startswith("sectors: — → 12,288")
    assert {"predicted", "measured", "counted", "compiled"} <= titles.keys()


@pytest.mark.slow(sentinel=True)
def test_a_step_that_does_not_compile_any_more_is_said(make: Callable[..., Window], qtbot: object) -> None:
    window = compared(make, qtbot)
    history = window.workspace.histories[GROUP]
    history.add("advice user\n  S9 @ i: split 4\n", "of an older program")
    window.diff.compare(GROUP, 0, 2)
    settle(window, qtbot)
    assert "S9" in window.diff.view.empty.sentence.text()


def test_gains_have_a_sign_and_an_origin() -> None:
    figures = [
        FigureDoc("time", "µs", 4.0, 3.0, "predicted", True),
        FigureDoc("occupancy", "%", 50.0, 100.0, "predicted", False),
        FigureDoc("blocks", "", 4.0, 2.0, "compiled", True),
        FigureDoc("time", "µs", None, 3.0, "measured", True),
        FigureDoc("time", "µs", 1.0, 14.99, "measured", True),
    ]
    assert [change(each) for each in figures] == ["▼ 25.0 %", "", "", "", "▲ 1,399 %"]
    assert [(row.key, len(row.children)) for row in figure_rows(figures)] == [
        ("predicted", 2), ("compiled", 1), ("measured", 2),
    ]  # fmt: skip
