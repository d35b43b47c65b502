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

BITS_OF_CODES = (2, 4, 8)
"""Of the codes of MatMulNBits, where products of them are computed: whole codes fill a byte."""

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

    for name, turned in _of_blocks(graph):
        if name not in transposed:
            transposed[name] = add(name, "transposed", turned)
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


def zeros_of_blocks(packed: np.ndarray, columns: int, blocks: int, bits: int) -> np.ndarray:
    """The zero points [columns, blocks] of MatMulNBits: numbers as they are; codes of some bits, of which those of a
    column fill whole bytes, the first in its lowest bits, one by one."""
    if packed.dtype != np.uint8:
        return packed.reshape(columns, blocks)
    codes = packed.reshape(columns, -1, 1) >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1
    return codes.reshape(columns, -1)[:, :blocks].astype(np.uint8)


def _of_blocks(graph: OperatorGraph) -> Iterator[tuple[str, np.ndarray]]:
    """Scales and zero points of blocks of depths, with these outermost: what a tile of columns needs of a block then
    lies side by side."""
    for op in graph.operators:
        known = [graph.constants.get(name) for name in op.inputs]
        values = [one.value if one else None for one in known]
        if op.kind == "DequantizeLinear" and op.dialect == "onnx" and _is_along_columns(op, values):
            of_blocks = zip(op.inputs[1:], values[1:], strict=True)
            yield from ((name, np.ascontiguousarray(_codes_of_bytes(v).T)) for name, v in of_blocks if v is not None)
        if op.kind == "com.microsoft::MatMulNBits" and all(v is not None for v in values[1:3]):
            columns, depth, size = (_number(op, name) for name in ("N", "K", "block_size"))
            blocks, bits = -(-depth // max(1, size)), _number(op, "bits") or 4
            if bits not in BITS_OF_CODES:
                continue
            if values[2] is not None and values[2].size == columns * blocks:
                yield op.inputs[2], np.ascontiguousarray(values[2].reshape(columns, blocks).T)
            zero = values[3] if len(values) > 3 else None
            per_byte = 1 if zero is None or zero.dtype != np.uint8 else 8 // bits
            if zero is not None and zero.size == columns * -(-blocks // per_byte):
                yield op.inputs[3], np.ascontiguousarray(zeros_of_blocks(zero, columns, blocks, bits).T)


def _is_along_columns(op: Operator, values: list[np.ndarray | None]) -> bool:
    """Whether blocks of a matrix of codes, all known, lie along its last axis."""
    matrices = [value for value in values if value is not None and value.ndim == 2]
    return len(matrices) == len(values) and _number(op, "block_size") > 0 and op.attributes.get("axis", 1) in (1, -1)


def _codes_of_bytes(value: np.ndarray) -> np.ndarray:
    """Codes of 4 bits one to a byte; anything else as it is."""
    narrow = {"int4": np.int8, "uint4": np.uint8}.get(dtype_text(value.dtype))
    return value.astype(narrow) if narrow else value


def _number(op: Operator, name: str) -> int:
    value = op.attributes.get(name, 0)
    return value if isinstance(value, int) else 0


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
