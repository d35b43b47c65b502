"""Another model or workspace beside the open one, with the real worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.session.client import COMMAND
from app.shell.window import Window
from engine.documents.difference import CHANGED
from tests.app.driving import advice, select, settle
from tests.support.commands import MODELS, SOFTMAX, document

GROUP = "softmax_0"
EDIT = "advice user\n  S0, S2 @ innermost: mark lane 64\n"


def opened(make: Callable[..., Window], qtbot: object, path: str) -> Window:
    window = make(command=COMMAND)
    window.workspace.start()
    window.open_file(path)
    settle(window, qtbot)
    return window


def compare(window: Window, qtbot: object, path: str) -> None:
    controller, view = window.model_diff, window.model_diff.view
    view.difference = None
    controller.compare(path)
    qtbot.waitUntil(  # type: ignore[attr-defined]
        lambda: controller.is_idle and window.workspace.client.is_idle and not view.a.scene.is_building
        and not view.b.scene.is_building, timeout=60_000,
    )  # fmt: skip


def test_edits_that_no_file_holds_are_compared(make: Callable[..., Window], qtbot: object, tmp_path: Path) -> None:
    window = opened(make, qtbot, SOFTMAX)
    select(window, qtbot, GROUP)
    before = window.workspace.model
    window.document.save(str(tmp_path / "before.loom"))
    qtbot.waitUntil(lambda: window.document.is_idle, timeout=10_000)  # type: ignore[attr-defined]
    window.workspace.edit(GROUP, advice(window, GROUP) + EDIT)
    settle(window, qtbot)
    compare(window, qtbot, str(tmp_path / "before.loom"))
    difference, now = window.model_diff.view.difference, window.workspace.model
    assert difference is not None and before is not None and before.total and now is not None and now.total
    (row,) = difference.groups
    assert row.microseconds == (now.total.microseconds, before.total.microseconds)
    assert row.entries == ("- user: S0, S2 @ innermost: mark lane 64",)
    assert window.model_diff.view.a.scene.look.changes == {f"{GROUP}#0": CHANGED}
    settle(window, qtbot)
    assert window.workspace.legal_kernel(GROUP) is not None, "what is open stays open"


def test_a_row_of_the_list_selects_the_launch_in_both_graphs(make: Callable[..., Window], qtbot: object) -> None:
    window = opened(make, qtbot, str(MODELS / "bert_tiny.onnx"))
    compare(window, qtbot, str(MODELS / "layernorm_64x768.onnx"))
    view = window.model_diff.view
    found = document("diff", str(MODELS / "bert_tiny.onnx"), str(MODELS / "layernorm_64x768.onnx"))
    assert view.difference is not None
    assert [each.state for each in view.difference.operators] == [each["state"] for each in found["operators"]]
    pair = next(each for each in view.difference.groups if each.state == CHANGED)
    key = next(row.key for row in view.list.rows.walk() if row.value is pair)
    view.list.setCurrentIndex(view.list.rows.index_of(key))
    assert (view.a.scene.look.selected, view.b.scene.look.selected) == (pair.a, pair.b)
    table = view.list.table()
    assert len(table.rows) == len(view.difference.groups) + len(view.difference.operators)


def test_a_file_that_cannot_be_opened_is_told_and_changes_nothing(
    make: Callable[..., Window], qtbot: object, tmp_path: Path
) -> None:
    window = opened(make, qtbot, SOFTMAX)
    for name, content in (("a.onnx", b"no model"), ("b.loom", b"{}")):
        (tmp_path / name).write_bytes(content)
        compare(window, qtbot, str(tmp_path / name))
        assert window.model_diff.view.difference is None
        assert window.workspace.problems
        window.workspace.clear_problems()
    select(window, qtbot, GROUP)
