"""The five tasks that the window is for, each done with keys of the X server alone: no pointer is touched.

What is asserted is what a person would see; keys go to whatever window of the desktop has the keyboard.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from app.session.client import ROOT
from tests.xcb.desk import WORKER, Desk
from tests.xcb.keys import type_text, wait_for
from views.schedule.view import SPACE

MODELS = ROOT / "resources" / "models"
SOFTMAX = MODELS / "softmax_96x512.onnx"
PRODUCT = MODELS / "matmul_bias_gelu_128x256x512.onnx"
EXAMPLE = "bert_tiny"
BACKWARDS = "required S1, S2, S3 @ innermost: cut S3 | S1 S2"


def opened(desk: Desk, path: Path) -> None:
    desk.press("ctrl+o")
    desk.file(path)
    assert wait_for(lambda: desk.window.workspace.model is not None, WORKER)
    desk.answered()
    model = desk.window.workspace.model
    assert model is not None
    desk.go_to(model.groups[0].name)


def test_a_model_is_understood(start: Callable[[], Desk]) -> None:
    desk = start()
    desk.run("Open Example")
    assert wait_for(lambda: desk.window.workspace.model is not None, WORKER)
    desk.answered()
    model = desk.window.workspace.model
    assert model is not None and model.name == EXAMPLE
    second, hot = sorted(model.groups, key=lambda group: group.share)[-2:]
    desk.go_to(f"time>{50 * (second.share + hot.share):.1f}%")
    assert desk.window.wiring.group == hot.name, "the only one that takes so much"
    assert desk.window.colour_by.currentText().endswith("Predicted time")
    desk.go_to("layernorm_0")
    assert desk.window.wiring.group == "layernorm_0"
    assert not desk.window.panels.explain.body.visibleRegion().isEmpty(), "and explained beside it"


def test_it_is_seen_why_a_group_is_scheduled_as_it_is(start: Callable[[], Desk]) -> None:
    desk = start()
    opened(desk, SOFTMAX)
    window = desk.window
    desk.press("alt+2")
    desk.answered()
    assert window.workspace.legal_kernel("softmax_0") is not None
    QGuiApplication.clipboard().setText(BACKWARDS)
    desk.panel("constraints")
    desk.press("ctrl+v")
    desk.answered()
    kernel = window.workspace.kernel("softmax_0")
    assert kernel is not None and not kernel.legal
    desk.tab("schedule", SPACE)
    assert "reads it first" in window.panels.schedule.space.verdict.sentence.text()
    assert "Drawn:" in window.panels.schedule.space.verdict.drawn.text()


def test_an_edit_is_made_compared_and_taken_back(start: Callable[[], Desk]) -> None:
    desk = start()
    opened(desk, SOFTMAX)
    window = desk.window
    desk.press("alt+2")
    desk.answered()
    desk.press("b")
    desk.panel("moves")
    desk.press("Down", "Return")
    desk.answered()
    history = window.workspace.histories["softmax_0"]
    assert history.current != history.baseline and history.gain(history.current, history.baseline) is not None
    desk.press("F8")
    desk.answered()
    assert history.step.checked is not None and history.step.checked.status == "pass"
    desk.press("d")
    assert wait_for(lambda: QApplication.activeWindow() is not window, WORKER)
    desk.answered()
    desk.press("Escape")
    assert wait_for(lambda: QApplication.activeWindow() is window)
    desk.press("ctrl+z")
    desk.answered()
    history = window.workspace.histories["softmax_0"]
    assert history.current == history.baseline
    desk.press("ctrl+y")
    desk.answered()
    assert window.workspace.histories["softmax_0"].current != history.baseline


def test_a_group_is_tuned(start: Callable[[], Desk]) -> None:
    desk = start()
    opened(desk, PRODUCT)
    window = desk.window
    desk.press("alt+4")
    desk.panel("run")
    while QApplication.focusWidget() is not window.panels.run.trials:
        desk.press("Tab")
    desk.press("ctrl+a")
    type_text("6")
    desk.press("F7")
    tuning = window.wiring.tuning
    assert wait_for(lambda: tuning.shown is not None and tuning.shown.state == "finished", WORKER)
    desk.answered()
    desk.panel("trials")
    desk.press("Down")
    desk.answered()
    group = window.wiring.group
    before = window.workspace.histories[group].current
    desk.press("ctrl+shift+Return")
    assert wait_for(lambda: window.workspace.histories[group].current != before, WORKER)
    desk.answered()
    desk.press("ctrl+z")
    desk.answered()
    assert window.workspace.histories[group].current == before


def test_work_is_handed_over(start: Callable[[], Desk], tmp_path: Path) -> None:
    desk = start()
    opened(desk, SOFTMAX)
    desk.press("alt+2")
    desk.answered()
    desk.panel("moves")
    desk.press("Down", "Return")
    desk.answered()
    edited = desk.window.workspace.recipe("softmax_0")
    QGuiApplication.clipboard().clear()
    desk.run("Copy as Script")
    assert wait_for(lambda: "import engine" in QGuiApplication.clipboard().text())
    saved = tmp_path / "handed.loom"
    desk.press("ctrl+s")
    desk.file(saved)
    assert wait_for(saved.is_file, WORKER)
    desk.window.close()
    colleague = start()
    opened(colleague, saved)
    colleague.press("alt+2")
    colleague.answered()
    assert colleague.window.workspace.recipe("softmax_0") == edited
