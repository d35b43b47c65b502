"""Another model or workspace beside the open one, with the real worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from app.shell.window import Window
from engine.documents.difference import CHANGED
from tests.app.driving import LONG, advice, open_with_worker, select, settle
from tests.support.commands import MODELS, SOFTMAX, document

GROUP = "softmax_0"
EDIT = "advice user\n  S0, S2 @ innermost: mark lane 64\n"


def compare(window: Window, qtbot: object, path: str) -> None:
    controller, view = window.model_diff, window.model_diff.view
    view.difference = None
    controller.compare(path)
    qtbot.waitUntil(  # type: ignore[attr-defined]
        lambda: controller.is_idle and window.workspace.client.is_idle and not view.a.scene.is_building
        and not view.b.scene.is_building, timeout=LONG,
    )  # fmt: skip


@pytest.mark.slow(sentinel=True)
def test_edits_that_no_file_holds_are_compared(make: Callable[..., Window], qtbot: object, tmp_path: Path) -> None:
    window = open_with_worker(make, qtbot, SOFTMAX)
    select(window, qtbot, GROUP, LONG)
    before = window.workspace.model
    window.document.save(str(tmp_path / "before.loom"))
    qtbot.waitUntil(lambda: window.document.is_idle, timeout=LONG)  # type: ignore[attr-defined]
    window.workspace.edit(GROUP, advice(window, GROUP) + EDIT)
    settle(window, qtbot, LONG)
    compare(window, qtbot, str(tmp_path / "before.loom"))
    difference, now = window.model_diff.view.difference, window.workspace.model
    assert difference is not None and before is not None and before.total and now is not None and now.total
    (row,) = difference.groups
    assert row.microseconds == (now.total.microseconds, before.total.microseconds)
    assert row.entries == ("- user: S0, S2 @ innermost: mark lane 64",)
    view, shown = window.model_diff.view, window.model_diff.window
    assert view.a.scene.look.changes == {f"{GROUP}#0": CHANGED}
    assert "    predicted time " in view.figures.text()
    assert view.a.title.text().startswith("before.loom  "), "what is open"
    screen = shown.screen().availableSize()
    assert shown.width() <= screen.width() and shown.height() < screen.height()
    settle(window, qtbot, LONG)
    assert window.workspace.legal_kernel(GROUP) is not None, "what is open stays open"


@pytest.mark.slow(sentinel=True)
def test_a_row_of_the_list_selects_the_launch_in_both_graphs(
    make: Callable[..., Window], qtbot: object, tmp_path: Path
) -> None:
    source, other = MODELS / "bert_tiny.onnx", tmp_path / "other.onnx"
    changed = onnx.load(source)
    gelu = next(node for node in changed.graph.node if node.op_type == "Erf")
    gelu.op_type, gelu.domain = "Tanh", ""
    del gelu.attribute[:]
    onnx.save(changed, other)
    window = open_with_worker(make, qtbot, str(source))
    compare(window, qtbot, str(other))
    view = window.model_diff.view
    found = document("diff", str(source), str(other))
    assert view.difference is not None
    assert [each.b for each in view.difference.operators] == [each["b"] for each in found["operators"]]
    assert any(each.kind.endswith("→ Tanh") for each in view.difference.operators)
    pair = next(each for each in view.difference.groups if each.state == CHANGED)
    key = next(row.key for row in view.list.rows.walk() if row.value is pair)
    view.list.setCurrentIndex(view.list.rows.index_of(key))
    assert (view.a.scene.look.selected, view.b.scene.look.selected) == (pair.a, pair.b)
    assert view.a.scene.look.changes[pair.nodes[0]] == view.b.scene.look.changes[pair.nodes[1]] == CHANGED
    table = view.list.table()
    assert len(table.rows) == len(view.difference.groups) + len(view.difference.operators)


@pytest.mark.slow(sentinel=True)
def test_a_file_that_cannot_be_opened_is_told_and_changes_nothing(
    make: Callable[..., Window], qtbot: object, tmp_path: Path
) -> None:
    window = open_with_worker(make, qtbot, SOFTMAX)
    for name, content in (("a.onnx", b"no model"), ("b.loom", b"{}")):
        (tmp_path / name).write_bytes(content)
        compare(window, qtbot, str(tmp_path / name))
        assert window.model_diff.view.difference is None
        assert window.workspace.problems
        window.workspace.clear_problems()
    select(window, qtbot, GROUP, LONG)
