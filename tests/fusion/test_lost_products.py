"""A product whose factor, computed as it is read, does not move with the product's columns: a sum like any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import engine


def test_a_broadcast_factor_makes_a_sum(tmp_path: Path) -> None:
    """k is (5, 1) and scaled by a row of 8 equal numbers: s = (q * 0.5) @ transpose(k * 0.5 spread over 8)."""
    nodes = [
        helper.make_node("Mul", ["q", "half"], ["qs"]),
        helper.make_node("Expand", ["k", "wide"], ["kw"]),
        helper.make_node("Mul", ["kw", "half"], ["ks"]),
        helper.make_node("Transpose", ["ks"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["qs", "kt"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"], axis=-1),
    ]
    constants = [
        onnx.numpy_helper.from_array(np.array(0.5, np.float32), "half"),
        onnx.numpy_helper.from_array(np.array([2, 5, 8]), "wide"),
    ]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("q", (2, 4, 8)), ("k", (2, 5, 1)))]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 4, 5))
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, [output], constants), opset_imports=[helper.make_opsetid("", 17)]
    )
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    random = np.random.default_rng(3)
    q, k = random.normal(size=(2, 4, 8)).astype(np.float32), random.normal(size=(2, 5, 1)).astype(np.float32)
    plan = engine.fuse(engine.load(tmp_path / "m.onnx"))
    (found,) = engine.run(plan, {"q": q, "k": k}).values()
    scores = (q * 0.5) @ np.broadcast_to(k * 0.5, (2, 5, 8)).transpose(0, 2, 1).astype(np.float64)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    # Eight float32 products and an exponential of numbers below 10: some tens of roundings of 6e-8.
    np.testing.assert_allclose(found, weights / weights.sum(-1, keepdims=True), rtol=1e-5)
