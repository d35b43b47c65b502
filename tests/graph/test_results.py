"""Types of results, asked of ONNX once for nodes alike, against what they are whatever was asked before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import shape_inference

from engine.graph.load import load
from engine.graph.nodes import OperatorGraph
from tests.graph.models import model, node, save

LAYERS = 5


def shapes(graph: OperatorGraph, *names: str) -> list[tuple[int, ...]]:
    return [graph.tensors[name].shape for name in names]


def test_equal_layers_are_asked_once_whatever_their_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = shape_inference.infer_node_outputs

    def counted(schema: onnx.defs.OpSchema, each: onnx.NodeProto, *rest: object) -> dict[str, onnx.TypeProto]:
        asked.append(each.op_type)
        return ask(schema, each, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(shape_inference, "infer_node_outputs", counted)
    random, nodes, weights = np.random.RandomState(0), [], {}
    for at in range(LAYERS):
        weights |= {f"w{at}": random.rand(4, 4).astype(np.float32), f"b{at}": random.rand(4).astype(np.float32)}
        nodes += [node("MatMul", f"x{at} w{at}", f"m{at}"), node("Add", f"m{at} b{at}", f"x{at + 1}")]
    graph = load(save(tmp_path / "m.onnx", model(nodes, {"x0": (2, 4)}, [f"x{LAYERS}"], weights)))
    assert asked == ["MatMul", "Add"]
    assert shapes(graph, *(f"x{at}" for at in range(LAYERS + 1))) == [(2, 4)] * (LAYERS + 1)


def test_what_inference_goes_by_keeps_nodes_apart(tmp_path: Path) -> None:
    """Integers that are shapes, numbers that scale, attributes, operands' shapes and types, and outputs left out."""
    nodes = [
        node("Reshape", "x s1", "r1"), node("Reshape", "x s2", "r2"), node("Reshape", "x s1", "r3"),
        node("Resize", "x - twice", "z1"), node("Resize", "x - thrice", "z2"), node("Resize", "x - twice", "z3"),
        node("Transpose", "x", "t1", perm=[3, 2, 1, 0]), node("Transpose", "x", "t2", perm=[0, 1, 3, 2]),
        node("Transpose", "t1", "t3", perm=[3, 2, 1, 0]),
        node("Cast", "x", "c1", to=onnx.TensorProto.FLOAT16), node("Relu", "c1", "c2"), node("Relu", "x", "c3"),
        node("Split", "x", "h1 h2", axis=3, num_outputs=2), node("Split", "x", "h3", axis=3, num_outputs=1),
    ]  # fmt: skip
    results = [name for each in nodes for name in each.output]
    constants = {
        "s1": np.array([6, 4]), "s2": np.array([4, 6]),
        "twice": np.array([1, 1, 2, 2], np.float32), "thrice": np.array([1, 1, 3, 3], np.float32),
    }  # fmt: skip
    graph = load(save(tmp_path / "m.onnx", model(nodes, {"x": (1, 2, 3, 4)}, results, constants)))
    assert graph.unsupported == {}
    assert shapes(graph, "r1", "r2", "r3") == [(6, 4), (4, 6), (6, 4)]
    assert shapes(graph, "z1", "z2", "z3") == [(1, 2, 6, 8), (1, 2, 9, 12), (1, 2, 6, 8)]
    assert shapes(graph, "t1", "t2", "t3") == [(4, 3, 2, 1), (1, 2, 4, 3), (1, 2, 3, 4)]
    assert [graph.tensors[name].dtype for name in ("c1", "c2", "c3")] == ["float16", "float16", "float32"]
    assert shapes(graph, "h1", "h2", "h3") == [(1, 2, 3, 2), (1, 2, 3, 2), (1, 2, 3, 4)]
