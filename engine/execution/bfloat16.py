"""Rewrite a bfloat16 model to float32 with rounded results, for ONNX Runtime, whose CPU kernels lack bfloat16.

    y = MatMul(a, b)    ->    u = MatMul(a, b); v = Cast(u, bfloat16); y = Cast(v, float32)

Every tensor keeps its name and holds its bfloat16 values as float32, which represents them exactly; an operator
computes in float32 and rounds once, as ONNX demands.  Subgraphs are not rewritten: the runtime rejects those.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference


def bfloat16_tensors(model: onnx.ModelProto) -> frozenset[str]:
    """Tensors of a model that hold bfloat16, as far as shape inference finds types."""
    stored = {t.name for t in model.graph.initializer if t.data_type == TensorProto.BFLOAT16}
    casts = any(a.i == TensorProto.BFLOAT16 or a.t.data_type == TensorProto.BFLOAT16 for a in _attributes(model))
    if not stored and not casts and not any(map(_is_narrow, model.graph.input)):
        return frozenset()
    graph = shape_inference.infer_shapes(model).graph
    return frozenset(stored | {v.name for v in (*graph.input, *graph.value_info, *graph.output) if _is_narrow(v)})


def in_float32(model: onnx.ModelProto, narrow: frozenset[str]) -> onnx.ModelProto:
    """The model with the tensors of `narrow` held in float32, and two casts after each operator that makes one."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    del graph.value_info[:], graph.node[:], graph.initializer[:]
    for value in graph.input:
        if value.name in narrow:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    outputs = [onnx.ValueInfoProto(name=value.name) for value in graph.output]
    del graph.output[:]
    graph.output.extend(outputs)
    graph.initializer.extend(_as_float32(t) for t in model.graph.initializer)
    for node in model.graph.node:
        graph.node.extend(_rounding(node, narrow))
    return result


def _attributes(model: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    return (attribute for node in model.graph.node for attribute in node.attribute)


def _is_narrow(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == TensorProto.BFLOAT16)


def _as_float32(tensor: onnx.TensorProto) -> onnx.TensorProto:
    if tensor.data_type != TensorProto.BFLOAT16:
        return tensor
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name)


def _rounding(node: onnx.NodeProto, narrow: frozenset[str]) -> Iterator[onnx.NodeProto]:
    """The node in float32, then two casts for each of its results that is held in bfloat16."""
    wide = onnx.NodeProto()
    wide.CopyFrom(node)
    for attribute in wide.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            attribute.t.CopyFrom(_as_float32(attribute.t))
        elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.BFLOAT16:
            attribute.i = TensorProto.FLOAT
    wide.output[:] = [f"{name}.float32" if name in narrow else name for name in node.output]
    yield wide
    for name in node.output:
        if name in narrow:
            yield helper.make_node("Cast", [f"{name}.float32"], [f"{name}.rounded"], to=TensorProto.BFLOAT16)
            yield helper.make_node("Cast", [f"{name}.rounded"], [name], to=TensorProto.FLOAT)
