"""One network in the spelling of every operator set from 9 to 23, against ONNX Runtime.

Attributes became inputs and defaults changed over the sets; what the network computes did not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import engine
from engine.graph.load import load
from tests.tensor.single import by_runtime, by_statements

FIRST, LAST = 9, 23


class Network:
    """Nodes in the spelling of one operator set: parameters are attributes before `since`, inputs from then on."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        names = [f"t{len(self.nodes)}{'abc'[at]}" for at in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0]

    def moved(self, kind: str, source: str, since: int, parameters: dict[str, object], **attributes: object) -> str:
        """A node whose parameters moved."""
        if self.opset < since:
            return self.node(kind, source, **parameters, **attributes)
        given = (
            self.constant(np.array(value, np.float32 if isinstance(value, float) else np.int64))
            for value in parameters.values()
        )
        return self.node(kind, source, *given, **attributes)


def written(path: Path, opset: int) -> Path:
    n = Network(opset)
    random = np.random.RandomState(0)
    scale, shift, mean, variance = (n.constant(random.uniform(0.5, 1.5, 4).astype(np.float32)) for _ in range(4))
    x = n.node("BatchNormalization", "x", scale, shift, mean, variance, epsilon=1e-3)
    x = n.moved("Clip", x, 11, {"min": -1.5, "max": 1.5})
    x = n.moved("Pad", x, 11, {"pads": [0, 0, 1, 0, 0, 0, 0, 2]}, mode="constant")
    x = n.moved("Slice", x, 10, {"starts": [0, 1], "ends": [4, 6], "axes": [1, 3]})
    x = n.moved("ReduceMean", x, 18, {"axes": [1]}, keepdims=1)
    x = n.moved("Squeeze", x, 13, {"axes": [1]})
    x = n.moved("Unsqueeze", x, 13, {"axes": [0]})
    x = n.node("Add", x, n.node("Dropout", x))
    x = n.node("Softmax", x, axis=3)
    n.moved("Split", x, 13, {"split": [2, 3]}, axis=3, outputs=2)
    x = n.node("Mul", n.nodes[-1].output[0], n.moved("ReduceSum", n.nodes[-1].output[1], 13, {"axes": [3]}, keepdims=1))
    x = n.node("Cast", n.node("Cast", x, to=onnx.TensorProto.FLOAT16), to=onnx.TensorProto.FLOAT)
    x = n.node("Reshape", x, n.constant(np.array([0, -1, 2])))
    factor = n.constant(random.standard_normal((2, 3)).astype(np.float32))
    x = n.node("Gemm", n.node("Flatten", x, axis=2), factor, n.constant(np.zeros(3, np.float32)), alpha=0.5)
    x = n.node("Where", n.node("Greater", x, n.constant(np.float32([0.1]))), x, n.constant(np.zeros(1, np.float32)))
    n.moved("TopK", x, 10, {"k": [4]} if opset >= 10 else {"k": 4}, axis=0, outputs=2)
    outputs = [onnx.ValueInfoProto(name=name) for name in (n.nodes[-1].output[0], x)]
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 4, 5, 6])
    graph = helper.make_graph(n.nodes, f"set {opset}", [given], outputs, n.weights)
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()
    )
    return path


@pytest.mark.parametrize("opset", range(FIRST, LAST + 1))
def test_every_operator_set_means_the_same(opset: int, tmp_path: Path) -> None:
    path = written(tmp_path / "m.onnx", opset)
    feeds = {"x": np.random.RandomState(1).standard_normal((2, 4, 5, 6)).astype(np.float32)}
    got = by_statements(path, feeds)
    for name, value in by_runtime(path, feeds).items():
        np.testing.assert_allclose(got[name], value, 1e-4, 1e-5, err_msg=name)


def test_kernels_of_the_oldest_and_the_newest_set_are_checked(tmp_path: Path) -> None:
    for opset in (FIRST, LAST):
        plan = engine.fuse(load(written(tmp_path / f"{opset}.onnx", opset)))
        assert plan.unsupported == {}
        assert [c.status for c in (engine.check(engine.compile(g)) for g in plan.groups)] == ["pass"] * len(plan.groups)
