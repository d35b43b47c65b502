"""The whole program: the real window with the real worker on the shipped BERT, and nothing made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt

from app.session.client import COMMAND
from app.shell.render import PictureOptions, render
from app.shell.window import Window
from engine.support.errors import BadInput
from tests.app.driving import advice, select, settle
from tests.support.stalls import assert_fluent_in

MODEL = str(Path(__file__).parents[2] / "resources" / "models" / "bert_tiny.onnx")
SOFTMAX = str(Path(MODEL).with_name("softmax_96x512.onnx"))
BACKWARDS = "advice user\n  required all @ innermost: cut S3 | S0 S1 S2\n"
DIVIDED_FIRST = "advice user\n  required all @ innermost: cut S7 | S0 S1 S2 S3 S4 S5 S6\n"
"""Of a softmax, and of a product with a layer normalisation: the last statement before those it needs."""


def opened(make: Callable[..., Window], qtbot: object) -> Window:
    """The window with the shipped model, built and idle, before anything is timed."""
    window = make(command=COMMAND)
    window.set_perspective("Schedule")
    window.set_perspective("Explore")
    window.workspace.start()
    window.open_file(MODEL)
    settle(window, qtbot)
    assert window.workspace.model is not None
    return window


def shown(window: Window) -> str:
    return window.panels.code.text.toPlainText()


@pytest.mark.slow(sentinel=True)
def test_a_session_and_its_longest_stall(make: Callable[..., Window], qtbot: object, tmp_path: Path) -> None:
    assert_fluent_in(lambda: opened(make, qtbot), lambda window: session(window, qtbot, tmp_path))


def session(window: Window, qtbot: object, tmp_path: Path) -> None:
    """Select, expand, an illegal edit, undo, three stages, check, cancel, a broken file."""
    model = window.workspace.model
    assert model is not None
    assert len(model.operators) == 80 and sum(g.instances for g in model.groups) == len(model.nodes) == 12

    legal = select(window, qtbot, "matmul_1")
    assert "warp_reduce<Sum" in shown(window) and legal.legal
    layer = next(placed for placed in window.panels.graph.scene.drawing.placed if placed.box.count == 2)
    window.panels.graph.canvas.toggle(layer.box.key)
    settle(window, qtbot)

    before, code = advice(window, "matmul_1"), shown(window)
    window.workspace.edit("matmul_1", before + DIVIDED_FIRST)
    settle(window, qtbot)
    refused = window.workspace.kernel("matmul_1")
    assert refused is not None and not refused.legal
    (mine,) = [entry for entry in refused.entries if entry.author == "user"]
    assert mine.outcome == "infeasible" and "S7[i=0, j=0] reads it first" in mine.witness
    assert window.workspace.problems[-1][1].reason.count("reads it first") == 1
    assert shown(window) == code and window.workspace.legal_kernel("matmul_1") is legal
    window.action("undo").trigger()
    settle(window, qtbot)
    assert window.workspace.kernel("matmul_1") is legal and not window.workspace.problems

    select(window, qtbot, "matmul_2")
    window.panels.constraints.stages.buttons[3].click()
    settle(window, qtbot)
    staged = window.workspace.kernel("matmul_2")
    assert staged is not None and staged.stages == 3
    assert "  STAGES = 3," in shown(window) and "cp.async" in shown(window)
    window.action("check").trigger()
    settle(window, qtbot)
    check = window.workspace.check("matmul_2")
    assert check is not None and check.status == "pass" and check.elements_compared > 0

    window.action("check").trigger()
    window.action("cancel").trigger()
    settle(window, qtbot)
    select(window, qtbot, "attention_0")

    broken = tmp_path / "broken.onnx"
    broken.write_bytes(Path(MODEL).read_bytes()[:1000])
    window.open_file(str(broken))
    settle(window, qtbot)
    assert window.workspace.model is not None and window.workspace.model.name == model.name
    assert "broken.onnx" in str(window.workspace.problems[-1][1])


@pytest.mark.slow(sentinel=True)
def test_a_real_conflict_is_repaired_by_a_click(make: Callable[..., Window], qtbot: object) -> None:
    window = make(command=COMMAND)
    window.set_perspective("Schedule")
    window.workspace.start()
    window.open_file(str(Path(MODEL).with_name("softmax_96x512.onnx")))
    settle(window, qtbot)
    legal = select(window, qtbot, "softmax_0")
    refused = advice(window, "softmax_0") + BACKWARDS
    window.workspace.edit("softmax_0", refused)
    settle(window, qtbot)
    kernel = window.workspace.kernel("softmax_0")
    assert kernel is not None and not kernel.legal

    tree = window.panels.constraints.tree
    found = {tree.rows.row_at(tree.rows.index_of(key)).title: tree.rows.index_of(key) for key in tree.rows}
    (title,) = (title for title in found if title.startswith("Split in the order of the dependences"))
    assert "Show instances, Make optional, Disable" in found
    at = tree.visualRect(found[title]).topLeft() + QPoint(62, 8)
    qtbot.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=at)  # type: ignore[attr-defined]
    settle(window, qtbot)
    repaired = window.workspace.kernel("softmax_0")
    assert repaired is not None and repaired.legal and repaired.cuda.strip() == shown(window).strip()
    assert "required all @ innermost: cut S0 S1 S2 | S3" in advice(window, "softmax_0")
    assert not window.workspace.problems

    window.action("undo").trigger()
    settle(window, qtbot)
    assert advice(window, "softmax_0") == legal.recipe
    assert window.workspace.kernel("softmax_0") is legal


@pytest.mark.slow(sentinel=True)
def test_the_real_documents_fit_every_panel(make: Callable[..., Window], qtbot: object) -> None:
    window = opened(make, qtbot)
    model = window.workspace.model
    assert model is not None and model.total is not None and model.total.origin == "predicted"
    assert abs(sum(group.share for group in model.groups) - 1) < 1e-6
    for group in model.groups:
        kernel = select(window, qtbot, group.name)
        assert kernel.cuda.rstrip() == shown(window).rstrip()
        assert kernel.time.note == "uncalibrated"
        lines = kernel.cuda.count("\n")
        names = {statement.name for statement in kernel.statements}
        assert all(1 <= link.line <= lines and set(link.statements) <= names for link in kernel.lines)


@pytest.mark.slow(sentinel=True)
def test_a_path_is_relative_to_where_the_program_was_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "here.onnx").write_bytes(Path(MODEL).read_bytes())
    monkeypatch.chdir(tmp_path)
    render("here.onnx", "drawn.png")
    assert (tmp_path / "drawn.png").is_file()


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"advice": "hello"}, "advice.txt, “hello”: the line ends where '@' is expected"),
        ({"tile": 3}, "tile 3: is not in the chart"),
        ({"what_if": {"stages": 3}}, "slider stages: .*softmax_0 is no contraction"),
    ],
)
def test_render_refuses_what_it_would_not_show(tmp_path: Path, options: dict[str, object], says: str) -> None:
    place = tmp_path / "x.png"
    if "advice" in options:
        (tmp_path / "advice.txt").write_text(str(options["advice"]), encoding="utf-8")
        options = {"advice": tmp_path / "advice.txt"}
    with pytest.raises(BadInput, match=says):
        render(SOFTMAX, place, PictureOptions(perspective="schedule", **options))  # type: ignore[arg-type]
    assert not place.exists()
