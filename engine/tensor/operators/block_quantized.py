"""ONNX Runtime's product with weights in blocks of codes, as DequantizeLinear and a product in one.

    MatMulNBits(x, w, s, z)    y[.., n] = sum(k) x[.., k] * (code(w, n, k) - z[n, k / block]) * s[n, k / block]

Its attributes and operands are those of ONNX Runtime's ContribOperators.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.graph.nodes import Operator
from engine.graph.quantized_weights import BITS_OF_CODES, zeros_of_blocks
from engine.support.errors import Unsupported
from engine.tensor.build import Domain, StatementBuilder, box
from engine.tensor.index import Index
from engine.tensor.operators.attributes import integer, present
from engine.tensor.operators.contractions import matrix_factors
from engine.tensor.operators.products import multiply_sum
from engine.tensor.operators.registry import operator
from engine.tensor.terms import Term, apply, cast, position, wide


@dataclass(frozen=True, slots=True)
class _Blocks:
    """How the codes of a weight [columns, depth] lie."""

    columns: int
    depth: int
    bits: int
    size: int
    """Depths that share a scale and a zero point."""

    @property
    def count(self) -> int:
        """Blocks of a column."""
        return -(-self.depth // self.size)

    @property
    def per_byte(self) -> int:
        """Codes of a byte, the first in its lowest bits."""
        return 8 // self.bits

    @property
    def bytes_of_zeros(self) -> int:
        """That hold the zero points of a column."""
        return -(-self.count // self.per_byte)


def _blocks_of(op: Operator) -> _Blocks:
    """Raises Unsupported for forms that are not computed."""
    found = _Blocks(integer(op, "N", 0), integer(op, "K", 0), integer(op, "bits", 4), integer(op, "block_size", 0))
    reason = ""
    if found.bits not in BITS_OF_CODES:
        reason = f"has codes of {found.bits} bits; 2, 4 and 8 are computed"
    elif found.size < found.per_byte or found.size % found.per_byte or found.depth < 1 or found.columns < 1:
        reason = f"has blocks of {found.size} codes of {found.depth} x {found.columns}"
    elif present(op, 4):
        reason = "has its depths in another order (g_idx)"
    elif integer(op, "weight_prepacked", 0):
        reason = "has weights in an order that one processor likes"
    if reason:
        raise Unsupported("tensor", f"operator {op.name}", f"MatMulNBits {reason}", "export it without")
    return found


def _meaning(op: Operator, operands: list[np.ndarray]) -> list[np.ndarray]:
    blocks, (x, packed, scale) = _blocks_of(op), operands[:3]
    shifts = np.arange(0, 8, blocks.bits)
    codes = packed.reshape(blocks.columns, -1, 1) >> shifts & (1 << blocks.bits) - 1
    zero: np.ndarray = np.full((blocks.columns, blocks.count), 1 << blocks.bits - 1)
    if present(op, 3):
        zero = zeros_of_blocks(operands[3], blocks.columns, blocks.count, blocks.bits)
    of_element = np.arange(blocks.depth) // blocks.size
    steps = codes.reshape(blocks.columns, -1)[:, : blocks.depth].astype(x.dtype) - zero[:, of_element].astype(x.dtype)
    product = x @ (steps * scale.reshape(blocks.columns, -1)[:, of_element].astype(x.dtype)).T
    return [product + operands[5] if present(op, 5) else product]


@operator("onnx.com.microsoft::MatMulNBits", meaning=_meaning)
def matmul_nbits(op: Operator, build: StatementBuilder) -> None:
    """x W' + bias, where the weight is (code - zero point) * scale, rounded to the type of x."""
    blocks, target = _blocks_of(op), op.outputs[0]
    weight_space = box((blocks.columns, blocks.depth))
    scale = _of_block(build, op.inputs[2], blocks, weight_space)
    steps = _steps(op, build, blocks, weight_space)
    value = cast(cast(steps, "float32") * scale, build.dtype(op.inputs[0]))
    weight = build.define(target, "weight", weight_space, value, because="what the codes stand for")
    shape = build.shape(op.inputs[0])
    swapped = build.temporary(target, "turned", (blocks.depth, blocks.columns), build.dtype(weight))
    build.layout(weight, swapped, lambda space: space.written[::-1], because="a matrix of columns")
    has_bias = present(op, 5)
    result = build.temporary(target, "product", build.shape(target), build.dtype(target)) if has_bias else target
    if shape[-1] != blocks.depth:
        raise Unsupported("tensor", f"operator {op.name}", f"{op.inputs[0]} has no {blocks.depth} columns")
    multiply_sum(build, result, *matrix_factors(build, op.inputs[0], swapped, result))
    if has_bias:
        space = box(build.shape(target))
        build.emit(target, space, build.read(result, space.written) + build.broadcast(op.inputs[5], space))


def _code(op: Operator, build: StatementBuilder, blocks: _Blocks, space: Domain) -> Term:
    """The code of an element of the weight, as int32."""
    column, depth = space.written
    name, bytes_ = op.inputs[1], blocks.size // blocks.per_byte
    byte = depth.floordiv(blocks.per_byte, space.extents)
    at = [column, byte.floordiv(bytes_, space.extents), byte.mod(bytes_, space.extents)]
    if math.prod(build.shape(name)) != blocks.columns * blocks.count * bytes_ or len(build.shape(name)) != 3:
        raise Unsupported("tensor", f"operator {op.name}", f"{name} is no {blocks.columns} x {blocks.count} x {bytes_}")
    return _part(build.read(name, at), depth, blocks, space)


def _part(byte: Term, place: Index, blocks: _Blocks, space: Domain) -> Term:
    """The code of a place among those of a byte."""
    whole = cast(byte, "int32")
    if blocks.per_byte == 1:
        return whole
    number = cast(position(place.mod(blocks.per_byte, space.extents), "int32"), "int32")
    return apply("bit_and", apply("shift_right", whole, number * blocks.bits), (1 << blocks.bits) - 1)


def _steps(op: Operator, build: StatementBuilder, blocks: _Blocks, space: Domain) -> Term:
    """Steps of an element from the zero point of its block, the middle code where none is given: an integer, or a
    number of the type of zero points that are numbers."""
    code = _code(op, build, blocks, space)
    if not present(op, 3):
        return code - (1 << blocks.bits - 1)
    name = op.inputs[3]
    dtype = build.dtype(name)
    if dtype != "uint8":
        return cast(cast(code, "float32") - _of_block(build, name, blocks, space), dtype)
    if build.transpose_of(name) is not None:
        return code - _of_block(build, name, blocks, space)
    column, depth = space.written
    block = depth.floordiv(blocks.size, space.extents)
    byte = block.floordiv(blocks.per_byte, space.extents)
    at = [column, byte] if len(build.shape(name)) == 2 else [column * blocks.bytes_of_zeros + byte]
    return code - _part(build.read(name, at), block, blocks, space)


def _of_block(build: StatementBuilder, name: str, blocks: _Blocks, space: Domain) -> Term:
    """What the elements of a block share, a number; codes as int32."""
    column, depth = space.written
    block, turned = depth.floordiv(blocks.size, space.extents), build.transpose_of(name)
    if turned is not None:
        found = build.read(turned, [block, column])
    elif len(build.shape(name)) == 2:
        found = build.read(name, [column, block])
    else:
        found = build.read(name, [column * blocks.count + block])
    return wide(found) if "float" in found.dtype else cast(found, "int32")
