"""Rewrite integer products so that ONNX Runtime computes them exactly on every CPU.

    y = MatMulInteger(a, b)    ->    u = Cast(Add(Cast(b, int32), 128), uint8); y = MatMulInteger(a, u, 0, 128)

Without VNNI, x86 CPUs multiply uint8 by int8 with an instruction that adds two products in 16 bits and saturates
(`vpmaddubsw`), and ONNX Runtime uses it: 255 * 127 + 255 * 127 becomes 32,767.  Products of uint8 by uint8 go another,
exact way.  The signed factor is moved by 128, and its zero point with it, which changes no product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import onnx
from onnx import TensorProto, helper, shape_inference


class _Places(NamedTuple):
    """Where an operator's operands stand."""

    left: int
    right: int
    zero: int
    """The zero point of the right factor."""


_PRODUCTS: Mapping[str, _Places] = {
    "MatMulInteger": _Places(0, 1, 3), "ConvInteger": _Places(0, 1, 3),
    "QLinearMatMul": _Places(0, 3, 5), "QLinearConv": _Places(0, 3, 5), "QGemm": _Places(0, 3, 5),
    "MatMulIntegerToFloat": _Places(0, 1, 5), "DynamicQuantizeMatMul": _Places(0, 1, 3),
    "QAttention": _Places(0, 1, 7),
}  # fmt: skip
_QUANTIZES = ("DynamicQuantizeMatMul",)
"""Operators that make codes without a sign of their left factor themselves."""


def has_signed_weights(model: onnx.ModelProto) -> bool:
    """Whether a model has an operator that may multiply uint8 by int8."""
    return any(node.op_type in _PRODUCTS for node in model.graph.node)


def without_signed_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with each int8 factor that meets a uint8 one held as uint8.  Subgraphs stay as they are."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    kinds = _element_types(model)
    del result.graph.node[:]
    for number, node in enumerate(model.graph.node):
        result.graph.node.extend(_product(node, f"unsigned{number}", kinds))
    return result


def _element_types(model: onnx.ModelProto) -> dict[str, int]:
    """Tensor -> element type, as far as shape inference finds it."""
    graph = shape_inference.infer_shapes(model).graph
    known = {t.name: t.data_type for t in graph.initializer}
    found = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info, *graph.output)}
    return {**found, **known}


def _product(node: onnx.NodeProto, name: str, kinds: Mapping[str, int]) -> Iterator[onnx.NodeProto]:
    """The node after those that move its right factor, where that is needed."""
    places = _PRODUCTS.get(node.op_type)
    if places is None or not _saturates(node, places, kinds):
        yield node
        return
    half, zero = f"{name}.half", f"{name}.zero"
    yield helper.make_node("Constant", [], [half], value_int=128)
    yield helper.make_node("Cast", [half], [f"{half}.wide"], to=TensorProto.INT32)
    operands = [*node.input, *[""] * (places.zero + 1 - len(node.input))]
    if operands[places.zero]:
        yield from _codes(operands[places.zero], zero, f"{half}.wide")
    else:
        yield helper.make_node("Cast", [half], [zero], to=TensorProto.UINT8)
    yield from _codes(operands[places.right], f"{name}.weights", f"{half}.wide")
    operands[places.right], operands[places.zero] = f"{name}.weights", zero
    product = onnx.NodeProto()
    product.CopyFrom(node)
    del product.input[:]
    product.input.extend(operands)
    yield product


def _saturates(node: onnx.NodeProto, places: _Places, kinds: Mapping[str, int]) -> bool:
    """Whether a product is of codes without a sign by codes with one."""
    left = TensorProto.UINT8 if node.op_type in _QUANTIZES else kinds.get(node.input[places.left])
    return (left, kinds.get(node.input[places.right])) == (TensorProto.UINT8, TensorProto.INT8)


def _codes(signed: str, name: str, half: str) -> Iterator[onnx.NodeProto]:
    """Codes with a sign plus 128, as codes without."""
    yield helper.make_node("Cast", [signed], [f"{name}.wide"], to=TensorProto.INT32)
    yield helper.make_node("Add", [f"{name}.wide", half], [f"{name}.sum"])
    yield helper.make_node("Cast", [f"{name}.sum"], [name], to=TensorProto.UINT8)
