"""Rewrite a model of narrow floats to float32 with rounded results, for ONNX Runtime, whose CPU kernels lack them.

    y = MatMul(a, b)    ->    u = MatMul(a, b); v = Cast(u, bfloat16); y = Cast(v, float32)

Every tensor keeps its name and holds its values of bfloat16 or 8 bits as float32, which represents them exactly; an
operator computes in float32 and rounds once, as ONNX demands.  Operators that quantise are given what they take.
Subgraphs are not rewritten: the runtime rejects those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from engine.graph.nodes import FLOAT8
from engine.graph.weights import element_of

Elements = Mapping[str, int]
"""Tensor -> its narrow element type."""

NARROW_ELEMENTS = frozenset(element_of(dtype) for dtype in ("bfloat16", *FLOAT8))
_QUANTIZING = ("QuantizeLinear", "DequantizeLinear")
"""Operators that ONNX Runtime has for floats of 8 bits, and whose operands are not all narrow."""


def narrow_tensors(model: onnx.ModelProto) -> dict[str, int]:
    """The element types of a model's tensors of narrow floats, as far as shape inference finds types."""
    stored = {t.name: t.data_type for t in model.graph.initializer if t.data_type in NARROW_ELEMENTS}
    # Every output type of a node is that of an operand, or of an attribute.
    named = any(a.i in NARROW_ELEMENTS or a.t.data_type in NARROW_ELEMENTS for a in _attributes(model))
    if not stored and not named and not any(map(_is_narrow, model.graph.input)):
        return {}
    graph = shape_inference.infer_shapes(model).graph
    inferred = {
        v.name: v.type.tensor_type.elem_type
        for v in (*graph.input, *graph.value_info, *graph.output) if _is_narrow(v)
    }  # fmt: skip
    return stored | inferred


def in_float32(model: onnx.ModelProto, narrow: Elements) -> onnx.ModelProto:
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
    return value.type.tensor_type.elem_type in NARROW_ELEMENTS


def _as_float32(tensor: onnx.TensorProto) -> onnx.TensorProto:
    if tensor.data_type not in NARROW_ELEMENTS:
        return tensor
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name)


def _rounding(node: onnx.NodeProto, narrow: Elements) -> Iterator[onnx.NodeProto]:
    """The node in float32, then two casts for each of its results that is held in a narrow type."""
    wide = onnx.NodeProto()
    wide.CopyFrom(node)
    saturate = {}
    if node.op_type in _QUANTIZING:
        wide.input[:] = [f"{node.output[0]}.operand{at}" if name in narrow else name
                         for at, name in enumerate(node.input)]  # fmt: skip
        for name, own in zip(node.input, wide.input, strict=True):
            if name != own:
                yield helper.make_node("Cast", [name], [own], to=narrow[name])
    else:
        saturate = {a.name: a.i for a in node.attribute if a.name == "saturate"}
        _widen_attributes(wide)
    wide.output[:] = [f"{name}.float32" if name in narrow else name for name in node.output]
    yield wide
    for name in node.output:
        if name in narrow:
            yield helper.make_node("Cast", [f"{name}.float32"], [f"{name}.rounded"], to=narrow[name], **saturate)
            yield helper.make_node("Cast", [f"{name}.rounded"], [name], to=TensorProto.FLOAT)


def _widen_attributes(node: onnx.NodeProto) -> None:
    """Values, and what is cast to, in float32."""
    for attribute in list(node.attribute):
        if attribute.type == onnx.AttributeProto.TENSOR:
            attribute.t.CopyFrom(_as_float32(attribute.t))
        elif node.op_type == "Cast" and attribute.name == "to" and attribute.i in NARROW_ELEMENTS:
            attribute.i = TensorProto.FLOAT
        elif attribute.name == "saturate":
            node.attribute.remove(attribute)
