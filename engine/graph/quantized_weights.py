"""Constants that products of codes read beside their weights: computed once, when the file is read.

    MatMulInteger(x, W)    reads    W as rows of depths, which tensor cores load, and the sums of its columns, which the
                                    zero point of x is multiplied by
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from engine.graph.nodes import Constant, Operator, OperatorGraph, Tensor, dtype_text

CODES = ("int8", "uint8")
"""Types of codes whose products are summed in int32."""

HALF_BYTES = ("int4", "uint4")
"""Types of codes of which a byte holds two."""

_MATRIX_PRODUCTS: Mapping[str, tuple[int, int]] = {
    "MatMulInteger": (1, 2), "QLinearMatMul": (3, 2), "MatMul": (1, -1), "Gemm": (1, -1),
}  # fmt: skip
"""Operator -> places of its weight and of the first operand's zero point; -1: that of its DequantizeLinear."""
_CONVOLUTIONS: Mapping[str, tuple[int, int]] = {"ConvInteger": (1, 2), "QLinearConv": (3, 2), "Conv": (1, -1)}


@dataclass(frozen=True, slots=True)
class _WeightUse:
    """A constant weight of a product of codes."""

    weight: str
    reduced: tuple[int, ...]
    """Axes that are summed."""
    is_matrix: bool
    """Whether its rows are not depths: [K, N]."""
    is_shifted: bool
    """Whether the other operand may have a zero point."""


def with_prepared_weights(graph: OperatorGraph) -> OperatorGraph:
    """The graph with transposed weights and sums of weights as constants, where its products of codes read them, and
    with codes of 4 bits in pairs."""
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    transposed: dict[str, str] = {}
    sums: dict[str, str] = {}
    pairs: dict[str, str] = {}

    def add(weight: str, suffix: str, value: np.ndarray) -> str:
        name = f"{weight}.{suffix}"
        while name in tensors:
            name += "_"
        tensors[name] = Tensor(name, tuple(value.shape), dtype_text(value.dtype))
        constants[name] = Constant(name, value=value)
        return name

    for use in _uses(graph):
        value = graph.constants[use.weight].value
        assert value is not None
        if use.is_matrix and use.weight not in transposed:
            transposed[use.weight] = add(use.weight, "transposed", np.ascontiguousarray(np.swapaxes(value, -1, -2)))
        if use.is_shifted and use.weight not in sums:
            total = value.sum(use.reduced, dtype=np.int32)
            # It broadcasts to the results: a convolution's channels stand before its spatial axes.
            sums[use.weight] = add(use.weight, "sums", total.reshape(-1, *(1,) * (value.ndim - 2)))
    for name, constant in graph.constants.items():
        if graph.tensors[name].dtype in HALF_BYTES and constant.value is not None and constant.value.size:
            pairs[name] = add(name, "pairs", _in_pairs(constant.value))
    if not transposed and not sums and not pairs:
        return graph
    return replace(graph, tensors=tensors, constants=constants, transposed=transposed, sums=sums, pairs=pairs)


def _in_pairs(value: np.ndarray) -> np.ndarray:
    """Codes of 4 bits as bytes, the first of two in the low half; along the last axis, where it has whole pairs."""
    halves = value.astype(np.int8).view(np.uint8) & 15
    if value.ndim == 0 or value.shape[-1] % 2:
        halves = np.pad(halves.reshape(-1), (0, value.size % 2))
    return halves[..., ::2] | halves[..., 1::2] << 4


def _uses(graph: OperatorGraph) -> Iterator[_WeightUse]:
    """Weights of products, two axes to a matrix, three and more to a convolution."""
    producer = graph.producer()
    for op in graph.operators:
        is_matrix = op.kind in _MATRIX_PRODUCTS
        places = _MATRIX_PRODUCTS.get(op.kind) or _CONVOLUTIONS.get(op.kind)
        if places is None or op.dialect != "onnx" or len(op.inputs) <= places[0]:
            continue
        weight, zero = op.inputs[places[0]], op.inputs[places[1]] if len(op.inputs) > places[1] else ""
        if places[1] < 0:
            sources = [producer.get(name) for name in op.inputs[:2]]
            if any(source is None or source.kind != "DequantizeLinear" for source in sources):
                continue
            image, weights = (source for source in sources if source is not None)
            weight, zero = weights.inputs[0], image.inputs[2] if len(image.inputs) > 2 else ""
        known = graph.constants.get(weight)
        if known is None or known.value is None or graph.tensors[weight].dtype not in CODES:
            continue
        shape = known.value.shape
        if (len(shape) != 2) if is_matrix else (len(shape) < 3):
            continue
        is_transposed = op.kind == "Gemm" and _is_set(op, "transB")
        reduced = ((1,) if is_transposed else (0,)) if is_matrix else tuple(range(1, len(shape)))
        yield _WeightUse(weight, reduced, is_matrix and not is_transposed, _may_shift(graph, zero))


def _is_set(op: Operator, name: str) -> bool:
    return bool(op.attributes.get(name, 0))


def _may_shift(graph: OperatorGraph, zero: str) -> bool:
    """Whether a zero point may be another number than 0."""
    known = graph.constants.get(zero)
    return bool(zero) and (known is None or known.value is None or bool(known.value.any()))
