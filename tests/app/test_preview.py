"""A large graph is shown before its kernels are planned: one can look around, and what was looked at stays selected."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel

from app.shell.window import Window
from engine.documents.model import launch_of_operators
from tests.app.driving import LONG, settle
from views.search.hits import hits

MODELS = Path(__file__).parents[2] / "resources" / "models"
BERT, SOFTMAX = str(MODELS / "bert_tiny.onnx"), str(MODELS / "softmax_96x512.onnx")


def worker(previewed: int) -> tuple[str, ...]:
    """The real worker, with another size from which it shows graphs first."""
    return (sys.executable, "-c", f"import engine.service as worker; worker.PREVIEWED = {previewed}; worker.main()")


def watch(window: Window, look: Callable[[], None]) -> list[str]:
    """Calls `look` when a graph is shown; what was shown so far, graphs and models, in order."""
    seen: list[str] = []

    def on_graph() -> None:
        seen.append("graph")
        look()

    window.workspace.preview.shown.connect(on_graph)
    window.workspace.model_changed.connect(lambda: seen.append("model"))
    return seen


@pytest.mark.slow(sentinel=True)
def test_an_operator_that_was_looked_at_is_selected_with_its_kernel(
    make: Callable[..., Window], qtbot: object
) -> None:
    window = make(command=worker(80))
    looked_at: list[str] = []

    def look() -> None:
        shown = window.workspace.shown
        assert shown is not None and window.workspace.model is None and not shown.model.is_planned
        assert len(shown.model.operators) == len(shown.model.uncompiled) == 80 and not shown.model.groups
        ends = {end for edge in shown.model.edges for end in (edge.source, edge.target)}
        assert ends == {"", *(each.id for each in shown.model.uncompiled)}
        assert not any(window.action(name).isEnabled() for name in ("save", "check", "time", "groups"))
        found = hits(shown.index, shown.index.find("type:Softmax"), (), "type:Softmax")
        window.wiring.go_to(found[0])
        looked_at.append(found[0].title)
        told = "\n".join(label.text() for label in window.panels.explain.findChildren(QLabel))
        assert "no kernel planned yet" in told and found[0].title in told and "What waits for it" in told
        assert window.panels.graph.counts.text() == "80 operators, no kernels yet"

    seen = watch(window, look)
    window.workspace.start()
    window.open_file(BERT)
    settle(window, qtbot, LONG)
    model = window.workspace.model
    assert seen == ["graph", "model"] and model is not None and model.is_planned and len(model.operators) == 80
    group = launch_of_operators(model)[looked_at[0]].group
    qtbot.waitUntil(lambda: window.wiring.group == group)  # type: ignore[attr-defined]
    assert window.workspace.preview.overview is None and window.action("save").isEnabled()
    settle(window, qtbot, LONG)


@pytest.mark.slow(sentinel=True)
def test_a_small_graph_waits_for_its_kernels(make: Callable[..., Window], qtbot: object) -> None:
    window = make(command=worker(81))
    seen = watch(window, lambda: None)
    window.workspace.start()
    window.open_file(BERT)
    settle(window, qtbot, LONG)
    assert seen == ["model"]


@pytest.mark.slow(sentinel=True)
def test_an_open_model_stays_until_the_next_is_ready(make: Callable[..., Window], qtbot: object) -> None:
    window = make(command=worker(1))
    seen = watch(window, lambda: None)
    window.workspace.start()
    for path in (SOFTMAX, BERT):
        window.open_file(path)
        settle(window, qtbot, LONG)
    assert seen == ["graph", "model", "model"]
