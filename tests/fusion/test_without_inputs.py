"""Programs that read no array: their values come from indices and numbers alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import engine


def test_a_sum_of_equal_numbers_is_a_kernel(tmp_path: Path) -> None:
    """y = mean of exp(0.25) over 512 x 5000 elements: too many to be computed at loading.

    Compared with the number itself: ONNX Runtime adds one after the other, and is off by 1.8e-3.
    """
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node(
            "ConstantOfShape", ["shape"], ["c"], value=onnx.numpy_helper.from_array(np.array([0.25], np.float32))
        ),
        helper.make_node("Exp", ["c"], ["e"]),
        helper.make_node("ReduceMean", ["e"], ["y"], keepdims=0),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (512, 5000))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ())
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    plan = engine.fuse(engine.load(tmp_path / "m.onnx"))
    assert not all(group.program.inputs for group in plan.groups)
    (found,) = engine.run(plan, {"x": np.zeros((512, 5000), np.float32)}).values()
    np.testing.assert_allclose(found, np.exp(0.25), rtol=1e-6)


def test_a_sum_of_a_thousand_million_zeros_compiles(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["c"]),
        helper.make_node("ReduceSum", ["c"], ["y"], keepdims=0),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1_000_000_000,))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ())
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    plan = engine.fuse(engine.load(tmp_path / "m.onnx"))
    assert not all(group.program.inputs for group in plan.groups)
    for group in plan.groups:
        assert engine.compile(group).source.launches
