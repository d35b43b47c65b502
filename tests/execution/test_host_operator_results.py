"""Operators of the host in NumPy give what ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ValueInfoProto, helper
from onnx.numpy_helper import from_array

from engine.execution.host_operators import OPERATORS, run

Case = tuple[str, list[np.ndarray], dict[str, Any]]


def cases() -> list[Case]:
    stream = np.random.default_rng(3)
    few = stream.integers(0, 4, (5, 6)).astype(np.float32)
    k = np.array([3], np.int64)
    corner = stream.uniform(0, 8, (2, 20, 2))
    boxes = np.concatenate((corner, corner + stream.uniform(1, 4, (2, 20, 2))), -1).astype(np.float32)
    limits = [np.array([4], np.int64), np.array([0.3], np.float32), np.array([0.2], np.float32)]
    scores = stream.uniform(0, 1, (2, 3, 20)).astype(np.float32)
    places = [np.array([each], np.int64) for each in (1, 100, 1)]
    backward = [np.array([each], np.int64) for each in (-1, -100, 0, -2)]
    return [
        ("NonZero", [few], {}),
        ("NonZero", [np.zeros((2, 3), np.float32)], {}),
        ("Compress", [few, np.array([0, 1, 1], bool)], {"axis": 1}),
        ("Compress", [few, np.array([0, 1, 0, 1], bool)], {}),
        *(("Unique", [few], {"sorted": order}) for order in (0, 1)),
        *(("Unique", [few[:, [0, 0, 2]]], {"sorted": order, "axis": 1}) for order in (0, 1)),
        *(("TopK", [few, k], {"axis": axis, "largest": side}) for axis in (0, -1) for side in (0, 1)),
        ("Slice", [few, *places], {}),
        ("Slice", [few, *backward], {}),
        *(
            ("Range", [np.array(each, dtype) for each in ends], {})
            for dtype, ends in (
                ("int64", (2, 11, 3)),
                ("int64", (5, -4, -2)),
                ("float32", (0.5, 2.2, 0.25)),
                ("int32", (3, 3, 1)),
            )
        ),
        ("Reshape", [few, np.array([3, -1], np.int64)], {}),
        ("Reshape", [few, np.array([0, 2, 3], np.int64)], {}),
        ("Reshape", [few[:0], np.array([3, 0], np.int64)], {"allowzero": 1}),
        *(("Expand", [few[:, :1], np.array(shape, np.int64)], {}) for shape in ((2, 1, 3), (1, 4), (5, 1))),
        ("Tile", [few, np.array([2, 3], np.int64)], {}),
        ("Tile", [few, np.array([0, 1], np.int64)], {}),
        ("ConstantOfShape", [np.array([2, 0, 3], np.int64)], {}),
        ("ConstantOfShape", [np.array([2, 3], np.int64)], {"value": np.array([7], np.int64)}),
        ("NonMaxSuppression", [boxes, scores, *limits], {}),
        ("NonMaxSuppression", [boxes, scores, limits[0]], {"center_point_box": 1}),
    ]


def by_runtime(kind: str, operands: list[np.ndarray], attributes: dict[str, Any], count: int) -> list[np.ndarray]:
    attributes = {
        name: from_array(value) if isinstance(value, np.ndarray) else value for name, value in attributes.items()
    }
    names = [f"x{at}" for at in range(len(operands))]
    node = helper.make_node(kind, names, [f"y{at}" for at in range(count)], **attributes)
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, operands, strict=True)
    ]
    graph = helper.make_graph([node], "one", inputs, [ValueInfoProto(name=name) for name in node.output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(zip(names, operands, strict=True))))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case[0] + str(sorted(case[2].items())))
def test_results_are_those_of_the_runtime(case: Case) -> None:
    got = run(*case)
    expected = by_runtime(*case, len(got))
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs)


def test_every_operator_has_a_case_and_others_are_refused() -> None:
    assert {case[0] for case in cases()} == OPERATORS.keys()
    with pytest.raises(KeyError):
        run("Softmax", [], {})
