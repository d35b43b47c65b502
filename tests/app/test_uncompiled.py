"""Operators that no kernel computes, by the host or not at all: drawn among the kernels with their edges, and told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel

import engine
from app.controllers.fusion import FusionController
from app.session.client import COMMAND as REAL_COMMAND
from app.shell.main import make_window
from app.shell.window import Window
from engine.documents.model import ModelDoc
from engine.present.model import model_doc
from tests.app.driving import LONG, settle
from views.hierarchy import boxes
from views.overview import overview
from views.report.graph import graph_picture

make = helper.make_node
LAST = make("Exp", ["g"], ["y"], name="last")
CASES = {
    "host": ("NonZero", [
        make("Greater", ["x", "zero"], ["mask"], name="compare"), make("NonZero", ["mask"], ["p"], name="where"),
        make("Transpose", ["p"], ["rows"], name="turn"), make("GatherND", ["x", "rows"], ["g"], name="pick"), LAST,
    ]),
    "nothing": ("Det", [
        make("Exp", ["x"], ["e"], name="first"), make("Reshape", ["e", "square"], ["q"], name="shape"),
        make("Det", ["q"], ["g"], name="where"), LAST,
    ]),
}  # fmt: skip


def graph_file(case: str, folder: Path) -> Path:
    """A model with one operator, called "where", that no kernel computes."""
    constants = {"zero": np.array(0, np.float32), "square": np.array([1, 8, 8])}
    graph = helper.make_graph(
        CASES[case][1], case, [helper.make_tensor_value_info("x", TensorProto.FLOAT, (8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    path = folder / f"{case}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def document(case: str, folder: Path) -> ModelDoc:
    graph = engine.load(str(graph_file(case, folder)))
    return model_doc(graph, engine.fuse(graph))


@pytest.mark.parametrize("case", CASES)
def test_edges_lead_through_an_operator_without_a_kernel(case: str, tmp_path: Path) -> None:
    model, kind = document(case, tmp_path), CASES[case][0]
    (one,) = model.uncompiled
    assert (one.operator, one.kind, one.on_host, one.id) == ("where", kind, case == "host", "operator where")
    assert bool(model.host) == one.on_host and bool(model.unsupported) != one.on_host
    before = {edge.source for edge in model.edges if edge.target == one.id}
    behind = {edge.target for edge in model.edges if edge.source == one.id}
    launches = {node.id: place for place, node in enumerate(model.nodes)}
    assert before and behind and before | behind <= launches.keys()
    assert max(launches[node] for node in before) + 1 == one.after <= min(launches[node] for node in behind)
    assert all(one.because in edge.because for edge in model.edges if one.id in (edge.source, edge.target))
    for group in model.groups:
        touches = any(node.rpartition("#")[0] == group.name for node in before | behind)
        assert any("where" in line for line in group.boundaries) == touches


@pytest.mark.parametrize("case", CASES)
def test_the_graph_draws_it_in_its_place_and_the_outline_has_kernels_alone(case: str, tmp_path: Path) -> None:
    model = document(case, tmp_path)
    order = [node.id for box in boxes(model) for node in box.nodes]
    place = order.index("operator where")
    assert place == model.uncompiled[0].after and order[:place] + order[place + 1 :] == [n.id for n in model.nodes]
    shown = overview(model)
    assert [row.title for row in shown.rows[0].children] == [node.title for node in model.nodes]
    ends = {(line.source, line.target) for line in shown.drawing.lines}
    assert any(end == "operator where" for end, _ in ends) and any(end == "operator where" for _, end in ends)
    assert CASES[case][0] in str(graph_picture(model, {})) and "no kernel" in str(graph_picture(model, {}))


def test_a_model_whose_operators_all_have_kernels_is_drawn_as_ever() -> None:
    graph = engine.load("resources/models/softmax_96x512.onnx")
    model = model_doc(graph, engine.fuse(graph))
    assert not model.uncompiled and not any(box.is_uncompiled for box in boxes(model))
    assert [node.id for box in boxes(model) for node in box.nodes] == [node.id for node in model.nodes]


@pytest.fixture(scope="module")
def opened(qapp: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    made = make_window(theme="dark", command=REAL_COMMAND, journals=tmp_path_factory.mktemp("journals"))
    yield made
    made.close()
    made.deleteLater()


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("case", CASES)
def test_a_click_tells_what_it_is_and_a_problem_leads_to_it(
    case: str, opened: Window, qtbot: object, tmp_path: Path
) -> None:
    window = opened
    window.resize(1440, 900)
    window.show()
    window.workspace.start()
    window.open_file(str(graph_file(case, tmp_path)))
    settle(window, qtbot, LONG)
    graph, model = window.panels.graph, window.workspace.model
    assert model is not None
    item = graph.scene.item_of("operator where")
    assert item is not None
    window.workspace.bus.select_group(model.groups[0].name)
    graph.canvas.centerOn(item)
    at = graph.canvas.mapFromScene(item.sceneBoundingRect().center())
    QTest.mouseClick(graph.canvas.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert window.wiring.group == "" and graph.scene.look.uncompiled == "operator where"
    assert graph.scene.look.is_selected(item.placed)
    told = "\n".join(label.text() for label in window.panels.explain.findChildren(QLabel))
    assert model.uncompiled[0].because in told and "What waits for it" in told and model.nodes[0].title in told
    QTest.mouseDClick(graph.canvas.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert "operator where" not in graph.scene.opened, "there is nothing inside to open"
    graph.canvas.toggle_operators()
    graph.canvas.toggle_operators()
    fusion: FusionController = window.wiring.fusion
    for line in graph.scene.drawing.lines:
        fusion.show_edge(line)  # no question that the worker cannot answer
    assert {node.id for node in fusion._neighbours(model.nodes[0].id)} <= {node.id for node in model.nodes}
    window.workspace.bus.select_group(model.groups[0].name)
    assert graph.scene.look.uncompiled == ""
    if case == "nothing":
        window.panels.problems.jump_requested.emit(0)
        assert graph.scene.look.uncompiled == "operator where"
    settle(window, qtbot, LONG)
    assert not [problem for _, problem in window.workspace.problems if problem.severity == "error"]

