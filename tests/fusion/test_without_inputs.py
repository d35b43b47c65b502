"""Programs that read no array: their values come from indices and numbers alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import engine


def test_a_sum_of_equal_numbers_is_a_kernel(tmp_path: Path) -> None:
    """y = mean over columns of a 64 x 5000 tensor that is filled with 0.25: too large to be computed at loading."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node(
            "ConstantOfShape", ["shape"], ["c"], value=onnx.numpy_helper.from_array(np.array([0.25], np.float32))
        ),
        helper.make_node("Exp", ["c"], ["e"]),
        helper.make_node("ReduceMean", ["e"], ["y"], axes=[1], keepdims=0),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (512, 5000))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (512,))
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    plan = engine.fuse(engine.load(tmp_path / "m.onnx"))
    (group,) = plan.groups
    assert not group.program.inputs
    assert engine.check(engine.compile(group)).status == "pass"
