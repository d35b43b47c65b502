"""Searching in the window: the list, its keys, what it says, and where it leads."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt

from app.session.client import COMMAND
from app.shell.window import Window
from engine.documents.model import launch_of_operators
from tests.app.driving import settle
from tests.support import large_models
from tests.support.stalls import STALL_MS, assert_fluent_in
from views.hierarchy import LEVEL
from views.search.hits import Hit

OPERATORS = 6000
MARGIN = 5
"""For a machine that does other things, too."""
OPENED = 60_000
"""Milliseconds until the graph must be there: what is asserted is that the window stays fluent meanwhile."""


def listed(window: Window) -> list[Hit]:
    model = window.search.list.rows
    found = [model.row_at(model.index_of(key)).value for key in model]
    assert all(isinstance(hit, Hit) for hit in found)
    return found  # type: ignore[return-value]


def typed(window: Window, qtbot: object, text: str) -> None:
    window.search.setFocus()
    window.search.clear()
    qtbot.keyClicks(window.search, text)  # type: ignore[attr-defined]


def test_arrows_and_return_go_to_what_is_listed(window: Window, qtbot: object) -> None:
    window.activateWindow()
    typed(window, qtbot, "type:matmul")
    assert window.search.popup is not None and window.search.popup.isVisible()
    groups = [hit.group for hit in listed(window) if not hit.node]
    assert len(groups) == 6 and window.panels.graph.scene.look.found == set(groups)
    assert window.search.summary.text() == "72 operators in 6 groups"
    qtbot.keyClick(window.search, Qt.Key.Key_Down)  # type: ignore[attr-defined]
    qtbot.keyClick(window.search, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    settle(window, qtbot)
    assert window.wiring.group == groups[1]
    assert not window.search.popup.isVisible() and not window.panels.graph.scene.look.found


def test_escape_closes_the_list_and_lights_everything_up_again(window: Window, qtbot: object) -> None:
    typed(window, qtbot, "softmax")
    assert window.panels.graph.scene.look.found
    qtbot.keyClick(window.search, Qt.Key.Key_Escape)  # type: ignore[attr-defined]
    assert window.search.popup is not None and not window.search.popup.isVisible()
    assert not window.panels.graph.scene.look.found and not window.wiring.group


@pytest.mark.parametrize(
    ("text", "said"), [("nothing_like_it", "nothing found"), ("/(a/", "unterminated"), ("a >", "both")]
)
def test_what_cannot_be_found_is_said_in_both_places(window: Window, qtbot: object, text: str, said: str) -> None:
    typed(window, qtbot, text)
    assert said in window.search.summary.text() and not listed(window)
    qtbot.keyClick(window.search, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    assert not window.wiring.group
    outline = window.panels.outline
    outline.filter.setText(text)
    assert said in outline.told.text() and not outline.told.isHidden()
    outline.filter.clear()
    assert outline.told.isHidden()


@pytest.mark.slow(sentinel=True)
def test_a_large_graph_opens_level_by_level_and_search_opens_the_way(
    make: object, qtbot: object, tmp_path: Path
) -> None:
    model = large_models.blocks(OPERATORS)
    model.save(tmp_path)

    def started() -> Window:
        window: Window = make(command=COMMAND)  # type: ignore[operator]
        window.workspace.start()
        settle(window, qtbot)
        return window

    path = tmp_path / f"{model.name}.onnx"
    assert_fluent_in(started, lambda window: open_and_find_the_last(window, qtbot, path), MARGIN * STALL_MS)


def open_and_find_the_last(window: Window, qtbot: object, path: Path) -> None:
    window.open_file(str(path))
    settle(window, qtbot, OPENED)
    scene = window.panels.graph.scene
    assert 1 < len(scene.drawing.placed) <= LEVEL and not scene.opened
    model = window.workspace.model
    launch_of = launch_of_operators(model)
    last = next(each for each in reversed(model.operators) if each.name in launch_of)
    typed(window, qtbot, f"/{last.name}$/")
    assert [hit.title for hit in listed(window) if hit.node] == [last.name]
    qtbot.keyClick(window.search, Qt.Key.Key_Down)  # type: ignore[attr-defined]
    qtbot.keyClick(window.search, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    settle(window, qtbot, OPENED)
    item = scene.item_of(launch_of[last.name].id)
    assert item is not None and scene.look.is_selected(item.placed)
    assert window.panels.graph.canvas._sight().contains(item.sceneBoundingRect().center())
