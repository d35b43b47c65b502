"""What is written out when a model is read: functions of the standard and of the file, scans; and what stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.graph.load import load
from engine.graph.subgraphs import captured_tensors
from engine.support.errors import BadInput
from tests.graph.models import FLOAT, model, node, save
from tests.tensor.single import by_runtime, by_statements

RANDOM = np.random.RandomState(3)


def real(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def test_attention_becomes_products_and_a_softmax(tmp_path: Path) -> None:
    shapes = {"q": (2, 3, 5, 8), "k": (2, 3, 7, 8), "v": (2, 3, 7, 8)}
    path = save(tmp_path / "m.onnx", model([node("Attention", "q k v", "y")], shapes, ["y"], opset=23))
    kinds = [op.kind for op in load(path).operators]
    assert kinds.count("MatMul") == 2 and kinds.count("Softmax") == 1 and "Attention" not in kinds
    feeds = {name: real(*shape) for name, shape in shapes.items()}
    (got,), (want,) = by_statements(path, feeds).values(), by_runtime(path, feeds).values()
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


def test_defaults_of_functions_are_the_standards(tmp_path: Path) -> None:
    """MeanVarianceNormalization without axes takes 0, 2 and 3."""
    nodes = [node("MeanVarianceNormalization", "x", "y")]
    path = save(tmp_path / "m.onnx", model(nodes, {"x": (4, 3, 5, 2)}, ["y"]))
    feeds = {"x": real(4, 3, 5, 2)}
    (got,), (want,) = by_statements(path, feeds).values(), by_runtime(path, feeds).values()
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)


def test_a_function_that_the_operator_set_lacks_is_unsupported(tmp_path: Path) -> None:
    """Attention came with operator set 23."""
    shapes = {"q": (2, 3, 5, 8), "k": (2, 3, 7, 8), "v": (2, 3, 7, 8)}
    proto = model([node("Attention", "q k v", "a"), node("Relu", "q", "y")], shapes, ["y", "a"], opset=18)
    graph = load(save(tmp_path / "m.onnx", proto))
    assert "operator set 18" in graph.unsupported["node_a"] and graph.outputs == ("y",)


def test_functions_of_the_file_may_use_those_of_the_standard(tmp_path: Path) -> None:
    body = helper.make_function(
        "acme", "Loss", ["x", "t"], ["l"], [helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t"], ["l"])],
        [helper.make_opsetid("", 18)],
    )  # fmt: skip
    values = [
        helper.make_tensor_value_info("x", FLOAT, (6, 5)),
        helper.make_tensor_value_info("t", TensorProto.INT64, (6,)),
    ]
    calls = [helper.make_node("Loss", ["x", "t"], ["y"], domain="acme")]
    graph = helper.make_graph(calls, "g", values, [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("acme", 1)]
    proto = helper.make_model(graph, functions=[body], opset_imports=opsets, ir_version=10)
    path = save(tmp_path / "m.onnx", proto)
    assert {op.kind for op in load(path).operators} & {"Loss", "SoftmaxCrossEntropyLoss"} == set()
    x, t = real(6, 5), np.array([0, 4, 2, 2, 1, 3])
    (got,) = by_statements(path, {"x": x, "t": t}).values()
    log = x - np.log(np.exp(x).sum(1, keepdims=True))
    np.testing.assert_allclose(got, -log[np.arange(6), t].mean(), 1e-5)


def scan_model(path: Path, rows: int | str = 5, **attributes: object) -> Path:
    """s' = tanh(s + x[t] * gain), y[t] = s' * s'."""
    nodes = [
        helper.make_node("Mul", ["row", "gain"], ["m"]), helper.make_node("Add", ["s", "m"], ["a"]),
        helper.make_node("Tanh", ["a"], ["next"]), helper.make_node("Mul", ["next", "next"], ["out"]),
    ]  # fmt: skip
    names = {name: onnx.ValueInfoProto(name=name) for name in ("s", "row", "next", "out")}
    body = helper.make_graph(nodes, "body", [names["s"], names["row"]], [names["next"], names["out"]])
    scan = helper.make_node(
        "Scan", ["first", "x"], ["last", "y"], name="walk", body=body, num_scan_inputs=1, **attributes
    )
    proto = model([scan], {"first": (4,), "x": (rows, 4)}, ["last", "y"], {"gain": np.float32(0.5)})
    return save(path, proto)


@pytest.mark.parametrize("attributes", [{}, {"scan_input_directions": [1]}, {"scan_output_directions": [1]}])
def test_scans_are_unrolled(attributes: dict[str, object], tmp_path: Path) -> None:
    path = scan_model(tmp_path / "m.onnx", **attributes)
    graph = load(path)
    assert [op.kind for op in graph.operators].count("Tanh") == 5
    assert "walk/3/a" in graph.tensors and graph.tensors["y"].shape == (5, 4)
    feeds = {"first": real(4), "x": real(5, 4)}
    got, want = by_statements(path, feeds), by_runtime(path, feeds)
    for name in ("last", "y"):
        np.testing.assert_allclose(got[name], want[name], 1e-5, 1e-6)


def test_a_scan_of_unknown_length_stays_and_is_unsupported(tmp_path: Path) -> None:
    proto = onnx.load(scan_model(tmp_path / "m.onnx"))
    nonzero = [helper.make_node("NonZero", ["x"], ["places"]), helper.make_node("Cast", ["places"], ["p"], to=FLOAT)]
    nonzero.append(helper.make_node("Transpose", ["p"], ["pairs"]))
    proto.graph.node[0].input[1] = "pairs"
    nodes = [*nonzero, *proto.graph.node]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    graph = load(save(tmp_path / "n.onnx", proto))
    assert "walk" in graph.unsupported


def test_captured_tensors_are_operands(tmp_path: Path) -> None:
    branch = helper.make_graph([helper.make_node("Neg", ["e"], ["n"])], "b", [], [onnx.ValueInfoProto(name="n")])
    choice = helper.make_node("If", ["flag"], ["y"], name="choice", then_branch=branch, else_branch=branch)
    assert captured_tensors(choice) == ("e",)
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, ())
    values = [helper.make_tensor_value_info("x", FLOAT, (3,)), flag]
    out = [helper.make_tensor_value_info("y", FLOAT, (3,))]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["e"]), choice], "g", values, out)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    loaded = load(save(tmp_path / "m.onnx", proto))
    exp, *branches, chosen = loaded.operators
    assert [op.inputs for op in branches] == [exp.outputs] * 2
    assert chosen.kind == "If" and set(chosen.inputs) == {"flag", *(op.outputs[0] for op in branches)}
    branch.node[0].input[0] = "nowhere"
    choice = helper.make_node("If", ["flag"], ["y"], name="choice", then_branch=branch, else_branch=branch)
    proto.graph.node[1].CopyFrom(choice)
    with pytest.raises(BadInput, match="nowhere"):
        load(save(tmp_path / "n.onnx", proto))


def test_known_results_that_leave_the_graph_are_copies_of_constants(tmp_path: Path) -> None:
    nodes = [node("Shape", "x", "s"), node("Relu", "x", "y")]
    graph = load(save(tmp_path / "m.onnx", model(nodes, {"x": (2, 7)}, ["s", "y"])))
    shape = next(op for op in graph.operators if op.outputs == ("s",))
    (source,) = shape.inputs
    assert shape.kind == "Identity" and graph.constants[source].value is not None
    assert graph.constants[source].value.tolist() == [2, 7] and graph.tensors["s"].dtype == "int64"


def test_outputs_that_nobody_reads_are_absent(tmp_path: Path) -> None:
    """Dropout's mask has no shape in old operator sets; it only matters where somebody wants it."""
    old = [node("Dropout", "x", "d mask", ratio=0.5), node("Relu", "d", "y")]
    graph = load(save(tmp_path / "m.onnx", model(old, {"x": (2, 3)}, ["y"], opset=9)))
    assert [op.kind for op in graph.operators] == ["Relu"] and graph.unsupported == {}
    split = [node("Split", "x", "a b", axis=1, num_outputs=2), node("Relu", "b", "y")]
    graph = load(save(tmp_path / "n.onnx", model(split, {"x": (2, 6)}, ["y"])))
    assert graph.operators[0].outputs == ("a", "b")


def test_empty_tensors_may_stand_between_operators(tmp_path: Path) -> None:
    cut = {"s": np.array([0]), "e": np.array([0]), "ax": np.array([1])}
    nodes = [node("Slice", "x s e ax", "none"), node("Relu", "none", "still"), node("Concat", "still x", "y", axis=1)]
    path = save(tmp_path / "m.onnx", model(nodes, {"x": (2, 3)}, ["y"], cut))
    assert load(path).tensors["still"].shape == (2, 0)
    feeds = {"x": real(2, 3)}
    assert (by_statements(path, feeds)["y"] == feeds["x"]).all()
    empty = model([node("Relu", "x", "y")], {"x": (0, 3)}, ["y"])
    with pytest.raises(BadInput, match="axis 0 has size 0"):
        load(save(tmp_path / "n.onnx", empty))
