"""ONNX Runtime's own operators on quantised tensors, written out: DequantizeLinear, what they compute, QuantizeLinear.

    com.microsoft.QLinearAdd(a, sa, za, b, sb, zb, sc, zc)  ->  DequantizeLinear, DequantizeLinear, Add, QuantizeLinear

Products of what is dequantised become products of codes when they are lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx

from engine.graph.expansion import Expansion

DOMAIN = "com.microsoft"
_SINCE_DYNAMIC = 11
_SINCE_BITWISE = 18
INT32 = onnx.TensorProto.INT32
_SINCE_AXIS = 13
"""Operator set from which on scales may change along an axis."""


def _dequantize(body: Expansion, first: int, axis: int | None = None) -> str:
    """The operand at a place, with its scale and its zero point behind it, as numbers."""
    return dequantize(body, (body.operand(first), body.operand(first + 1), body.operand(first + 2)), axis)


def dequantize(body: Expansion, quantised: tuple[str, str, str], axis: int | None = None) -> str:
    """What codes stand for.  quantised: codes, scale, zero point or ""."""
    x, scale, zero = quantised
    operands = filter(None, (x, scale, zero))
    if axis is None or body.opset < _SINCE_AXIS:
        return body.add("DequantizeLinear", *operands)
    return body.add("DequantizeLinear", *operands, axis=axis)


def _quantize(body: Expansion, x: str, scale: str, zero: str) -> None:
    """As the node's first result."""
    body.add("QuantizeLinear", x, scale, *([zero] if zero else []), result=body.node.output[0])


def _binary(kind: str) -> Callable[[Expansion], bool]:
    def write(body: Expansion) -> bool:
        product = body.add(kind, _dequantize(body, 0), _dequantize(body, 3))
        _quantize(body, product, body.operand(6), body.operand(7))
        return True

    return write


def _unary(kind: str) -> Callable[[Expansion], bool]:
    """An operator with the standard's attributes."""

    def write(body: Expansion) -> bool:
        _quantize(body, body.add_like(kind, _dequantize(body, 0)), body.operand(3), body.operand(4))
        return True

    return write


def _softmax(body: Expansion) -> bool:
    x = _dequantize(body, 0)
    axis = int(body.attribute("axis", -1))
    if int(body.attribute("opset", 13)) < _SINCE_AXIS and axis != -1:
        return False  # of a matrix whose columns are all axes from there on
    _quantize(body, body.add("Softmax", x, axis=axis), body.operand(3), body.operand(4))
    return True


def _pool(kind: str) -> Callable[[Expansion], bool]:
    def write(body: Expansion) -> bool:
        if body.attribute("channels_last", 0):
            return False
        x = _dequantize(body, 0)
        _quantize(body, body.add_like(kind, x), body.operand(3), body.operand(4))
        return True

    return write


def _concat(body: Expansion) -> bool:
    parts = [_dequantize(body, first) for first in range(2, len(body.node.input), 3)]
    whole = body.add("Concat", *parts, axis=int(body.attribute("axis", 0)))
    _quantize(body, whole, body.operand(0), body.operand(1))
    return True


def _where(body: Expansion) -> bool:
    chosen = body.add("Where", body.operand(0), _dequantize(body, 1), _dequantize(body, 4))
    _quantize(body, chosen, body.operand(7), body.operand(8))
    return True


def _gemm(body: Expansion) -> bool:
    """Of codes; a bias holds sums of codes.  Without a scale for them the results are numbers."""
    is_transposed = bool(body.attribute("transB", 0))
    a, b = _dequantize(body, 0), _dequantize(body, 3, axis=0 if is_transposed else 1)
    alpha = body.attribute("alpha", 1.0)
    attributes = {"transA": int(body.attribute("transA", 0)), "transB": int(is_transposed), "alpha": alpha}
    operands = [a, b]
    if body.operand(6):
        # C is int32 with the scale alpha sa sb, one for each column where those of b are.
        scale = body.add("Mul", body.operand(1), body.operand(4))
        bias = body.add("Mul", body.add("Cast", body.operand(6), to=onnx.TensorProto.FLOAT), scale)
        operands.append(bias if alpha == 1 else body.add("Mul", bias, body.number(alpha, bias)))
    result = "" if body.operand(7) else body.node.output[0]
    product = body.add("Gemm", *operands, result=result, **attributes)
    if body.operand(7):
        _quantize(body, product, body.operand(7), body.operand(8))
    return True


def _matmul_to_float(body: Expansion) -> bool:
    """A, B, scales and zero points of both, and a bias: as numbers."""
    a = dequantize(body, (body.operand(0), body.operand(2), body.operand(4)))
    return _multiply(body, a, (body.operand(1), body.operand(3), body.operand(5)), body.operand(6))


def _dynamic_matmul(body: Expansion) -> bool:
    """Numbers, which are quantised over their range, times codes."""
    if body.opset < _SINCE_DYNAMIC:
        return False
    codes, scale, zero = body.add_all("DynamicQuantizeLinear", body.operand(0), results=("", "", ""))
    weight = body.operand(1), body.operand(2), body.operand(3)
    return _multiply(body, dequantize(body, (codes, scale, zero)), weight, body.operand(4))


def _multiply(body: Expansion, a: str, b: tuple[str, str, str], bias: str) -> bool:
    """The product with a matrix of codes, whose scales may be one for each column, and a bias."""
    result = body.node.output[0]
    product = body.add("MatMul", a, dequantize(body, b, axis=1), result="" if bias else result)
    if bias:
        body.add("Add", product, bias, result=result)
    return True


def _nbits_matmul(body: Expansion) -> bool:
    """x W', where W[N, K] lies in blocks of codes of 2, 4 or 8 bits, the first of a byte in its lowest bits.

    The middle code stands for 0 where no zero points are given; those are codes or numbers, one of each block.
    """
    bits = int(body.attribute("bits", 4))
    if bits not in (2, 4, 8) or body.operand(4) or body.opset < _SINCE_AXIS or body.attribute("weight_prepacked", 0):
        return False
    depth, rows, block = (int(body.attribute(name, 0)) for name in ("K", "N", "block_size"))
    if block < 2 or depth < 1 or rows < 1:
        return False
    blocks = -(-depth // block)

    def of_elements(x: str) -> str:
        """What blocks share, for each of their elements."""
        each = body.add("Reshape", x, body.constant(np.array([rows, blocks, 1])))
        each = body.add("Expand", each, body.constant(np.array([rows, blocks, block])))
        return _first_columns(body, body.add("Reshape", each, body.constant(np.array([rows, blocks * block]))), depth)

    codes = _first_columns(body, _codes(body, body.operand(1), (rows, blocks * block), bits), depth)
    zero = body.constant(np.array(1 << bits - 1, np.int32))
    has_numbers = body.element_type(body.operand(3)) not in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.UINT8)
    if has_numbers:
        zero, codes = of_elements(body.operand(3)), body.cast(codes, body.operand(3))
    elif body.operand(3):
        # Zero points of a row fill whole bytes.
        per_byte = 8 // bits
        whole = _codes(body, body.operand(3), (rows, -(-blocks // per_byte) * per_byte), bits)
        zero = of_elements(_first_columns(body, whole, blocks))
    steps = body.add("Sub", codes, zero)
    steps = steps if has_numbers else body.cast(steps, body.operand(2))
    weight = body.add("Mul", steps, of_elements(body.operand(2)))
    result, bias = body.node.output[0], body.operand(5)
    swapped = body.add("Transpose", weight, perm=[1, 0])
    product = body.add("MatMul", body.operand(0), swapped, result="" if bias else result)
    if bias:
        body.add("Add", product, bias, result=result)
    return True


def _first_columns(body: Expansion, x: str, count: int) -> str:
    """The first columns of a matrix, which last codes fill up to whole blocks or bytes."""
    return body.add("Slice", x, *(body.constant(np.array([value])) for value in (0, count, 1)))


def _codes(body: Expansion, packed: str, shape: tuple[int, int], bits: int) -> str:
    """The codes of some bits of bytes, as int32 of a shape.

    All steps but layouts have that shape, so that one kernel can take them in where it reads a code.
    """
    (rows, columns), per_byte = shape, 8 // bits
    if per_byte == 1:
        return body.add("Cast", body.add("Reshape", packed, body.constant(np.array(shape))), to=INT32)
    bytes_ = body.add("Reshape", packed, body.constant(np.array([rows, columns // per_byte, 1])))
    bytes_ = body.add("Expand", bytes_, body.constant(np.array([rows, columns // per_byte, per_byte])))
    bytes_ = body.add("Reshape", bytes_, body.constant(np.array(shape)))
    shifts = body.constant(np.tile(np.arange(0, 8, bits, dtype=np.uint8), columns // per_byte))
    shifted = body.add("BitShift", bytes_, shifts, direction="RIGHT")
    if body.opset >= _SINCE_BITWISE:
        mask = body.constant(np.array((1 << bits) - 1, np.uint8))
        return body.add("Cast", body.add("BitwiseAnd", shifted, mask), to=INT32)
    return body.add("Mod", body.add("Cast", shifted, to=INT32), body.constant(np.array(1 << bits, np.int32)))


def _same(kind: str) -> Callable[[Expansion], bool]:
    """The standard's operator, which takes the same operands."""

    def write(body: Expansion) -> bool:
        if body.opset < _SINCE_AXIS or body.attribute("block_size", 0):
            return False
        body.add(kind, *filter(None, body.node.input), result=body.node.output[0], axis=int(body.attribute("axis", 1)))
        return True

    return write


BODIES: Mapping[tuple[str, str], Callable[[Expansion], bool]] = {
    (DOMAIN, "QLinearAdd"): _binary("Add"), (DOMAIN, "QLinearMul"): _binary("Mul"),
    (DOMAIN, "QLinearSigmoid"): _unary("Sigmoid"), (DOMAIN, "QLinearLeakyRelu"): _unary("LeakyRelu"),
    (DOMAIN, "QLinearSoftmax"): _softmax, (DOMAIN, "QLinearGlobalAveragePool"): _pool("GlobalAveragePool"),
    (DOMAIN, "QLinearAveragePool"): _pool("AveragePool"), (DOMAIN, "QLinearConcat"): _concat,
    (DOMAIN, "QLinearWhere"): _where, (DOMAIN, "QGemm"): _gemm, (DOMAIN, "MatMulIntegerToFloat"): _matmul_to_float,
    (DOMAIN, "DynamicQuantizeMatMul"): _dynamic_matmul,
    (DOMAIN, "QuantizeLinear"): _same("QuantizeLinear"), (DOMAIN, "DequantizeLinear"): _same("DequantizeLinear"),
}  # fmt: skip
"""(domain, operator) -> what writes it out; False for a form that it does not know."""
COMPILED: Mapping[tuple[str, str], Callable[[Expansion], bool]] = {(DOMAIN, "MatMulNBits"): _nbits_matmul}
"""Operators that have rules of their own: written out for who checks these, whatever ONNX Runtime's kernels round."""
