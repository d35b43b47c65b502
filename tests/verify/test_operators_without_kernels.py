"""A model with operators that have no kernel: the rest compiles around them and the whole still runs."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import engine

FLOAT = TensorProto.FLOAT


def model(path: Path, nodes: list[onnx.NodeProto], outputs: list[str], shape: tuple[int, ...] = (6, 8)) -> Path:
    values = [helper.make_tensor_value_info("x", FLOAT, shape)]
    graph = helper.make_graph(nodes, "g", values, [helper.make_tensor_value_info(n, FLOAT, shape) for n in outputs])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def conditional(name: str, read: str, made: str) -> onnx.NodeProto:
    """An If, whose result the host chooses: its branches take `read` from around it."""
    branches = []
    for kind in ("Neg", "Abs"):
        out = helper.make_tensor_value_info(f"{name}_{kind}", FLOAT, (6, 8))
        branches.append(helper.make_graph([helper.make_node(kind, [read], [out.name])], kind, [], [out]))
    return helper.make_node("If", ["flag"], [made], name=name, then_branch=branches[0], else_branch=branches[1])


def flag() -> list[onnx.NodeProto]:
    zero = helper.make_tensor("zero", FLOAT, [], [0.0])
    return [
        helper.make_node("Constant", [], ["zero"], value=zero),
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Less", ["top", "zero"], ["flag"], name="is_negative"),
    ]


def test_the_host_runs_what_has_no_kernel(tmp_path: Path) -> None:
    nodes = [
        *flag(), helper.make_node("Exp", ["x"], ["e"]), conditional("choice", "e", "c"),
        helper.make_node("Sigmoid", ["c"], ["s"]), helper.make_node("Mul", ["s", "e"], ["y"]),
    ]  # fmt: skip
    graph = engine.load(model(tmp_path / "m.onnx", nodes, ["y"]))
    plan = engine.fuse(graph)
    assert not plan.unsupported and set(graph.host) == {"choice"}
    result = engine.check_model(graph, plan)
    assert result.status == "pass" and result.by_reference == ("choice",)
    (check,) = result.checks
    assert check.group == "y" and check.tolerance_because.endswith("on the host: choice")


def test_no_group_feeds_an_operator_without_kernel_and_waits_for_it(tmp_path: Path) -> None:
    """Tanh, If, Add: Tanh and Add read alike and would be one kernel, but the If lies between them."""
    nodes = [*flag(), helper.make_node("Tanh", ["x"], ["e"]), conditional("choice", "e", "c")]
    nodes += [helper.make_node("Add", ["e", "c"], ["y"])]
    graph = engine.load(model(tmp_path / "m.onnx", nodes, ["y"]))
    plan = engine.fuse(graph)
    groups = [set(g.instances[0].operators) for g in plan.groups]
    assert not any({"e", "y"} <= group for group in groups)
    assert any("without a kernel" in boundary.because for boundary in plan.boundaries)
    assert engine.check_model(graph, plan).status == "pass"
    without = engine.load(model(tmp_path / "n.onnx", [nodes[3], helper.make_node("Add", ["e", "x"], ["y"])], ["y"]))
    assert len(engine.fuse(without).groups) == 1


def test_what_the_reference_lacks_too_is_named(tmp_path: Path) -> None:
    strange = helper.make_node("Sparkle", ["x"], ["s"], name="strange", domain="com.acme")
    path = model(tmp_path / "m.onnx", [strange, helper.make_node("Relu", ["s"], ["y"])], ["y"])
    proto = onnx.load(path)
    proto.opset_import.append(helper.make_opsetid("com.acme", 1))
    proto.graph.value_info.append(helper.make_tensor_value_info("s", FLOAT, (6, 8)))
    onnx.save(proto, path)
    graph = engine.load(path)
    with pytest.raises(engine.Unsupported, match="Sparkle"):
        engine.check_model(graph, engine.fuse(graph))
