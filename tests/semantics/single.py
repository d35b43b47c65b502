"""Small ONNX files built in memory, so that every stage can be tried on shapes that no shipped model has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {
    "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
    "int64": TensorProto.INT64, "int32": TensorProto.INT32, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
}  # fmt: skip

Node = tuple[str, Sequence[str], Sequence[str], dict[str, object]]


def write_model(
    path: Path,
    nodes: Sequence[Node],
    inputs: dict[str, tuple[str, Sequence[int]]],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 18,
) -> Path:
    """Write a model of the given nodes (kind, inputs, outputs, attributes); output types come from shape inference."""
    graph = helper.make_graph(
        [helper.make_node(kind, list(i), list(o), name=f"n{n}", **a) for n, (kind, i, o, a) in enumerate(nodes)],
        path.stem,
        [helper.make_tensor_value_info(name, TYPES[dtype], list(shape)) for name, (dtype, shape) in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(inferred)
    onnx.save(inferred, path)
    return path
