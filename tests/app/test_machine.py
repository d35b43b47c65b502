"""Target and sizes of symbolic dimensions, chosen in the window; with the real worker, as both change the code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from pytestqt.qtbot import QtBot

from app.session.client import COMMAND
from app.session.loom_file import present_recipe, read_loom
from app.session.recovery import journal_folder
from app.session.script import group_script
from app.shell.window import Window
from tests.app.driving import select, settle
from tests.semantics.single import write_model


def symbolic(tmp_path: Path) -> str:
    """A softmax over rows, with as many rows as `batch` says."""
    node = helper.make_node("Softmax", ["x"], ["y"], name="softmax", axis=-1)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 256]) for name in "xy")
    graph = helper.make_graph([node], "rows", [x], [y])
    file = tmp_path / "rows.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
    return str(file)


def choose(window: Window, qtbot: object, target: str, batch: int) -> None:
    dialog = window.commands.machine
    assert dialog.isVisible() and not dialog.isModal()
    settle(window, qtbot)
    assert [*dialog.sizes] == ["batch"] and dialog.sizes["batch"].accessibleDescription() == "x, axis 0"
    dialog.target.setCurrentIndex(dialog.target.findData(target))
    dialog.sizes["batch"].setValue(batch)
    dialog.buttons.button(dialog.buttons.StandardButton.Ok).click()
    settle(window, qtbot)


@pytest.mark.slow(sentinel=True)
def test_sizes_are_asked_for_and_another_target_keeps_the_advice(
    make: Callable[..., Window], qtbot: object, tmp_path: Path
) -> None:
    window = make(command=COMMAND)
    window.open_file(symbolic(tmp_path))
    settle(window, qtbot)
    assert window.workspace.model is None and "batch" in window.notice.detail.text()
    window.notice.buttons["Give sizes…"].click()
    choose(window, qtbot, "h200", 0)
    assert window.commands.machine.isVisible() and "batch has no size" in window.commands.machine.message.text()
    choose(window, qtbot, "h200", 64)
    assert window.workspace.model is not None and not window.commands.machine.isVisible()
    assert not window.document.is_modified

    kernel = select(window, qtbot, "softmax_0")
    window.workspace.edit("softmax_0", kernel.recipe.replace("block 1", "block 4"))
    settle(window, qtbot)
    edited, history = window.workspace.legal_kernel("softmax_0"), window.workspace.histories["softmax_0"]
    assert edited is not None and history.current == 1

    window.menu.device.click()
    choose(window, qtbot, "a100", 128)
    assert window.menu.device.text().startswith("A100")
    again, other = window.workspace.legal_kernel("softmax_0"), window.workspace.histories["softmax_0"]
    assert again is not None and again.recipe == edited.recipe and again.launches != edited.launches
    assert [step.title for step in other.steps] == [step.title for step in history.steps]
    assert other.steps[1].predicted is not None and other.steps[1].predicted != history.steps[1].predicted
    assert other.steps[0].predicted is None, "what was known on the other machine is not carried over"
    assert window.document.is_modified and not window.notice.has_news
    assert len(list(journal_folder().glob("*.journal"))) == 1


@pytest.mark.slow(sentinel=True)
def test_another_rounding_makes_other_kernels_and_is_saved(
    make: Callable[..., Window], qtbot: QtBot, tmp_path: Path
) -> None:
    """A GELU in halves: float32 inside the kernel at first, then as the graph says; a saved workspace says so, too."""
    shapes: dict[str, tuple[str, Sequence[int]]] = {"x": ("float16", (64, 256))}
    file = write_model(tmp_path / "gelu.onnx", [("Gelu", ["x"], ["y"], {})], shapes, ["y"], opset=20)
    window = make(command=COMMAND)
    window.open_file(str(file))
    settle(window, qtbot)
    name = window.workspace.model.groups[0].name
    assert "fn_erf_step_approx" in select(window, qtbot, name).cuda
    window.menu.device.click()
    settle(window, qtbot)
    dialog = window.commands.machine
    arithmetic = dialog.rounding["arithmetic"]
    assert arithmetic.currentData() == "opmath" and dialog.rounding["tensor_cores"].currentData() == ""
    arithmetic.setCurrentIndex(arithmetic.findData(""))
    dialog.buttons.button(dialog.buttons.StandardButton.Ok).click()
    settle(window, qtbot)
    kernel = select(window, qtbot, name)
    assert "round_f16" in kernel.cuda and "_approx" not in kernel.cuda
    with qtbot.waitSignal(window.document.saved):
        window.document.save(str(tmp_path / "gelu.loom"))
    recipe = present_recipe(read_loom(tmp_path / "gelu.loom"))
    assert recipe.numerics == {}
    assert "numerics={}" in group_script(window.workspace.opened, name, kernel.recipe)
