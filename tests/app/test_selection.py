"""One selection in every panel: whoever starts it, all others follow."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt

from app.session.selection import Selection, SelectionBus
from app.shell.window import Window
from tests.app.driving import select, settle
from views.graph.items import BoxItem
from views.rows import RowView


@pytest.fixture
def window(quiet: Window) -> Window:
    return quiet


def click_row(qtbot: object, view: RowView, title: str) -> None:
    """Clicks the first row whose title contains `title`."""
    key = next(key for key in view.rows if title in view.rows.row_at(view.rows.index_of(key)).title)
    view.scrollTo(view.rows.index_of(key))
    box = view.visualRect(view.rows.index_of(key))
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(box.left() + 90, box.center().y()))  # type: ignore[attr-defined]


def marked_titles(view: RowView) -> list[str]:
    return [view.rows.row_at(view.rows.index_of(key)).title for key in view.rows if key in view.marked]


def test_equal_selections_are_sent_once() -> None:
    bus, heard = SelectionBus(), []
    bus.changed.connect(heard.append)
    bus.select_group("softmax_0")
    bus.select_group("softmax_0")
    bus.select_statements(("S1",))
    assert heard == [Selection("softmax_0"), Selection("softmax_0", ("S1",))]


def test_outline_leads(window: Window, qtbot: object) -> None:
    click_row(qtbot, window.panels.outline.tree, "softmax")
    settle(window, qtbot)
    panels = window.panels
    assert window.workspace.bus.selection == Selection("softmax_0")
    assert panels.graph.scene.look.selected == "softmax_0"
    assert marked_titles(panels.timing.kernels) == ["softmax"]
    assert panels.explain.subtitle.text() == panels.schedule.group.text() == "softmax"
    assert "softmax_0(const half*" in panels.code.text.toPlainText()
    assert "softmax" in window.status.selection.text()


def test_graph_leads(window: Window, qtbot: object) -> None:
    canvas = window.panels.graph.canvas
    item = next(box for box in window.panels.graph.scene.boxes_of("matmul_3"))
    centre = canvas.mapFromScene(item.scenePos() + QPointF(item.placed.width / 2, item.placed.height / 2))
    qtbot.mouseClick(canvas.viewport(), Qt.MouseButton.LeftButton, pos=centre)  # type: ignore[attr-defined]
    settle(window, qtbot)
    assert window.workspace.bus.selection.group == "matmul_3"
    assert marked_titles(window.panels.outline.tree) == ["output projection + bias"]


def test_timing_leads(window: Window, qtbot: object) -> None:
    click_row(qtbot, window.panels.timing.kernels, "pooler")
    settle(window, qtbot)
    assert window.workspace.bus.selection.group == "pooler_0"
    assert window.panels.graph.scene.look.selected == "pooler_0"


def test_schedule_leads(window: Window, qtbot: object) -> None:
    kernel = select(window, qtbot)
    click_row(qtbot, window.panels.schedule.tree, "exp(")
    lines = {line.line for line in kernel.lines if line.statements == ("S1",)}
    assert window.workspace.bus.selection.statements == ("S1",)
    assert window.panels.code.text.marked == lines
    assert len(marked_titles(window.panels.schedule.placements)) == 1


def test_code_leads(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    window.set_perspective("Schedule")
    window.panels.code.text.line_selected.emit(30)
    assert window.workspace.bus.selection.statements == ("S3",)
    (title,) = marked_titles(window.panels.schedule.tree)
    assert title.startswith("j = 0 … 511  S3: y[i, j]")


def test_constraints_lead(window: Window, qtbot: object) -> None:
    kernel = select(window, qtbot)
    window.set_perspective("Schedule")
    click_row(qtbot, window.panels.constraints.tree, "mark vector")
    assert window.workspace.bus.selection.statements == ("S1", "S3")
    lines = {line.line for line in kernel.lines if line.statements and set(line.statements) <= {"S1", "S3"}}
    assert window.panels.code.text.marked == lines


def test_a_line_without_statements_has_no_counterpart(window: Window, qtbot: object) -> None:
    select(window, qtbot)
    window.panels.code.text.line_selected.emit(30)
    window.panels.code.text.line_selected.emit(1)
    assert window.workspace.bus.selection == Selection("softmax_0")
    assert not window.panels.code.text.marked


@pytest.mark.parametrize(("text", "group", "statements"), [("FFN up", "matmul_4", ()), ("S2: ", "softmax_0", ("S2",))])
def test_search_goes_to_groups_and_statements(
    window: Window, qtbot: object, text: str, group: str, statements: tuple[str, ...]
) -> None:
    select(window, qtbot)
    window.search.setText(text)
    window.search.returnPressed.emit()
    settle(window, qtbot)
    assert window.workspace.bus.selection == Selection(group, statements)


def test_a_layer_opens_and_closes(window: Window, qtbot: object) -> None:
    scene, canvas = window.panels.graph.scene, window.panels.graph.canvas
    layer = next(placed for placed in scene.drawing.placed if placed.box.count == 12)
    assert layer.opened and len(scene.drawing.placed) == 12  # embeddings, the layer, its nine launches, pooler
    canvas.toggle(layer.box.key)
    settle(window, qtbot)
    assert len(scene.drawing.placed) == 3
    select(window, qtbot)
    closed = scene.item_of(layer.box.key)
    assert isinstance(closed, BoxItem) and scene.look.is_selected(closed.placed)
    centre = canvas.mapFromScene(closed.scenePos() + QPointF(60, 20))
    qtbot.mouseDClick(canvas.viewport(), Qt.MouseButton.LeftButton, pos=centre)  # type: ignore[attr-defined]
    settle(window, qtbot)
    assert len(scene.drawing.placed) == 12
