"""Small ONNX files, sound and broken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def node(kind: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    """A node named as its first output; names are separated by blanks, "-" is an absent input."""
    names = [name if name != "-" else "" for name in inputs.split()]
    return helper.make_node(kind, names, outputs.split(), name=f"node_{outputs.split()[0]}", **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 18,
    element: int = FLOAT,
) -> onnx.ModelProto:
    """A model; a text in a shape is a symbolic dimension."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, element, shape) for name, shape in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    result.ir_version = 10
    return result


def save(path: Path, proto: onnx.ModelProto) -> Path:
    path.write_bytes(proto.SerializeToString())
    return path
